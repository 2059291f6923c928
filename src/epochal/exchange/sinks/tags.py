"""The usual tags of TensorBoard, under which it gets a run's series where a run asks for them.

A series that has a role, or a fixed meaning, gets the tag people look for (``Loss/train``); every
other one keeps its own name. Which series has a role is settled when the first candidate comes by,
and kept: a curve never changes its tag halfway.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from epochal.records import ROLE_GUESSES, declared_series
from epochal.series.goals import guess_goal

_TRACKER = "tensorboard"
_TAGGED = [(name, field) for name, field in declared_series() if _TRACKER in field.tags]
_FIXED = {name: field.tags[_TRACKER] for name, field in _TAGGED if field.role is None}
_ROLES = {str(field.role): field.tags[_TRACKER] for _, field in _TAGGED if field.role is not None}
_GUESSES = {
    role: tuple(name for name in ROLE_GUESSES[role] if role != "throughput" or "token" in name)
    for role in _ROLES
}
_GUESSED_ROLE = {name: role for role, names in _GUESSES.items() for name in names}
_HISTOGRAMS = {
    "parameters": "Parameters",
    "params": "Parameters",
    "weights": "Parameters",
    "gradients": "Gradients",
    "grads": "Gradients",
    "grad": "Gradients",
}
_EVAL = "eval/"
_SAMPLES = "Generated_Samples/text"
_SAMPLE_NAMES = frozenset({"sample", "samples", "generated", "generated_samples"})


class RoleTags:
    """Remembers which series has which role; ``plain()`` is what to go on from later."""

    def __init__(self, memory: Mapping[str, Any] | None = None) -> None:
        remembered = memory or {}
        # Series name by role.
        self._holders: dict[str, str] = dict(remembered.get("holders") or {})
        self._goals: set[str] = set(remembered.get("goals") or ())
        # What was found out before, until a role changes hands.
        self._known: dict[tuple[str, str], str] = {}

    def plain(self) -> dict[str, Any]:
        """The state, as JSON values."""
        return {"holders": self._holders, "goals": sorted(self._goals)}

    def define(self, record: Mapping[str, Any]) -> None:
        """Apply a ``define`` record; it wins over guesses."""
        role, name = record.get("role"), record.get("name")
        if record.get("goal") is not None and isinstance(name, str):
            self._goals.add(name)
        if role in _ROLES and isinstance(name, str):
            self._holders[str(role)] = name
            self._known.clear()

    def look(self, names: Collection[str]) -> None:
        """Let series that are logged together take the roles that are free."""
        candidates = {_GUESSED_ROLE[name] for name in names if name in _GUESSED_ROLE}
        for role in candidates - self._holders.keys():
            taken = self._holders.values()
            free = [name for name in _GUESSES[role] if name in names and name not in taken]
            if free:
                self._holders[role] = free[0]
                self._known.clear()

    @property
    def has_both_losses(self) -> bool:
        """Whether it is known which series are the losses of training and evaluation."""
        return {"loss", "eval_loss"} <= self._holders.keys()

    def is_headline(self, name: str) -> bool:
        """Whether a series measures the result of a run: a loss, or one with a goal."""
        holders = [self._holders.get(role) for role in ("loss", "eval_loss")]
        return name in holders or name in self._goals or guess_goal(name) is not None

    def scalar(self, name: str, *, kind: str) -> str:
        """The tag of a series; a free metric of an evaluation goes under ``Evaluation/``."""
        tag = self._known.get((name, kind))
        if tag is None:
            tag = self._known[name, kind] = self._found(name, kind)
        return tag

    def _found(self, name: str, kind: str) -> str:
        for role, holder in self._holders.items():
            if holder == name:
                return _ROLES[role]
        if name in _FIXED:
            return _FIXED[name]
        if name.startswith(_EVAL):
            return f"Evaluation/{name.removeprefix(_EVAL)}"
        return f"Evaluation/{name}" if kind == "eval" and "/" not in name else name


def histogram_tag(name: str) -> str:
    """The tag of a histogram: weights under ``Parameters/``, gradients under ``Gradients/``."""
    group, slash, rest = name.partition("/")
    return (
        f"{_HISTOGRAMS[group.lower()]}/{rest}" if slash and group.lower() in _HISTOGRAMS else name
    )


def text_tag(name: str) -> str:
    """The tag of a text; what a model wrote is under ``Generated_Samples/text``."""
    return _SAMPLES if name.lower() in _SAMPLE_NAMES else name
