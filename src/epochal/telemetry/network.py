"""The machine's network: what comes in and goes out over everything but the loopback."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epochal.records import KINDS
from epochal.telemetry.counters import CounterSource
from epochal.telemetry.source import Metric

_LOOPBACKS = ("lo", "lo0")


@dataclass(frozen=True, slots=True)
class NetworkSample:
    """Bytes per second, received and sent."""

    received: int | None = None
    sent: int | None = None


_SYSTEM = KINDS["system"]
NETWORK_METRICS = (Metric("received", _SYSTEM["net_rx"]), Metric("sent", _SYSTEM["net_tx"]))


def network_source(*, clock: Callable[[], float] = time.monotonic) -> CounterSource[NetworkSample]:
    """The interfaces of this network namespace through psutil.

    InfiniBand that bypasses the kernel is not counted by it, and so not here.
    """

    def sample_of(rates: Mapping[str, int]) -> NetworkSample:
        return NetworkSample(rates.get("received"), rates.get("sent"))

    return CounterSource(NETWORK_METRICS, counts=_counts, sample_of=sample_of, clock=clock)


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
