from __future__ import annotations

import argparse
import json

import pytest

from epochal.cli.schedule import configure, run

Capture = pytest.CaptureFixture[str]

TEXT = "warmup(cosine(1e-3,1e-6,1000),100)"


def schedule(*args: str) -> int:
    parser = argparse.ArgumentParser()
    configure(parser)
    return run(parser.parse_args(args))


def test_a_schedule_is_drawn_within_80_columns(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert schedule(TEXT) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "warmup(cosine(0.001,1e-06,1000),100)"
    assert max(map(len, lines)) <= 80
    assert lines[-1].endswith("1,100 steps")


def test_the_number_of_steps_can_be_told(capsys: Capture) -> None:
    schedule(TEXT, "--steps", "250")
    assert "250 steps" in capsys.readouterr().out


def test_json_holds_every_rate(capsys: Capture) -> None:
    schedule("linear(0,1,4)", "--json")
    assert json.loads(capsys.readouterr().out) == {
        "schedule": "linear(0.0,1.0,4)",
        "state": {"schedule": "linear", "start_lr": 0.0, "end_lr": 1.0, "total_steps": 4},
        "lr": [0.0, 0.25, 0.5, 0.75, 1.0],
    }


def test_a_mistake_is_raised_as_a_sentence() -> None:
    with pytest.raises(ValueError, match="'cosin' is no schedule"):
        schedule("cosin(1,0,5)")
    with pytest.raises(ValueError, match="--steps must be at least 1"):
        schedule(TEXT, "--steps", "0")
