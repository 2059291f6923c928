"""The commands of the guide run in the order it gives them, at a small size."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch.distributed as dist

from epochal.cli.main import main as epochal_command
from epochal.exchange.sinks.keys import RoleTags
from flags import PRESETS
from sample import main as write_text
from tests.doubles.command_lines import understood
from tests.examples.gpt2.trainings import SCRIPT, SMALL, environment, run_here

GUIDE = (Path(__file__).parents[3] / "examples" / "gpt2" / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ (.*)$", GUIDE, flags=re.MULTILINE)
TRAINER, SAMPLER = "examples/gpt2/train.py", "examples/gpt2/sample.py"
# Not ours, or not installed for tests: that they are spelt right is for the reader to find out.
OTHERS = ("ssh", "tmux", "tensorboard")
ENDLESS = ("serve", "watch")
KEPT = ("--max_lr", "--data")


def write_data(folder: Path) -> None:
    shards = folder / "shards"
    shards.mkdir()
    rng = np.random.default_rng(1)
    for name in ("train_000001.npy", "train_000002.npy", "val_000000.npy"):
        np.save(shards / name, rng.integers(0, 256, 1000).astype(np.uint16))
    rows = [{"instruction": f"say {n}", "output": f"{n} {n}"} for n in range(20)]
    text = "\n".join(json.dumps(row) for row in rows)
    (folder / "instructions.jsonl").write_text(text, encoding="utf-8")
    (folder / "notes").mkdir()
    (folder / "notes" / "one.md").write_text("What I wrote down. " * 200, encoding="utf-8")


def small(words: list[str]) -> list[str]:
    """The command with its sizes made small; the later of two flags counts.

    What goes on from a checkpoint has steps left to make.
    """
    sizes = {**SMALL, "steps_per_epoch": 6, "vocab_size": 384, "tokenizer": "bytes"}
    sizes["max_steps"] = 12 if "branch" in words else 10 if "--resume" in words else 8
    given = {word for word in words if word in KEPT}
    more = [(f"--{name}", str(value)) for name, value in sizes.items() if f"--{name}" not in given]
    return [*words, *(word for pair in more for word in pair)]


def train(folder: Path, words: list[str]) -> str:
    at = words.index(TRAINER) + 1
    if words[0] == "python":
        code, shown = run_here(folder, small(words[at:]))
    else:
        if not dist.is_gloo_available():
            pytest.skip("torch without gloo")
        launcher = [sys.executable, "-m", "torch.distributed.run", *words[1 : at - 1], str(SCRIPT)]
        done = subprocess.run(
            [*launcher, *small(words[at:])],
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        code, shown = done.returncode, done.stderr
    assert code == 0, f"{shlex.join(words)}\n{shown}"
    return shown


def test_every_command_works_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_data(tmp_path)
    shown: dict[str, str] = {}
    for command in COMMANDS:
        words = shlex.split(command)
        if TRAINER in words:
            shown[command] = train(tmp_path, words)
        elif SAMPLER in words:
            code, text = run_here(tmp_path, words[2:], write_text)
            assert (code, "The cat" in text) == (0, True), text
        elif words[0] == "epochal":
            assert understood(words[1:]), words
            if words[1] not in ENDLESS:
                # doctor's exit code says whether it found something
                assert epochal_command(words[1:]) in ((0, 1) if words[1] == "doctor" else (0,))
        else:
            assert words[0] in OTHERS, command
    assert "resumed as attempt" in shown["python examples/gpt2/train.py --resume baseline"]
    assert not (tmp_path / "runs" / "gpt2" / "branch").exists()
    assert "baseline" in capsys.readouterr().out


def test_every_preset_is_named() -> None:
    assert [preset for preset in PRESETS if f"`{preset}`" not in GUIDE] == []


def test_the_table_of_tags_is_the_program_s() -> None:
    book = RoleTags()
    names = {
        "train/loss": "step",
        "eval/loss": "eval",
        "train/lr": "step",
        "train/norm": "step",
        "train/norm_clipped": "step",
        "train/duration_ms": "step",
        "train/tokens_per_second": "step",
        "train/epoch": "step",
        "train/sol": "step",
        "hellaswag_accuracy": "eval",
    }
    book.look(names)
    for name, kind in names.items():
        assert f"`{book.scalar(name, kind=kind)}`" in GUIDE
