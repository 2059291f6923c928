"""Advice: at the end of the warm-up the loss falls as fast as the rate lets it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import TYPE_CHECKING

from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.signals import AdviceThresholds
from epochal.health.words import times

if TYPE_CHECKING:
    from epochal.health.context import Context

_ROLE = "lr"  # the series it is shown at


class AdviceRateRoom(Rule):
    """The rate stops rising while the loss falls fast, and no slower than before: there is room.

    A loss that falls ever slower is the usual picture, and no reason for a higher rate; nor is one
    whose gradients grow with the rate.
    """

    name = "advice-rate-room"
    group = "advice"
    meaning = "The peak of the learning rate may be too low."
    healthy = "The loss falls more and more slowly as the warm-up ends."
    reports = {"info": ("The warm-up ends while the loss still falls faster and faster.")}
    what_to_try = "Try 1.5 times the peak in the next run."
    silenced_by = ("nonfinite", "divergence")
    kinds = frozenset({"step", "metrics"})
    every_rank = False

    class Thresholds(AdviceThresholds):
        # Loss still falling by a twentieth per ten points, when the rate stops rising.
        share: float = 0.05
        points: int = 10
        factor: float = 1.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._forget()

    def _forget(self) -> None:
        self._losses: deque[float] = deque(maxlen=3 * self.thresholds.points)
        self._norms: deque[float] = deque(maxlen=self._losses.maxlen)
        self._lr: float | None = None
        self._rising = self._level = 0
        self._is_over = False
        self._reported_at: int | None = None

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Follow the warm-up; check once, when it has ended."""
        limits = self.thresholds
        loss, lr = (
            observation.roles.get("loss"),
            observation.roles.get("lr", context.last.get("lr")),
        )
        if observation.step is None or loss is None or lr is None or not math.isfinite(loss):
            return ()
        subject = context.role_names.get(_ROLE, _ROLE)
        if self._reported_at is not None:
            return self._close(subject, observation.step)
        if self._is_over:
            return ()
        self._losses.append(loss)
        norm = observation.roles.get("norm")
        if norm is not None and math.isfinite(norm):
            self._norms.append(norm)
        if self._lr is None or lr > self._lr * (1 + 1e-9):
            self._rising += self._lr is not None
            self._lr, self._level = lr, 0
            return ()
        self._level += 1
        if self._level < 2:
            return ()
        self._is_over = True
        if self._rising < 2 * limits.points or not self._has_room():
            return ()
        self._reported_at = observation.step
        return (self._described(subject, observation.step),)

    def forget_from(self, step: int, context: Context) -> None:
        """Start again: a resumed run may warm up again."""
        self._forget()

    def _close(self, subject: str, step: int) -> Iterable[Verdict]:
        if self._reported_at is None or step < self._reported_at + self.thresholds.cooldown:
            return ()
        self._reported_at = None
        return (Verdict(subject, active=False),)

    def _has_room(self) -> bool:
        limits = self.thresholds
        points = limits.points
        losses = list(self._losses)
        if len(losses) < 3 * points or min(losses) <= 0:
            return False
        first, middle, last = (losses[n * points : (n + 1) * points] for n in range(3))
        before, now = median(first) - median(middle), median(middle) - median(last)
        noise = max(_noise(first), _noise(middle), _noise(last)) * math.sqrt(2 / points)
        falls = now > limits.share * median(middle) and now > 6 * noise
        return falls and now >= before > 0 and not self._norms_rise()

    def _norms_rise(self) -> bool:
        norms = list(self._norms)
        half = len(norms) // 2
        return half > 0 and median(norms[half:]) > 1.2 * median(norms[:half])

    def _described(self, subject: str, step: int) -> Verdict:
        limits = self.thresholds
        points = limits.points
        losses = list(self._losses)
        before, now = median(losses[-2 * points : -points]), median(losses[-points:])
        fall = 100 * (1 - now / before)
        return Verdict(
            subject,
            active=True,
            severity="info",
            sentence=f"The warm-up ended at step {step:,} while the loss was falling by "
            f"{fall:.0f} % per {points} points, faster and faster: the rate could have risen "
            "further.",
            steps=(step, step),
            evidence={"fall_pct": round(fall, 1), "lr": self._lr or 0.0},
            advice=f"Try a peak rate of {times(limits.factor)} times this one in the next run.",
        )


def _noise(values: Sequence[float]) -> float:
    """Standard deviation from neighbours' distances, which a slope hardly changes."""
    distances = [abs(b - a) for a, b in pairwise(values)]
    return fmean(distances) * math.sqrt(math.pi) / 2
