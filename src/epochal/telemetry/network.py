"""The machine's network: what comes in and goes out over everything but the loopback."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from epochal.telemetry.rate import Rates
from epochal.telemetry.source import Metric, closed_error

_LOOPBACKS = ("lo", "lo0")


@dataclass(frozen=True, slots=True)
class NetworkSample:
    """Bytes per second, received and sent."""

    received: int | None = None
    sent: int | None = None


NETWORK_METRICS = (
    Metric("received", "net_rx", "bytes/s"),
    Metric("sent", "net_tx", "bytes/s"),
)


class NetworkSource:
    """Reads the interfaces of this network namespace through psutil.

    InfiniBand that bypasses the kernel is not counted by it, and so not here.
    """

    kind: ClassVar[str] = "system"
    metrics: ClassVar[tuple[Metric, ...]] = NETWORK_METRICS

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rates = Rates(clock)
        self._closed = False

    @property
    def why_absent(self) -> str | None:
        """Always ``None``: what cannot be told is absent in the sample."""
        return None

    def probe(self) -> bool:
        """Always true."""
        return True

    def sample(self) -> tuple[NetworkSample, ...]:
        """Read the interfaces; rates are those since the last call, at first ``None``."""
        if self._closed:
            raise closed_error(self)
        rates = self._rates.since_last(_counts())
        return (NetworkSample(rates.get("received"), rates.get("sent")),)

    def close(self) -> None:
        """End the source; it holds nothing open."""
        self._closed = True


def _counts() -> dict[str, int]:
    import psutil

    try:
        interfaces = psutil.net_io_counters(pernic=True)
    except OSError:
        return {}
    chosen = [counters for name, counters in interfaces.items() if name not in _LOOPBACKS]
    if not chosen:
        return {}
    return {
        "received": sum(counters.bytes_recv for counters in chosen),
        "sent": sum(counters.bytes_sent for counters in chosen),
    }
