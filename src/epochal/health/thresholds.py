"""What a rule's numbers are: declared in its own file, and replaced by name from settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound="RuleThresholds")


class RuleThresholds(msgspec.Struct, forbid_unknown_fields=True):
    """The thresholds of one rule.

    A rule declares its own in a nested ``class Thresholds(RuleThresholds)``; each field has a type,
    a default and a comment with its reason. Windows are in logged points, and shares are of 1,
    unless a name says otherwise.
    """


def with_values(kind: type[T], values: Mapping[str, Any]) -> T:
    """A rule's thresholds with some replaced by name.

    Raises ``ValueError`` for a name that the rule does not declare or a value of another type.
    """
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind.__qualname__}: {error}") from error


def declared(thresholds: RuleThresholds) -> dict[str, Any]:
    """Return the values of a rule's thresholds by name."""
    return msgspec.structs.asdict(thresholds)
