"""Call times in nanoseconds, summed up in microseconds."""

from __future__ import annotations

from collections.abc import Sequence


def spread_us(spent_ns: Sequence[int]) -> dict[str, float]:
    ordered = sorted(spent_ns)
    last = len(ordered) - 1
    return {
        "p50": ordered[round(last * 0.5)] / 1000,
        "p99": ordered[round(last * 0.99)] / 1000,
        "mean": sum(ordered) / len(ordered) / 1000,
        "calls": len(ordered),
    }
