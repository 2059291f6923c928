"""The phase of a training, from the loss alone."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

# When a loss counts as falling, constant, unstable or rising; windows in points.

# The first points of a run fall or jump for reasons of their own (warm-up of the rate, of the
# optimizer's moments), and say nothing about where it is going.
_WARMUP = 50
# Two halves of fifty: long enough that their means differ by noise of a seventh of a deviation.
_WINDOW = 100
# Judged once per block; the blocks are the points of the longer window.
_BLOCK = _WINDOW // 10
# A mean of fifty points strays by 0.14 deviations; two of them differ by more than 0.6
# deviations about once in seven hundred comparisons.
_DEVIATIONS = 0.6
# A slow fall needs more points to be seen in: the last half of the run, up to six hundred.
_LONG_SHARE = 0.5
_LONG_WINDOW = 600
# Standard errors of the difference of two means: three come by chance once in seven hundred.
# What was falling goes on with half of them, or the word would change with every few points.
_FALL_ERRORS = 3.0
_STAY_ERRORS = 1.5
# The fall has stopped where the newest points lack what it would have brought, beyond doubt.
_STOP_ERRORS = 2.0
# A rise must also undo a noticeable part of what was gained: otherwise it is a plateau's drift.
_RISE_SHARE = 0.1
# So much of it gone is a training that is lost, even once the loss rises no more.
_STAY_SHARE = 0.3
# Until it came down from the top of the rise by so much.
_BACK_SHARE = 0.75
# Where a loss above zero fell by orders of magnitude, twice its lowest level is enough.
_RISE_MOST = 1.0
# Noise this many times what it was through the run so far is no longer the same regime.
_NOISE_RATIO = 3.0
# Of what was gained: less is the bend of a curve without noise.
_NOISE_SHARE = 0.01


# Empty: too few points to tell.
Phase = Literal["", "warm-up", "converging", "plateau", "unstable", "diverging"]
PHASES: tuple[str, ...] = get_args(Phase)[1:]
# The warm-up is over at this share of a run at the latest, where its length is known.
_WARMUP_SHARE = 0.1

# The mean distance of neighbours in normal noise is 2/sqrt(pi) standard deviations; without the
# farthest twelfth of them it is 0.86 of that. Unlike the deviation from a mean it hardly grows when
# the curve has a slope.
_DEVIATION_PER_DISTANCE = math.sqrt(math.pi) / 2 / 0.86
_POINTS_PER_OUTLIER = 24
# A level leaves out more than the noise does: often enough, such points are a noise of their own.
_POINTS_PER_LEFT_OUT = 8


class _Change(NamedTuple):
    """From the older half of the short window to the newer one."""

    rise: float
    points: int
    deviation: float


@dataclass(slots=True)
class _Rise:
    """One that was found: at which point, and how high the loss has come since."""

    since: int
    top: float = 0.0


class PhaseDetector:
    """Compares the two halves of a window of losses with each other and with the run's noise.

    A fast change shows in a short window, a slow one under noise only in a longer one, which grows
    with the run. A rise is measured from the lowest level of the run. It lasts while the loss stays
    far above it and does not fall. Outliers are not part of any mean. A loss is compared only with
    earlier losses of the run: its scale and sign do not matter.

    ``total`` is the number of steps of the run, if known.
    """

    def __init__(self, *, total: float | None = None) -> None:
        self._total = total
        self._window: deque[tuple[int, float]] = deque(maxlen=_WINDOW)
        self._blocks: deque[tuple[int, float]] = deque(maxlen=_LONG_WINDOW // _BLOCK)
        self._num_points = 0
        self._usual_noise: float | None = None
        self._highest = -math.inf
        self._lowest: tuple[int, float] | None = None
        self._gained = 0.0
        self._top = 0.0
        self._undone = [0.0, 0.0]  # the two largest rises that the run came back from
        self._smallest = math.inf
        self._rise: _Rise | None = None
        self._judged: Phase = ""
        self.phase: Phase = "warm-up"

    def observe(self, step: int, loss: float) -> Phase:
        """Process one loss and return the phase: diverging while a loss is not finite."""
        if not math.isfinite(loss):
            self.phase = "diverging"
            return self.phase
        self._window.append((step, loss))
        self._num_points += 1
        self._smallest = min(self._smallest, loss)
        if self._num_points % _BLOCK == 0:
            newest = [value for _, value in list(self._window)[-_BLOCK:]]
            self._blocks.append((step, _mean(newest, outliers=_BLOCK // 10)))
            if self._num_points >= _WARMUP + _WINDOW // 2:
                self._judged = self._judge()
        self.phase = "warm-up" if self._is_warmup(step) else self._judged
        return self.phase

    def forget_from(self, step: int) -> None:
        """Forget the losses from ``step`` on."""
        while self._window and self._window[-1][0] >= step:
            self._window.pop()
        while self._blocks and self._blocks[-1][0] >= step:
            self._blocks.pop()
        if self._lowest is not None and self._lowest[0] >= step:
            self._lowest = None
        self._rise = None

    def _is_warmup(self, step: int) -> bool:
        is_early = self._total is None or step < _WARMUP_SHARE * self._total
        return is_early and self._num_points <= _WARMUP

    def _judge(self) -> Phase:
        values = [value for _, value in self._window]
        half = len(values) // 2
        older, recent = values[:half], values[half:]
        if half < 2:
            return self._judged
        noise = _noise(recent)
        usual = self._learn_noise(noise)
        level = _level(recent)
        change = _Change(
            rise=level - _level(older), points=half, deviation=max(_noise(older), min(noise, usual))
        )
        if self._diverges(change, self._height(level)):
            return "diverging"
        if noise > max(_NOISE_RATIO * usual, _NOISE_SHARE * self._gained):
            return "unstable"
        return "converging" if self._falls(change) else "plateau"

    def _diverges(self, change: _Change, height: float) -> bool:
        # What happened twice and was undone is the nature of this run (warm restarts, a game).
        least = max(_DEVIATIONS * change.deviation, self._undone[0])
        if height <= max(least, self._of_gain(_RISE_SHARE)):
            self._rise = None
            return False
        if self._moves(change, up=True):
            if self._rise is None:
                self._rise = _Rise(since=self._num_points)
            self._rise.top = max(self._rise.top, height)
            return True
        if self._rise is None:
            return False
        # It rises no more: the word stays for as long as the loss stays far up.
        is_far = height > self._of_gain(_STAY_SHARE)
        if not is_far or height < _BACK_SHARE * self._rise.top:
            self._rise = None
        return self._rise is not None and not self._falls(change)

    def _of_gain(self, share: float) -> float:
        """A share of what was gained, or of the lowest level where that is less and above zero."""
        lowest = self._lowest[1] if self._lowest is not None else 0.0
        if self._smallest <= 0 or lowest <= 0:
            return share * self._gained
        return min(share * self._gained, _RISE_MOST * lowest)

    def _falls(self, change: _Change) -> bool:
        return self._moves(change, up=False)

    def _moves(self, change: _Change, *, up: bool) -> bool:
        """Whether the short window changes by more than noise would, or a longer one does.

        The longer one must not just have stopped to. Less keeps a movement going.
        """
        sign = 1 if up else -1
        if sign * change.rise > _DEVIATIONS * change.deviation:
            return True
        means = self._longer_window(up=up)
        half = len(means) // 2
        if not half:
            return False
        moved = sign * (_level(means[-half:]) - _level(means[-2 * half : -half]))
        goes_on = self._judged == ("diverging" if up else "converging")
        errors = _STAY_ERRORS if goes_on else _FALL_ERRORS
        points = half * _BLOCK
        if moved <= errors * change.deviation * math.sqrt(2 / points):
            return False
        # At half the pace of the longer window the short one would have come so much farther.
        missing = change.points * moved / points / 2 - sign * change.rise
        return missing <= _STOP_ERRORS * change.deviation * math.sqrt(2 / change.points)

    def _longer_window(self, *, up: bool) -> list[float]:
        """The newest means: of the last part of the run; for a fall after a rise, only since."""
        count = int(_LONG_SHARE * self._num_points)
        if not up and self._rise is not None:
            count = min(count, self._num_points - self._rise.since)
        means = [mean for _, mean in self._blocks]
        return means[-max(_WINDOW, count) // _BLOCK :]

    def _height(self, level: float) -> float:
        """How far a level is above the lowest; the gain is counted up to that one."""
        self._highest = max(self._highest, level)
        if self._lowest is None or level < self._lowest[1]:
            self._lowest = (self._window[-1][0], level)
            self._gained = self._highest - level
        height = level - self._lowest[1]
        self._top = max(self._top, height)
        if height < self._top / 2:
            self._undone = sorted((*self._undone, self._top))[1:]
            self._top = height
        return height

    def _learn_noise(self, noise: float) -> float:
        """The noise usual so far, without the newest; it follows slowly, upwards slower still."""
        usual = noise if self._usual_noise is None else self._usual_noise
        weight = 0.1 if noise < usual else 0.02
        self._usual_noise = usual + weight * (noise - usual)
        return usual


def _level(values: list[float]) -> float:
    """The mean without outliers."""
    return _mean(values, outliers=len(values) // _POINTS_PER_LEFT_OUT)


def _mean(values: list[float], *, outliers: int) -> float:
    """The mean without so many points at either end, of few points fewer."""
    outliers = min(outliers, (len(values) - 1) // 2)
    kept = sorted(values)[outliers : len(values) - outliers]
    return sum(kept) / len(kept)  # fsum raises where a sum is beyond a float


def _noise(values: list[float]) -> float:
    """A standard deviation; an outlier is in two distances."""
    distances = sorted(abs(b - a) for a, b in pairwise(values))
    kept = distances[: len(distances) - 2 * (len(values) // _POINTS_PER_OUTLIER)]
    return sum(kept) / len(kept) * _DEVIATION_PER_DISTANCE
