"""Which series plays which role, found out while records arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.records import ROLE_GUESSES, Record

# The roles whose series are followed as curves, point by point.
CURVE_ROLES = ("loss", "eval_loss", "norm")
_GUESSED = frozenset(name for guesses in ROLE_GUESSES.values() for name in guesses)


class Roles:
    """Role by defined meaning, else by the first guess among the names met so far.

    The same choice as that of a finished run's reader, except that a better name that turns up late
    takes its role from then on only.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # series name by role
        self._met: set[str] = set()
        self._defined: dict[str, str] = {}  # role by series name

    def define(self, record: Record) -> None:
        """Take in a ``define`` record."""
        name, role = record.get("name"), record.get("role")
        if isinstance(name, str) and isinstance(role, str):
            self._defined[name] = role
            self._resolve()

    def meet(self, values: Mapping[str, Any]) -> bool:
        """Take in the series names of one record; returns whether one of them is new."""
        if values.keys() <= self._met:
            return False
        new = values.keys() - self._met
        self._met |= new
        if not _GUESSED.isdisjoint(new) or not self._defined.keys().isdisjoint(new):
            self._resolve()
        return True

    def _resolve(self) -> None:
        taken = {name: role for name, role in self._defined.items() if name in self._met}
        for role, guesses in ROLE_GUESSES.items():
            if role in taken.values():
                continue
            guess = next((g for g in guesses if g in self._met and g not in taken), None)
            if guess is not None:
                taken[guess] = role
        self.names = {}
        for name, role in taken.items():
            self.names.setdefault(role, name)
