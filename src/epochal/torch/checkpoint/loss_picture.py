"""The loss so far as a small picture: kept in bounded memory, drawn by hand as SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from epochal.errors import FormatError
from epochal.format import format_count, format_number

_MOST_BUCKETS = 512
_MOST_PENDING = 1024
_WIDTH, _HEIGHT = 480, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 12, 24, 28


@dataclass(slots=True)
class Bucket:
    """Neighbouring steps in one: lowest, highest, and sum of their losses."""

    step: int
    low: float
    high: float
    total: float
    count: int

    @property
    def mean(self) -> float:
        """The mean loss of these steps."""
        return self.total / self.count


@dataclass(slots=True)
class LossHistory:
    """Losses by step in at most 512 buckets; neighbours are joined as it grows.

    Takes 0-d tensors without waiting for their GPU: they are read when there are many, or when
    somebody looks. Values that are not finite are left out.
    """

    _buckets: list[Bucket] = field(default_factory=list)
    _per_bucket: int = 1
    _pending: list[tuple[int, Any]] = field(default_factory=list)

    def add(self, step: int, loss: Any) -> None:
        """Take the loss of a step."""
        detach = getattr(loss, "detach", None)
        self._pending.append((step, detach().clone() if callable(detach) else loss))
        if len(self._pending) >= _MOST_PENDING:
            self._fold()

    def forget_from(self, step: int) -> None:
        """Forget this step and later ones: they will be run again."""
        self._fold()
        self._buckets = [bucket for bucket in self._buckets if bucket.step < step]

    def buckets(self) -> list[Bucket]:
        """The history, by step."""
        self._fold()
        return list(self._buckets)

    def state_dict(self) -> dict[str, Any]:
        """Return the history as plain values."""
        rows = [[b.step, b.low, b.high, b.total, b.count] for b in self.buckets()]
        return {"per_bucket": self._per_bucket, "buckets": rows}

    def load_state_dict(self, state_dict: Any) -> None:
        """Go on from a history."""
        try:
            self._buckets = [Bucket(*row) for row in state_dict["buckets"]]
            self._per_bucket = int(state_dict["per_bucket"])
        except (TypeError, KeyError, ValueError) as error:
            raise FormatError(f"the history of the loss is damaged: {error!r}.") from error
        self._pending.clear()

    def _fold(self) -> None:
        pending, self._pending = self._pending, []
        values = _numbers([loss for _, loss in pending])
        for (step, _), value in zip(pending, values, strict=True):
            if math.isfinite(value):
                self._take(step, value)

    def _take(self, step: int, value: float) -> None:
        last = self._buckets[-1] if self._buckets else None
        if last is not None and last.count < self._per_bucket:
            last.low, last.high = min(last.low, value), max(last.high, value)
            last.total, last.count = last.total + value, last.count + 1
            return
        self._buckets.append(Bucket(step, value, value, value, 1))
        if len(self._buckets) > _MOST_BUCKETS:
            self._buckets = [_joined(pair) for pair in _pairs(self._buckets)]
            self._per_bucket *= 2


def draw_losses(buckets: Sequence[Bucket], *, title: str) -> str:
    """Draw a history as SVG: the mean as a line over a band from the lowest to the highest."""
    low = min((b.low for b in buckets), default=0.0)
    high = max((b.high for b in buckets), default=1.0)
    first, last = (buckets[0].step, buckets[-1].step) if buckets else (0, 1)

    def x(step: int) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * (step - first) / ((last - first) or 1)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * (value - low) / ((high - low) or 1)

    band = [(x(b.step), y(b.high)) for b in buckets]
    band += [(x(b.step), y(b.low)) for b in reversed(buckets)]
    line = [(x(b.step), y(b.mean)) for b in buckets]
    base = _HEIGHT - _BOTTOM
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"'
            ' font-family="sans-serif" font-size="11" fill="#667">',
            f'<text x="{_LEFT}" y="15" font-size="12">{_escaped(title)}</text>',
            f'<path d="M{_LEFT} {_TOP}V{base}H{_WIDTH - _RIGHT}" fill="none" stroke="#99a"/>',
            f'<text x="{_LEFT - 6}" y="{_TOP + 4}" text-anchor="end">{format_number(high)}</text>',
            f'<text x="{_LEFT - 6}" y="{base}" text-anchor="end">{format_number(low)}</text>',
            f'<text x="{_LEFT}" y="{base + 16}">{format_count(first)}</text>',
            f'<text x="{_WIDTH - _RIGHT}" y="{base + 16}" text-anchor="end">step '
            f"{format_count(last)}</text>",
            f'<polygon points="{_points(band)}" fill="#3b7dd8" fill-opacity="0.2"/>',
            f'<polyline points="{_points(line)}" fill="none" stroke="#3b7dd8" stroke-width="1.5"/>',
            "</svg>\n",
        ]
    )


def _numbers(losses: list[Any]) -> list[float]:
    """Losses as floats; tensors of one device all at once, which waits for it once."""
    devices = {getattr(loss, "device", None) for loss in losses}
    if len(devices) == 1 and None not in devices and all(hasattr(t, "detach") for t in losses):
        import torch

        return [float(v) for v in torch.stack([loss.reshape(()) for loss in losses]).tolist()]
    return [float(loss) for loss in losses]


def _pairs(buckets: list[Bucket]) -> Iterable[list[Bucket]]:
    return (buckets[i : i + 2] for i in range(0, len(buckets), 2))


def _joined(pair: list[Bucket]) -> Bucket:
    return Bucket(
        pair[0].step,
        min(b.low for b in pair),
        max(b.high for b in pair),
        sum(b.total for b in pair),
        sum(b.count for b in pair),
    )


def _points(places: Iterable[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in places)


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
