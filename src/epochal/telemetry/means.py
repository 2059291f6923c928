"""Means of what a device tells only of the moment, for drivers that keep none themselves."""

from __future__ import annotations


class MomentMeans:
    """Gathers readings of the moment by name, until their mean is taken."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}

    def add(self, name: str, value: float | None) -> None:
        """Take in a reading; None is none."""
        if value is not None:
            total, num = self._sums.get(name, (0.0, 0))
            self._sums[name] = (total + value, num + 1)

    def take(self, name: str) -> float | None:
        """The mean since the last call, None without a reading; then it starts again."""
        total, num = self._sums.pop(name, (0.0, 0))
        return total / num if num else None
