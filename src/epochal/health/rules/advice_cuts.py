"""Advice: cutting the rate again and again does not help."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar

from epochal.health.rule import Rule, Verdict
from epochal.health.seen import Seen
from epochal.health.signals import Signals
from epochal.health.thresholds import Thresholds

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "lr"  # the series it is shown at


class AdviceCuts(Rule):
    """The rate was cut for good several times, and the loss has not fallen since the last cut."""

    name: ClassVar[str] = "advice-cuts"
    kinds: ClassVar[frozenset[str]] = frozenset({"event", "step", "metrics"})
    every_rank: ClassVar[bool] = False

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._signals = Signals(points=2)
        self._cuts: list[int] = []
        self._points = 0

    def see(self, seen: Seen, context: Context) -> Iterable[Verdict]:
        """Count the cuts; judge so many points after the last."""
        limits = self.thresholds.machine
        if seen.kind == "event":
            if seen.record.get("name") == "lr-cut" and seen.record.get("kind") == "permanent":
                at = seen.record.get("at_step", context.step)
                self._cuts.append(at if isinstance(at, int) else 0)
                self._points = 0
            return
        if len(self._cuts) < limits.advice_num_cuts or seen.step is None:
            return
        if not self._signals.observe(seen, context):
            return
        self._points += 1
        subject = context.role_names.get(_ROLE, _ROLE)
        if context.phase == "converging":
            yield Verdict(subject, holds=False)
            return
        if self._points < limits.advice_cut_points:
            return
        yield Verdict(
            subject,
            holds=True,
            sentence=f"The rate has been cut for good {len(self._cuts)} times, last at step "
            f"{self._cuts[-1]:,}, and the loss still does not fall: it is {context.phase}.",
            steps=(self._cuts[0], seen.step),
            evidence={"cuts": len(self._cuts), "points": self._points, "phase": context.phase},
            advice="The rate is not the cause. Go back to a checkpoint from before the first cut "
            "and look at the data there, at precision (bf16 or loss scaling) and at the model.",
        )

    def cut(self, step: int, context: Context) -> None:
        """Forget the cuts that are void."""
        self._cuts = [at for at in self._cuts if at < step]
        self._signals.forget()
        self._points = 0
