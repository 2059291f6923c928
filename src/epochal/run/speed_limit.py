"""Adds `sol` and MFU to steps, from the speed-of-light estimate that was logged."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.records import Record, finite
from epochal.values import single

MFU = "train/mfu"


class SpeedLimit:
    """Remembers the last ``sol`` record and completes later records with it."""

    def __init__(self) -> None:
        self._tps: float | None = None
        self._useful_tps: float | None = None
        self._tokens: float | None = None

    def learn(self, record: Mapping[str, Any]) -> None:
        """Keep the estimate; without a speed in it steps stay as they are."""
        self._tps = _speed(record.get("tps"))
        self._useful_tps = _speed(record.get("useful_tps"))

    def fill_phases(self, record: Record) -> None:
        """Add the time that a step like the last one takes at the speed of light."""
        if self._tps is not None and self._tokens:
            record["ideal_ms"] = round(1000.0 * self._tokens / self._tps, 4)

    def fill_step(self, record: Record) -> None:
        """Add ``sol``, and MFU among the metrics, both in percent, where the caller gave none."""
        if self._tps is None:
            return
        tokens, duration_ms = record.get("step_tokens"), record.get("duration_ms")
        self._tokens = tokens
        if not tokens or not duration_ms or not duration_ms > 0:
            return
        per_second = tokens / duration_ms * 1000.0
        record.setdefault("sol", single(100.0 * per_second / self._tps))
        if self._useful_tps is None:
            return
        metrics = record.get("m") or {}
        if MFU not in metrics and "mfu" not in metrics:
            record["m"] = {**metrics, MFU: single(100.0 * per_second / self._useful_tps)}


def _speed(value: Any) -> float | None:
    speed = finite(value)
    return speed if speed is not None and speed > 0 else None
