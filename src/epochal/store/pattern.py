"""Regular expressions from outside, kept from taking for ever."""

from __future__ import annotations

import re

MAX_PATTERN = 200
# Names and tags are short; of a long note the beginning is looked at.
MAX_TEXT = 512
_REPEATS = re.compile(r"[*+]|\{\d*,\d*\}|\{\d{2,}\}")


class PatternError(ValueError):
    """A pattern that is not one, or that could take for ever; ``at`` is the place in it."""

    def __init__(self, sentence: str, at: int = 0) -> None:
        super().__init__(sentence)
        self.at = at


def compile_pattern(text: str) -> re.Pattern[str]:
    """A pattern whose time to match is bounded; raises ``PatternError``.

    Repeats inside repeated groups, which can take exponential time, are refused.
    """
    if len(text) > MAX_PATTERN:
        raise PatternError(f"a pattern has at most {MAX_PATTERN} characters")
    try:
        compiled = re.compile(text)
    except re.error as error:
        raise PatternError(
            f"this is not a regular expression ({error.msg})", error.pos or 0
        ) from error
    _refuse_nested_repeats(text)
    return compiled


def matches(pattern: re.Pattern[str], text: str) -> bool:
    """Whether a pattern is found anywhere in a text."""
    return pattern.search(text[:MAX_TEXT]) is not None


def _refuse_nested_repeats(text: str) -> None:
    groups: list[bool] = []  # of each open group: does it hold a repeat or a choice
    at = 0
    while at < len(text):
        character = text[at]
        if character == "\\":
            if text[at + 1 : at + 2].isdigit() and text[at + 1] != "0":
                raise PatternError("a pattern here cannot refer back to a group", at)
            at += 2
            continue
        if character == "[":
            at = _end_of_set(text, at)
            continue
        if character == "(":
            groups.append(False)
        elif character == ")" and groups:
            holds = groups.pop()
            if holds and _REPEATS.match(text, at + 1):
                raise PatternError("a group that is repeated cannot hold a repeat or a choice", at)
            if groups and holds:
                groups[-1] = True
        elif groups and (character == "|" or _REPEATS.match(text, at)):
            groups[-1] = True
        at += 1


def _end_of_set(text: str, at: int) -> int:
    """The place after a set of characters, in which nothing has a meaning."""
    place = at + 1
    if text[place : place + 1] == "^":
        place += 1
    place += 1  # a ] that comes first is a member
    while place < len(text) and text[place] != "]":
        place += 2 if text[place] == "\\" else 1
    return place + 1
