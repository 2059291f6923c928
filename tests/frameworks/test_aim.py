"""A real Aim repository is copied, whole, damaged, and while a run is open."""

from __future__ import annotations

import math
from pathlib import Path

import aim
import numpy as np
import pytest

from epochal.cli.main import main
from tests.frameworks.reading import config, points, records, run_folders, status

pytestmark = pytest.mark.filterwarnings("ignore")


def started(name: str) -> aim.Run:
    run = aim.Run(
        repo="repo",
        experiment="digits",
        log_system_params=False,
        capture_terminal_logs=False,
        system_tracking_interval=None,
    )
    run.name = name
    return run


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "repo").mkdir()
    run = started("first")
    run.description = "a note"
    run.add_tag("team")
    run["hparams"] = {"lr": 0.1, "layers": [1, 2], "deep": {"x": True}}
    run["seed"] = 3
    for step in range(300):
        run.track(1 / (step + 1), name="loss", step=step, context={"subset": "train"})
        run.track(2 / (step + 1), name="loss", step=step, context={"subset": "val"})
    for step, value in enumerate((math.nan, math.inf, 1.5)):
        run.track(value, name="odd", step=step)
    run.track(7, name="power", step=0, context={"gpu": 0})
    run.track(aim.Text("hello"), name="note", step=1)
    run.track(aim.Distribution(np.arange(100.0)), name="weights", step=2)
    run.track(
        aim.Image(np.zeros((4, 4, 3), dtype=np.uint8), caption="black"), name="picture", step=3
    )
    run.close()
    return tmp_path / "repo"


def files_of(folder: Path) -> dict[str, tuple[int, int]]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in found}


def test_the_copy_has_what_aim_has(repo: Path, runs: Path) -> None:
    before = files_of(repo)
    assert main(["import", str(repo)]) == 0
    assert files_of(repo) == before
    (folder,) = run_folders(runs)
    assert (folder.parent.name, folder.name) == ("digits", "first")
    assert points(folder, "train/loss") == {step: 1 / (step + 1) for step in range(300)}
    assert points(folder, "val/loss") == {step: 2 / (step + 1) for step in range(300)}
    odd = points(folder, "odd")
    assert math.isnan(odd[0])
    assert (odd[1], odd[2]) == (math.inf, 1.5)
    assert points(folder, "power/gpu=0") == {0: 7.0}
    assert config(folder) == {"lr": 0.1, "layers": [1, 2], "deep": {"x": True}, "seed": 3}
    kinds = {r["log"]: r for r in records(folder)}
    assert kinds["text"]["text"] == "hello"
    assert kinds["histogram"]["count"] == 100
    assert kinds["blob"]["caption"] == "black"
    assert (folder / "blobs" / kinds["blob"]["file"]).read_bytes().startswith(b"\x89PNG")
    assert status(folder) == "finished"


def test_importing_again_copies_only_new_runs(
    repo: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", str(repo / ".aim")]) == 0
    second = started("second")
    second.track(1.0, name="loss", step=0)
    second.close()
    capsys.readouterr()
    assert main(["import", str(repo)]) == 0
    assert capsys.readouterr().out.count("nothing new") == 1
    assert len(run_folders(runs)) == 2


def test_a_run_that_is_open_has_no_end(repo: Path, runs: Path) -> None:
    going_on = started("open")
    going_on.track(1.0, name="loss", step=0)
    assert main(["import", str(repo)]) == 0
    assert not any(r["log"] == "finish" for r in records(runs / "digits" / "open"))
    going_on.close()


def test_a_damaged_run_leaves_the_others(
    repo: Path, runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (good,) = (path.name for path in (repo / ".aim" / "meta" / "chunks").iterdir())
    broken = started("broken")
    broken.track(1.0, name="loss", step=0)
    broken.close()
    (folder,) = (p for p in (repo / ".aim" / "meta" / "chunks").iterdir() if p.name != good)
    for file in folder.iterdir():
        file.write_bytes(b"rubbish")
    assert main(["import", str(repo)]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert [folder.name for folder in run_folders(runs)] == ["first"]
