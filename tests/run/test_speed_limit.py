from __future__ import annotations

from typing import Any

import pytest

from epochal.run.run import Run
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

PARTS: dict[str, Any] = {"blocks": 5e8, "lm_head": 2e8, "attention": 5e7}
STEP = (1, 0.1, 10_000, 250.0, 1.0, 2.0, 1e-3)


class Estimate:
    """Stands where an answer of ``speed_of_light`` would, without torch."""

    def fields(self) -> dict[str, Any]:
        return {**PARTS, "tps": 100_000.0, "useful_tps": 80_000.0, "device": "NVIDIA H200"}


def step_after(run: Run, **more: Any) -> dict[str, Any]:
    run.log_step(*STEP, **more)
    record: dict[str, Any] = of_kind(run.dir, "step")[-1]
    return record


def test_steps_have_their_share_of_the_speed_of_light(start_run: StartRun) -> None:
    run = start_run()
    run.log_sol_estimate(**PARTS, tps=100_000)
    record = step_after(run)
    assert record["sol"] == 40.0  # 40,000 tokens per second
    assert "m" not in record


def test_an_estimate_gives_the_utilisation_of_the_model_too(start_run: StartRun) -> None:
    run = start_run()
    run.log_sol_estimate(Estimate())
    record = step_after(run, metrics={"z": 1})
    assert record["sol"] == 40.0
    assert record["m"] == {"z": 1, "train/mfu": 50.0}
    assert of_kind(run.dir, "sol")[0]["device"] == "NVIDIA H200"


def test_what_the_caller_gives_stays(start_run: StartRun) -> None:
    run = start_run()
    run.log_sol_estimate(Estimate())
    record = step_after(run, sol=12.5, metrics={"mfu": 33.0})
    assert record["sol"] == 12.5
    assert record["m"] == {"mfu": 33.0}


def test_without_a_speed_or_a_duration_nothing_is_made_up(start_run: StartRun) -> None:
    run = start_run()
    assert "sol" not in step_after(run)
    run.log_sol_estimate(**PARTS)
    assert "sol" not in step_after(run)
    run.log_sol_estimate(Estimate())
    run.log_step(1, 0.1, 10_000, 0.0, 1.0, 2.0, 1e-3)
    run.log_step(2, 0.1, 10_000, float("nan"), 1.0, 2.0, 1e-3)
    assert all("sol" not in record for record in of_kind(run.dir, "step"))


def test_the_step_line_shows_it(start_run: StartRun, capsys: pytest.CaptureFixture[str]) -> None:
    run = start_run(console=True)
    run.log_sol_estimate(Estimate())
    step_after(run)
    shown = capsys.readouterr().err
    assert "[Speed of Light]\n  Device:    NVIDIA H200\n" in shown
    assert "| sol 40.0" in shown


def test_phases_learn_the_time_of_a_step_at_the_speed_of_light(start_run: StartRun) -> None:
    run = start_run()
    run.log_sol_estimate(Estimate())
    for step in range(3):
        with run.phase("forward"):
            pass
        run.log_step(step, *STEP[1:])
    run.finish()
    assert of_kind(run.dir, "phases")[0]["ideal_ms"] == 100.0
