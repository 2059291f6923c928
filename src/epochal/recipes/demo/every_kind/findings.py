"""What a diagnosis would have found in the made-up run: each accident, and advice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from epochal.recipes.demo.every_kind import scenario
from epochal.recipes.demo.every_kind.record_writer import RecordWriter
from epochal.recipes.demo.every_kind.scenario import FIRST, SECOND, Attempt


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as its records hold it; ``steps`` are the first and the last it is about."""

    rule: str
    severity: str
    sentence: str
    series: str
    steps: tuple[int, int]
    evidence: dict[str, Any]
    advice: str

    @property
    def id(self) -> str:
        """The same for the same rule, series and opening step."""
        text = f"{self.rule}\n{self.series}\n{self.steps[0]}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_NAN = Finding(
    rule="nonfinite",
    severity="error",
    sentence=f"train/loss was NaN at step {scenario.NAN_STEP}; the gradient norm was infinite.",
    series="train/loss",
    steps=(scenario.NAN_STEP, scenario.NAN_STEP),
    evidence={"loss": "nan", "norm": "inf", "lr": scenario.learning_rate(scenario.NAN_STEP)},
    advice="Skip steps whose norm is not finite, and look at the batch of that step.",
)
_HOT = Finding(
    rule="gpu-throttling",
    severity="warning",
    sentence=f"GPU {scenario.HOT_GPU} slowed itself down for heat: 91 °C, 1215 of 1980 MHz.",
    series=f"gpu/{scenario.HOT_GPU}/temperature",
    steps=(scenario.HOT_STEPS[0], scenario.HOT_STEPS[-1]),
    evidence={"temperature": 91, "temp_slowdown": 87, "clock": 1215, "max_clock": 1980},
    advice="Check the airflow of that slot, or lower its power limit.",
)
_SPIKE = Finding(
    rule="loss-spike",
    severity="warning",
    sentence=f"train/loss jumped by {scenario.SPIKE_RISE} at step {scenario.SPIKE_STEP}"
    " and came back.",
    series="train/loss",
    steps=(scenario.SPIKE_STEP, scenario.SPIKE_STEP),
    evidence={
        "loss": scenario.expected_loss(scenario.SPIKE_STEP) + scenario.SPIKE_RISE,
        "usual_loss": scenario.expected_loss(scenario.SPIKE_STEP),
        "norm": scenario.SPIKE_NORM,
        "usual_norm": 0.85,
    },
    advice="Clip gradients at a lower norm, or lower the learning rate a little.",
)
_FLAT = Finding(
    rule="plateau",
    severity="info",
    sentence="train/loss has improved by less than 2 % over the last 60 steps.",
    series="train/loss",
    steps=(340, 399),
    evidence={"improvement": 0.0116, "window": 60},
    advice="The schedule is near its end; a longer one may still help.",
)
# (attempt, finding, step at which it is seen, step at which it is closed or None)
_SEEN: tuple[tuple[Attempt, Finding, int, int | None], ...] = (
    (FIRST, _NAN, scenario.NAN_STEP, scenario.NAN_STEP + 10),
    (FIRST, _HOT, scenario.HOT_STEPS[0] + 3, None),
    (SECOND, _SPIKE, scenario.SPIKE_STEP, scenario.SPIKE_STEP + 10),
    (SECOND, _FLAT, scenario.NUM_STEPS - 1, None),
)


def write_findings(writer: RecordWriter, attempt: Attempt) -> None:
    """The findings of one attempt up to its end; one that ended is written again, closed."""
    for step, finding, state in sorted(_states(attempt), key=lambda seen: seen[0]):
        at = writer.at(attempt.seconds_at(step))
        fields = asdict(finding)
        fields["steps"] = list(finding.steps)
        writer.write({"log": "finding", "t": at, "id": finding.id, **fields, "state": state})
    # A file that was finished says that there was nothing else to find.
    writer.write({"log": "finish", "t": writer.at(attempt.ends_s), "status": "finished"})


def _states(attempt: Attempt) -> Iterator[tuple[int, Finding, str]]:
    for when, finding, opened, closed in _SEEN:
        if when is attempt:
            yield opened, finding, "open"
            if closed is not None:
                yield closed, finding, "closed"
