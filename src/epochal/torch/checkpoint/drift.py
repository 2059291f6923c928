"""How a configuration differs from a checkpoint's; read by commands that have no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochal.values import flat_items

ABSENT = "(absent)"


@dataclass(frozen=True, slots=True)
class Drift:
    """One hyperparameter: what it was when the checkpoint was saved, and what it is now."""

    name: str
    saved: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.saved} → {self.now}"


def config_drift(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Drift, ...]:
    """Every difference between two configurations, nested names with dots, in order of name."""
    before, after = _flat(saved), _flat(now)
    return tuple(
        Drift(name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in sorted(before.keys() | after.keys())
        if before.get(name, ABSENT) != after.get(name, ABSENT)
    )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in flat_items(config)
    }
