"""What a name may be, and which one was probably meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from epochal.errors import MetricNotFoundError, UsageError

_MOST_LISTED = 12


def name_fault(name: object, *, what: str) -> str | None:
    """Say what is wrong with a tag, a label or an input's name; None when nothing is.

    A dot parts the labels of a path and a slash a tag from its parameter, so neither is in a name.
    """
    if not isinstance(name, str) or not name:
        return f"{what} must be a non-empty text, got {name!r}"
    if "." in name or "/" in name:
        return f"{what} {name!r} may not contain a dot or a slash"
    if not name.isprintable():
        return f"{what} {name!r} may only contain printable characters"
    return None


def suggestion(name: str, known: Iterable[str]) -> str:
    """Name the nearest of the known names, or list them."""
    listed = list(known)
    near = get_close_matches(name, listed, n=3)
    if near:
        return f"did you mean {', '.join(map(repr, near))}?"
    if not listed:
        return "there is none yet."
    more = f" and {len(listed) - _MOST_LISTED} more" if len(listed) > _MOST_LISTED else ""
    return f"known are {', '.join(map(repr, listed[:_MOST_LISTED]))}{more}."


def unknown_tag(name: str, known: Iterable[str]) -> UsageError:
    """The error for a tag that no node has."""
    return UsageError(f"No node is tagged {name!r}: {suggestion(name, known)}")


def unknown_metric(name: str, known: Iterable[str]) -> MetricNotFoundError:
    """The error for a metric that was never recorded."""
    return MetricNotFoundError(f"Nothing was recorded as {name!r}: {suggestion(name, known)}")


def listed_names(names: Sequence[str] | str) -> list[str]:
    """Names as a list; a single text is one name."""
    return [names] if isinstance(names, str) else list(names)
