"""Keeps long phases that happen all the time from filling the journal."""

from __future__ import annotations

from time import monotonic

BURST, REFILL_S = 5.0, 10.0
# Longer than this many times the usual is what somebody will look for.
ODD_FACTOR = 3.0
_WEIGHT = 0.2


class SpanLimit:
    """Says which long phases are worth a record.

    Of each name five at once and then one in ten seconds, and those far longer than is usual.
    """

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        self._usual_s: dict[str, float] = {}

    def allows(self, name: str, seconds: float, *, at_s: float | None = None) -> bool:
        """Whether a phase of this name and length is to be recorded."""
        now_s = monotonic() if at_s is None else at_s
        usual_s = self._usual_s.get(name)
        self._usual_s[name] = (
            seconds if usual_s is None else usual_s + _WEIGHT * (seconds - usual_s)
        )
        left, looked_s = self._left.get(name, (BURST, now_s))
        left = min(BURST, left + (now_s - looked_s) / REFILL_S)
        is_odd = usual_s is not None and seconds >= ODD_FACTOR * usual_s
        is_allowed = left >= 1 or is_odd
        self._left[name] = (max(0.0, left - 1) if is_allowed else left, now_s)
        return is_allowed
