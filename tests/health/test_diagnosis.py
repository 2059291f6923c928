"""One diagnosis for everyone who makes one."""

from __future__ import annotations

import math
from typing import Any

from epochal.health import diagnose
from epochal.health.engine import Health
from epochal.health.finding import dedup_key


def losses(*values: float) -> list[dict[str, Any]]:
    return [
        {"log": "step", "t": float(step), "step": step, "loss": loss}
        for step, loss in enumerate(values)
    ]


LOST = losses(*[1.0] * 20, *[math.nan] * 10)


def test_records_in_findings_out() -> None:
    (found,) = diagnose(LOST)
    assert (found.rule, found.series, found.state) == ("nonfinite", "train/loss", "open")
    assert found.steps == (20, 29)


def test_a_finding_that_is_over_is_given_once() -> None:
    (found,) = diagnose([*LOST, *losses(*[1.0] * 60)[30:]])
    assert (found.rule, found.state) == ("nonfinite", "closed")


def test_a_silenced_rule_finds_nothing() -> None:
    assert diagnose(LOST, silenced=["nonfinite"]) == []


def test_what_was_written_before_is_not_said_again() -> None:
    first, again = Health(), Health()
    said = [finding for record in LOST for finding in first.feed(record)]
    again.written |= {dedup_key(finding.record()) for finding in said}
    assert said
    assert [finding for record in LOST for finding in again.feed(record)] == []


def test_closing_twice_says_nothing_twice() -> None:
    diagnosis = Health()
    for record in LOST:
        diagnosis.feed(record)
    diagnosis.close()
    assert diagnosis.close() == []
