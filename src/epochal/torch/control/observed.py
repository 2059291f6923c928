"""Checks what a training loop hands to those who watch its loss."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping

from epochal.errors import UsageError, ValueTypeError


def observed_number(value: object, *, name: str) -> float:
    """A Python number, or an array or tensor of one element, as a float; NaN is one, too."""
    if not isinstance(value, (str, bytes)):
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError):
            pass  # a tensor of several elements raises the last of them
    raise ValueTypeError(f"{name} must be one number, got {_shown(value)}.")


def observed_step(step: object) -> int:
    """A whole number, of Python or of an array library."""
    try:
        return operator.index(step)  # type: ignore[arg-type]
    except TypeError:
        raise ValueTypeError(f"step must be a whole number, got {_shown(step)}.") from None


def check_state(state: object, *, needed: Iterable[str], owner: str) -> None:
    """Refuse what is no state of ``owner``: no mapping, or one that lacks an entry."""
    if not isinstance(state, Mapping):
        raise ValueTypeError(
            f"state must be what {owner}.state_dict() gave, got {type(state).__name__}."
        )
    if missing := [name for name in needed if name not in state]:
        raise UsageError(
            f"state must be what {owner}.state_dict() gave; it lacks {', '.join(missing)}."
        )


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, (str, bytes, int, float)) else type(value).__name__
