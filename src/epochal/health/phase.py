"""Where a training stands, in one word, from the loss alone."""

from __future__ import annotations

import math
from collections import deque
from itertools import pairwise
from typing import Literal, get_args

from epochal.health.thresholds_phase import PhaseThresholds

Phase = Literal["warm-up", "converging", "plateau", "unstable", "diverging"]
PHASES: tuple[str, ...] = get_args(Phase)

# The mean distance of neighbours in normal noise is 2/sqrt(pi) standard deviations; unlike the
# deviation from a mean it hardly grows when the curve has a slope.
_DEVIATION_PER_DISTANCE = math.sqrt(math.pi) / 2


class PhaseDetector:
    """Compares the two halves of a window of losses with each other and with the run's noise.

    A rise shows in a short window or is none to be told of. A slow fall under noise shows only in a
    longer one, which grows with the run. No number is held against the loss itself, so that its
    scale and sign do not matter.
    """

    def __init__(self, thresholds: PhaseThresholds | None = None) -> None:
        self._thresholds = thresholds or PhaseThresholds()
        self._window: deque[tuple[int, float]] = deque(maxlen=self._thresholds.long_window)
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
        half = self._thresholds.window // 2
        settled = self._num_points >= self._thresholds.warmup + half
        if settled and self._num_points % max(1, half // 5) == 0:
            self.phase = self._judge()
        return self.phase

    def cut(self, step: int) -> None:
        """Forget the losses from ``step`` on."""
        while self._window and self._window[-1][0] >= step:
            self._window.pop()

    def _judge(self) -> Phase:
        thresholds = self._thresholds
        every = [value for _, value in self._window]
        values = every[-thresholds.window :]
        half = len(values) // 2
        older, recent = values[:half], values[half:]
        if half < 2:
            return self.phase
        noise = _noise(recent)
        usual = self._learn_noise(noise)
        rise = _mean(recent) - _mean(older)
        gained = self._gained(_mean(older), _mean(recent))
        deviation = max(_noise(older), min(noise, usual))
        certain = thresholds.deviations * deviation
        if rise > max(certain, thresholds.rise_share * gained):
            return "diverging"
        if noise > thresholds.noise_ratio * usual > 0:
            return "unstable"
        falls = -rise > certain or self._falls(every, deviation, newest=-rise / half)
        return "converging" if falls else "plateau"

    def _falls(self, values: list[float], deviation: float, *, newest: float) -> bool:
        """Whether a longer window falls by more than noise would, and has not just stopped to.

        ``newest`` is the fall per point in the short window. Less keeps a fall going.
        """
        thresholds = self._thresholds
        short = thresholds.window // 2
        count = int(thresholds.long_share * self._num_points)
        half = min(len(values) // 2, max(short, count // 2))
        fall = _mean(values[-2 * half : -half]) - _mean(values[-half:])
        goes_on = self.phase == "converging"
        errors = thresholds.stay_errors if goes_on else thresholds.fall_errors
        if fall <= errors * deviation * math.sqrt(2 / half):
            return False
        # At half the pace of the longer window the short one would have come so much lower.
        missing = short * (fall / half / 2 - newest)
        return missing <= thresholds.stop_errors * deviation * math.sqrt(2 / short)

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
