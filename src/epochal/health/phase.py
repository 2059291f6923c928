"""Where a training stands, in one word, from the loss alone."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import Literal, get_args

from epochal.health.thresholds import Thresholds

Phase = Literal["warm-up", "converging", "plateau", "unstable", "diverging"]
PHASES: tuple[str, ...] = get_args(Phase)

# The mean distance of neighbours in normal noise is 2/sqrt(pi) standard deviations; unlike the
# deviation from a mean it hardly grows when the curve has a slope.
_DEVIATION_PER_DISTANCE = math.sqrt(math.pi) / 2


class PhaseDetector:
    """Compares the two halves of a window of losses with each other and with the run's noise.

    No number is held against the loss itself, so that its scale and sign do not matter.
    """

    def __init__(self, thresholds: Thresholds | None = None) -> None:
        self._thresholds = thresholds or Thresholds()
        self._window: deque[tuple[int, float]] = deque(maxlen=self._thresholds.phase_window)
        self._num_points = 0
        self._usual_noise: float | None = None
        self._highest: float | None = None
        self._lowest: float | None = None
        self.phase: Phase = "warm-up"

    def observe(self, step: int, loss: float) -> Phase:
        """Take in one loss and say the phase; a loss that is not finite makes it diverging."""
        if not math.isfinite(loss):
            self.phase = "diverging"
            return self.phase
        self._window.append((step, loss))
        self._num_points += 1
        half = (self._window.maxlen or 2) // 2
        settled = self._num_points >= self._thresholds.phase_warmup + half
        if settled and self._num_points % max(1, half // 5) == 0:
            self.phase = self._judge()
        return self.phase

    def cut(self, step: int) -> None:
        """Forget the losses from ``step`` on."""
        while self._window and self._window[-1][0] >= step:
            self._window.pop()

    def _judge(self) -> Phase:
        values = [value for _, value in self._window]
        half = len(values) // 2
        older, recent = values[:half], values[half:]
        if half < 2:
            return self.phase
        noise = _noise(recent)
        usual = self._learn_noise(noise)
        rise = _mean(recent) - _mean(older)
        gained = self._gained(_mean(older), _mean(recent))
        certain = self._thresholds.phase_deviations * max(_noise(older), min(noise, usual))
        if rise > max(certain, self._thresholds.phase_rise_share * gained):
            return "diverging"
        if noise > self._thresholds.phase_noise_ratio * usual > 0:
            return "unstable"
        return "converging" if -rise > certain else "plateau"

    def _gained(self, *levels: float) -> float:
        """How far the loss came down over the run: from its highest level to its lowest."""
        known = [level for level in (*levels, self._highest, self._lowest) if level is not None]
        self._highest, self._lowest = max(known), min(known)
        return self._highest - self._lowest

    def _learn_noise(self, noise: float) -> float:
        """The noise usual so far, without the newest; it follows slowly, upwards slower still."""
        usual = noise if self._usual_noise is None else self._usual_noise
        weight = 0.1 if noise < usual else 0.02
        self._usual_noise = usual + weight * (noise - usual)
        return usual


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)


def _noise(values: list[float]) -> float:
    distances = [abs(b - a) for a, b in pairwise(values)]
    return _mean(distances) * _DEVIATION_PER_DISTANCE
