"""``epochal figure``: file types, groups, and sentences about what is missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from epochal.cli.main import main
from epochal.exports.figure import read_panel
from epochal.series.smooth import Smoothing
from epochal.store.local.catalog import folder_store
from tests.conftest import StartRun

STEPS = 30


@pytest.fixture
def sweep(start_run: StartRun, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Six runs: two learning rates with three seeds each."""
    monkeypatch.chdir(tmp_path)
    for lr in (0.1, 0.2):
        for seed in range(3):
            config = {"lr": lr, "seed": seed}
            with start_run(f"lr{lr}-{seed}", config=config) as run:
                for step in range(STEPS):
                    run.log({"train/loss": 1 + lr * seed + 1 / (step + 1)}, step=step)
    return run.dir.parent.parent


def test_the_suffix_selects_the_file_type(sweep: Path, tmp_path: Path) -> None:
    for suffix, start in (("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")):
        file = tmp_path / f"figure.{suffix}"
        words = ["lr0.1-0", "lr0.2-0", "-m", "loss", "--log", "--smooth", "-o", str(file)]
        assert main(["--dir", str(sweep), "figure", *words]) == 0
        assert file.read_bytes().startswith(start)
    # Type 3 fonts are refused by many publishers.
    assert b"/Subtype /Type3" not in (tmp_path / "figure.pdf").read_bytes()
    with Image.open(tmp_path / "figure.png") as image:
        assert image.width == 1020  # 3.4 inches at 300 dots per inch


def test_without_a_name_the_file_is_called_like_the_metric(sweep: Path, tmp_path: Path) -> None:
    assert main(["--dir", str(sweep), "figure", "lr0.1-0", "-m", "train/loss"]) == 0
    assert (tmp_path / "train-loss.pdf").exists()


def test_a_group_is_its_mean_with_a_band(sweep: Path, tmp_path: Path) -> None:
    with folder_store(sweep) as store:
        panel = read_panel(list(store.runs()), "loss", group_by=["lr"])
    assert [line.label for line in panel.lines.values()] == ["lr=0.1 (n=3)", "lr=0.2 (n=3)"]
    first = panel.lines[0]
    assert first.y.tolist() == pytest.approx([1.1 + 1 / (step + 1) for step in range(STEPS)])
    assert first.band is not None
    # The 95 % interval of the mean of 1.0, 1.1 and 1.2, by the t distribution.
    assert (first.band[1] - first.y).tolist() == pytest.approx([0.2484] * STEPS, abs=1e-4)
    words = ["-m", "loss", "-m", "train/loss", "--group-by", "lr", "-o", "groups.svg"]
    assert main(["--dir", str(sweep), "figure", str(sweep), *words]) == 0
    assert (tmp_path / "groups.svg").exists()


def test_a_formula_is_drawn_like_a_metric(sweep: Path) -> None:
    with folder_store(sweep) as store:
        panel = read_panel(list(store.runs()), "loss - 1", group_by=["lr"])
    assert panel.lines[0].y.tolist() == pytest.approx([0.1 + 1 / (n + 1) for n in range(STEPS)])


def test_a_long_run_keeps_its_spike_and_a_smoothed_one_its_values(start_run: StartRun) -> None:
    with start_run("long") as run:
        for step in range(5000):
            run.log({"loss": 9.0 if step == 2345 else 1.0}, step=step)
    with folder_store(run.dir.parent.parent) as store:
        line = read_panel(list(store.runs()), "loss", smoothing=Smoothing("ema", 0.9)).lines[0]
    assert line.raw is not None
    assert (line.raw[1].max(), line.raw[0][line.raw[1].argmax()]) == (9.0, 2345)
    assert line.x.size <= 2002
    assert 1.5 < line.y.max() < 2.0


def test_mistakes_are_one_sentence(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words, sentence in (
        (["lr0.1-0", "-m", "train/los"], "has no metric 'train/los'. Did you mean 'train/loss'?"),
        (["nothing", "-m", "loss"], "there is no run 'nothing'"),
        (["lr0.1-0", "-m", "loss", "-o", "a.jpg"], "must end in .pdf, .svg or .png"),
    ):
        assert main(["--dir", str(sweep), "figure", *words]) == 2
        assert sentence in capsys.readouterr().err


def test_without_matplotlib_it_says_what_to_install(sweep: Path) -> None:
    code = (
        "import sys; sys.modules['matplotlib'] = None; from epochal.cli.main import main;"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ["--dir", str(sweep), "figure", "lr0.1-0", "-m", "loss"]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 2
    assert "pip install 'epochal[figures]'" in done.stderr
