"""Where a run goes to is said at its start, in code or in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.errors import UsageError
from epochal.journal.layout import read_json
from tests.conftest import StartRun


def test_a_run_that_goes_nowhere_keeps_no_file(start_run: StartRun) -> None:
    assert not (start_run().dir / "sinks.json").exists()


def test_trackers_and_their_options_are_noted(start_run: StartRun) -> None:
    run = start_run(report_to=["wandb", "tensorboard"], wandb_project="p")
    kept = read_json(run.dir / "sinks.json")
    assert kept["report_to"] == ["wandb", "tensorboard"]
    assert kept["options"] == {"wandb_project": "p"}


def test_a_file_may_say_it_beside_hyperparameters_and_code_wins(
    start_run: StartRun, tmp_path: Path
) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("report_to: aim\naim_experiment: file\nlr: 0.1\nverbosity: quiet\n")
    run = start_run(config=path, aim_experiment="code")
    kept = read_json(run.dir / "sinks.json")
    assert (kept["report_to"], kept["options"]) == (["aim"], {"aim_experiment": "code"})
    assert run.config == {"lr": 0.1}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"report_to": "wandbb"}, "not known"),
        ({"wandb_projct": "p"}, "did you mean 'wandb_project'"),
        ({"nonsense": 1}, "no argument 'nonsense'"),
    ],
)
def test_what_is_not_known_is_refused_with_the_nearest_that_is(
    start_run: StartRun, wrong: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError, match=sentence):
        start_run(**wrong)


def test_a_misspelt_option_in_a_file_is_refused(start_run: StartRun, tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("report_too: wandb\n")
    with pytest.raises(UsageError, match="report_to"):
        start_run(config=path)


def test_a_resumed_run_keeps_what_was_sent(start_run: StartRun) -> None:
    run = start_run(report_to="json_log")
    run.finish()
    again = start_run(report_to=["json_log", "tensorboard"], resume="must")
    assert read_json(again.dir / "sinks.json")["report_to"] == ["json_log", "tensorboard"]
