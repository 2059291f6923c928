"""Counts what a hub does, and writes it in the text format of Prometheus.

Any thread may count. Gauges are read when somebody asks for the text.
"""

from __future__ import annotations

import itertools
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
# From a commit on a fast disk to one that a sender gives up on.
_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_BYTES = (1e3, 1e4, 1e5, 1e6, 1e7)

Kind = Literal["counter", "gauge", "histogram"]


class _Sample(NamedTuple):
    """A line of the text: what follows the name of its family, its label, and its value."""

    suffix: str
    label: str
    value: float


class Counter:
    """A number that only grows, one for each value of ``label`` if that is given."""

    def __init__(self, label: str = "") -> None:
        self._label = label
        self._lock = threading.Lock()
        self._values: dict[str, float] = {} if label else {"": 0.0}

    def add(self, amount: float = 1.0, *, label: str = "") -> None:
        """Count."""
        with self._lock:
            self._values[label] = self._values.get(label, 0.0) + amount

    def samples(self) -> Iterator[_Sample]:
        """What it has counted so far."""
        with self._lock:
            values = sorted(self._values.items())
        for value, number in values:
            yield _Sample("", f'{{{self._label}="{value}"}}' if self._label else "", number)


class Histogram:
    """How many values lie below each of some bounds, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._lock = threading.Lock()
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    def samples(self) -> Iterator[_Sample]:
        """What it has counted so far."""
        with self._lock:
            totals, total = [*itertools.accumulate(self._counts)], self._sum
        for bound, count in zip(self._bounds, totals, strict=False):
            yield _Sample("_bucket", f'{{le="{bound:g}"}}', count)
        yield _Sample("_bucket", '{le="+Inf"}', totals[-1])
        yield _Sample("_sum", "", total)
        yield _Sample("_count", "", totals[-1])


class HubCounters:
    """What one hub counts of itself."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._received_s: float | None = None
        self._families: dict[str, tuple[Kind, str, Callable[[], Iterator[_Sample]]]] = {}
        self.requests = Counter("outcome")
        self._lines, self._line_bytes = Counter(), Counter()
        self._commit_bytes, self._commit_s = Histogram(_BYTES), Histogram(_SECONDS)
        for name, about, counter in (
            ("requests_total", "Requests of senders by outcome.", self.requests),
            ("lines_total", "Lines that senders sent.", self._lines),
            ("line_bytes_total", "Bytes of these lines, decompressed.", self._line_bytes),
        ):
            self._families[name] = ("counter", about, counter.samples)
        for name, about, histogram in (
            ("commit_bytes", "Bytes of lines that were made durable at once.", self._commit_bytes),
            ("commit_seconds", "How long that took.", self._commit_s),
        ):
            self._families[name] = ("histogram", about, histogram.samples)
        self._families["received_age_seconds"] = (
            "gauge",
            "How long ago lines came last; absent until they do.",
            self._age,
        )

    def gauge(self, name: str, about: str, read: Callable[[], float]) -> None:
        """Have a value that is read when somebody asks."""
        self._families[name] = ("gauge", about, lambda: iter((_Sample("", "", read()),)))

    def gauges(
        self, name: str, about: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """The same, with a value for each value of a label."""

        def samples() -> Iterator[_Sample]:
            for value, number in sorted(read().items()):
                yield _Sample("", f'{{{label}="{value}"}}', number)

        self._families[name] = ("gauge", about, samples)

    def receive(self, lines: bytes) -> None:
        """Count lines that have come."""
        self._lines.add(lines.count(b"\n"))
        self._line_bytes.add(len(lines))
        self._received_s = self._clock()

    def commit(self, num_bytes: int, seconds: float) -> None:
        """Count lines that were made durable at once."""
        self._commit_bytes.add(num_bytes)
        self._commit_s.add(seconds)

    def text(self) -> str:
        """All of it, in the text format."""
        lines: list[str] = []
        for name, (kind, about, samples) in sorted(self._families.items()):
            family = f"epochal_hub_{name}"
            lines += (f"# HELP {family} {about}", f"# TYPE {family} {kind}")
            lines += [f"{family}{one.suffix}{one.label} {one.value:.10g}" for one in samples()]
        return "".join(f"{line}\n" for line in lines)

    def _age(self) -> Iterator[_Sample]:
        if self._received_s is not None:
            yield _Sample("", "", self._clock() - self._received_s)
