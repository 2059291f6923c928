"""Advice: cutting the rate again and again does not help."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from epochal.format import format_number
from epochal.health.blocks import Blocks
from epochal.health.causes import OF_STANDSTILL
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "lr"  # the series it is shown at
_BLOCK = 10  # points; their median hides up to four that jumped
# Standard errors by which two levels must differ: less comes by chance once in seven hundred.
_SURE = 3.0
# Of the loss or of what was gained: a smaller difference is not worth a word, and a standstill that
# may hide a larger one is none.
_MATERIAL = 0.02
_HIGHER = (
    "The rate is not the cause. Resume from a checkpoint before the first cut and check the "
    "data there, at precision (bf16 or loss scaling) and at the model."
)
_STANDS = (
    "A lower rate alone does not help. Look at the data and the model, or raise the rate again "
    "slowly; if the loss is low enough, stop."
)


class _Level(NamedTuple):
    """The middle of some blocks, and its standard error."""

    value: float
    error: float


class AdviceCuts(Rule):
    """The rate was cut for good several times, and the loss has not fallen since the last cut.

    A note where the loss stands still; a warning where it stands higher than before the first cut.
    """

    name = "advice-cuts"
    group = "advice"
    meaning = "Further cuts of the learning rate do not help."
    healthy = "The loss falls after a cut."
    reports = {
        "info": (
            "After two permanent cuts the loss has not fallen for 200 points. It is not below "
            "its value before the last cut, beyond noise."
        ),
        "warning": (
            "The same, and the loss is 2 % higher than before the first cut. The learning rate "
            "is not the cause."
        ),
    }
    what_to_try = "Check data and model, or stop."
    silenced_by = ("nonfinite", "divergence")
    explained_by = OF_STANDSTILL
    kinds = frozenset({"event", "step", "metrics"})
    every_rank = False

    class Thresholds(RuleThresholds):
        cuts: int = 2
        # Points after the second cut within which a loss that can be saved has begun to fall.
        points: int = 200

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._recent: deque[float] = deque(maxlen=thresholds.points)
        self._cuts: list[tuple[int, _Level | None]] = []  # the step, and the loss before it
        self._since = Blocks(size=_BLOCK)
        self._has_helped = False

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Count the cuts; check some points after the last cut, and then every few points."""
        if observation.kind == "event":
            if (
                observation.record.get("name") == "lr-cut"
                and observation.record.get("kind") == "permanent"
            ):
                self._count(observation, context)
            return ()
        loss = observation.roles.get("loss")
        if observation.step is None or loss is None or not math.isfinite(loss):
            return ()
        self._recent.append(loss)
        if not self._cuts or not self._since.push(observation.step, loss) or self._has_helped:
            return ()
        return self._judge(observation.step, context)

    def forget_from(self, step: int, context: Context) -> None:
        """Forget the cuts that are void."""
        self._cuts = [one for one in self._cuts if one[0] < step]
        self._recent.clear()
        self._begin()

    def _count(self, observation: Observation, context: Context) -> None:
        at = observation.record.get("at_step", context.step)
        blocks = Blocks(size=_BLOCK)
        for position, loss in enumerate(self._recent):
            blocks.push(position, loss)
        before = _level([block.level for block in blocks.all()])
        self._cuts.append((at if isinstance(at, int) else 0, before))
        self._recent.clear()
        self._begin()

    def _begin(self) -> None:
        self._since = Blocks(size=_BLOCK)
        self._has_helped = False

    def _judge(self, step: int, context: Context) -> Iterable[Verdict]:
        limits, levels = self.thresholds, [block.level for block in self._since.all()]
        half = len(levels) // 2
        early, now = _level(levels[:half]), _level(levels[half:])
        if now is None or early is None or len(self._cuts) < limits.cuts:
            return ()
        subject = context.role_names.get(_ROLE, _ROLE)
        known = [before for _, before in self._cuts if before is not None]
        if any(self._is_lower(now, than=level) for level in (early, *known[-1:])):
            self._has_helped = True
            return (Verdict(subject, active=False),)
        if len(levels) * self._since.size < limits.points:
            return ()
        before = known[0] if known else early
        material = _MATERIAL * max(abs(before.value), self._gained(before, context))
        error = _SURE * math.hypot(before.error, now.error)
        is_higher = now.value - before.value > max(material, error)
        if not is_higher and error > material:
            return ()
        return (self._described(subject, step, before, now, is_higher=is_higher),)

    @staticmethod
    def _is_lower(level: _Level, *, than: _Level) -> bool:
        return than.value - level.value > _SURE * math.hypot(than.error, level.error)

    @staticmethod
    def _gained(level: _Level, context: Context) -> float:
        curve = context.curves.get("loss")
        return 0.0 if curve is None or curve.start is None else curve.start - level.value

    def _described(
        self, subject: str, step: int, before: _Level, now: _Level, *, is_higher: bool
    ) -> Verdict:
        steps = [at for at, _ in self._cuts]
        outcome = "is higher than before the first" if is_higher else "has not fallen since"
        return Verdict(
            subject,
            active=True,
            severity="warning" if is_higher else "info",
            sentence=f"The rate has been cut permanently {len(steps)} times, last at step "
            f"{steps[-1]:,}, and the loss {outcome}: {format_number(before.value)} before step "
            f"{steps[0]:,}, {format_number(now.value)} now.",
            steps=(steps[0], step),
            evidence={"cuts": len(steps), "before": before.value, "now": now.value},
            advice=_HIGHER if is_higher else _STANDS,
        )


def _level(levels: Sequence[float]) -> _Level | None:
    """None where there are too few blocks to know their noise."""
    if len(levels) < 4:
        return None
    # The distance of neighbours is sqrt(2) deviations; a median strays a quarter more than a mean.
    deviation = 1.4826 * median(abs(b - a) for a, b in pairwise(levels)) / math.sqrt(2)
    return _Level(median(levels), 1.25 * deviation / math.sqrt(len(levels)))
