"""What a diagnosis would have found in the made-up run: each accident of the story, and advice."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from epochal.recipes.demo.every_kind import story
from epochal.recipes.demo.every_kind.scribe import Scribe
from epochal.recipes.demo.every_kind.story import FIRST, SECOND, Attempt


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
    sentence=f"train/loss was NaN at step {story.NAN_STEP}; the gradient norm was infinite.",
    series="train/loss",
    steps=(story.NAN_STEP, story.NAN_STEP),
    evidence={"loss": "nan", "norm": "inf", "lr": story.learning_rate(story.NAN_STEP)},
    advice="Skip steps whose norm is not finite, and look at the batch of that step.",
)
_HOT = Finding(
    rule="gpu-throttling",
    severity="warning",
    sentence=f"GPU {story.HOT_GPU} slowed itself down for heat: 91 °C, 1215 of 1980 MHz.",
    series=f"gpu/{story.HOT_GPU}/temperature",
    steps=(story.HOT_STEPS[0], story.HOT_STEPS[-1]),
    evidence={"temperature": 91, "temp_slowdown": 87, "clock": 1215, "max_clock": 1980},
    advice="Check the airflow of that slot, or lower its power limit.",
)
_SPIKE = Finding(
    rule="loss-spike",
    severity="warning",
    sentence=f"train/loss jumped by {story.SPIKE_RISE} at step {story.SPIKE_STEP} and came back.",
    series="train/loss",
    steps=(story.SPIKE_STEP, story.SPIKE_STEP),
    evidence={
        "loss": story.expected_loss(story.SPIKE_STEP) + story.SPIKE_RISE,
        "usual_loss": story.expected_loss(story.SPIKE_STEP),
        "norm": story.SPIKE_NORM,
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
    (FIRST, _NAN, story.NAN_STEP, story.NAN_STEP + 10),
    (FIRST, _HOT, story.HOT_STEPS[0] + 3, None),
    (SECOND, _SPIKE, story.SPIKE_STEP, story.SPIKE_STEP + 10),
    (SECOND, _FLAT, story.NUM_STEPS - 1, None),
)


def write_findings(scribe: Scribe, attempt: Attempt) -> None:
    """The findings of one attempt up to its end; one that ended is written again, closed."""
    for step, finding, state in sorted(_states(attempt), key=lambda seen: seen[0]):
        at = scribe.at(attempt.seconds_at(step))
        fields = asdict(finding)
        fields["steps"] = list(finding.steps)
        scribe.write({"log": "finding", "t": at, "id": finding.id, **fields, "state": state})
    # A file that was finished says that there was nothing else to find.
    scribe.write({"log": "finish", "t": scribe.at(attempt.ends_s), "status": "finished"})


def _states(attempt: Attempt) -> Iterator[tuple[int, Finding, str]]:
    for when, finding, opened, closed in _SEEN:
        if when is attempt:
            yield opened, finding, "open"
            if closed is not None:
                yield closed, finding, "closed"
