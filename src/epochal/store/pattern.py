r"""Regular expressions from outside, matched in time linear in the text.

RE2 matches without going back, so no pattern takes for ever. A pattern has only syntax that means
the same everywhere; ``spec/patterns.json`` has examples.

    . [a-z] [^a-z] \d \w \s \D \W \S    one character; ASCII for the classes
    \t \n \r \f \v \x41                 one character
    ^ $ \b \B                           the ends, and the ends of words
    (…) (?:…) a|b                       groups and choices
    * + ? {3} {3,} {3,5}                repeats, also followed by ?
    (?i)                                at the start: case does not count
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MAX_PATTERN = 200
# Names and tags are short; of a long note the beginning is looked at.
MAX_TEXT = 4096
# How long a pattern may be with its repeats written out.
MAX_SIZE = 1000
_ANY_CASE = "(?i)"
_COUNTS = re.compile(r"\{(\d{1,6})(?:(,)(\d{1,6})?)?\}")
_HEX = re.compile(r"x([0-9A-Fa-f]{2})")
_CLASSES = frozenset("dwsDWS")
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_LOOKING = re.compile(r"\(\?(?:[=!]|<)")


class PatternError(ValueError):
    """A pattern that is invalid or not supported; ``at`` is the index of the mistake."""

    def __init__(self, sentence: str, at: int = 0) -> None:
        super().__init__(sentence)
        self.at = at


class Pattern:
    """A pattern that was checked; ``literal`` is the word it looks for, where it is one."""

    def __init__(self, text: str, literal: str | None = None) -> None:
        self._text = text
        self.literal = literal
        # Of a word only where a text is not ASCII: RE2 takes a tenth of a second to load.
        self._expression = _compiled(text) if literal is None else None

    def is_in(self, text: str) -> bool:
        """Whether it matches anywhere in a text."""
        if self.literal is not None and text.isascii():
            return self.literal in (text if len(text) <= MAX_TEXT else text[:MAX_TEXT]).lower()
        if self._expression is None:
            self._expression = _compiled(self._text)
        encoded = text[:MAX_TEXT].encode("utf-8", "replace")
        return self._expression.search(encoded) is not None


def compile_pattern(text: str) -> Pattern:
    """Compile a pattern; raises ``PatternError``."""
    if len(text) > MAX_PATTERN:
        raise PatternError(f"a pattern has at most {MAX_PATTERN} characters")
    _Check(text).whole()
    return Pattern(text, _literal(text))


def _compiled(text: str) -> Any:
    try:
        import re2  # a tenth of a second, and only needed where there is a pattern
    except ImportError as error:
        raise PatternError(f"patterns need google-re2, which cannot be loaded: {error}") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        raise PatternError(f"this is not a regular expression ({error})") from error


def _literal(text: str) -> str | None:
    """What a pattern without regard to case looks for, where it is plain letters.

    Lists of thousands of runs are searched for words: several times faster without RE2.
    """
    letters = text.removeprefix(_ANY_CASE)
    is_plain = letters != text and letters.isascii() and letters.replace("-", "a").isalnum()
    return letters.lower() if is_plain else None


class _Member(NamedTuple):
    """The code of one character, -1 for a class of them, and the index after it."""

    code: int
    end: int


class _Check:
    """Reads a pattern once from left to right, and refuses what is not supported."""

    def __init__(self, text: str) -> None:
        self._text = text
        # Of each open group and of the whole: how long it is with its repeats written out.
        self._sizes = [0]
        self._opened: list[int] = []
        # The size of what could be repeated next, 0 for nothing.
        self._last = 0

    def whole(self) -> None:
        text = self._text
        at = len(_ANY_CASE) if text.startswith(_ANY_CASE) else 0
        while at < len(text):
            at = self._item(at)
            if self._sizes[-1] > MAX_SIZE:
                raise PatternError(
                    f"a pattern has at most {MAX_SIZE} characters with its repeats written out", at
                )
        if self._opened:
            raise PatternError("expected a closing )", self._opened[-1])

    def _item(self, at: int) -> int:
        character = self._text[at]
        if character == "(":
            return self._open(at)
        if character == ")":
            return self._close(at)
        if character in "*+?{":
            return self._repeat(at)
        if character in "|^$":
            self._last = 0
            return at + 1
        if character == "[":
            return self._one(self._set(at))
        if character == "\\":
            if self._text[at + 1 : at + 2] in ("b", "B"):
                self._last = 0
                return at + 2
            return self._one(self._escape(at).end)
        return self._one(at + 1)

    def _one(self, end: int) -> int:
        self._sizes[-1] += 1
        self._last = 1
        return end

    def _open(self, at: int) -> int:
        if _LOOKING.match(self._text, at):
            raise PatternError(
                "a pattern cannot look ahead or behind: join two conditions with 'and',"
                " the second with !~ for what must not occur",
                at,
            )
        is_plain = not self._text.startswith("(?", at)
        if not is_plain and not self._text.startswith("(?:", at):
            raise PatternError("(? has no meaning here", at)
        self._opened.append(at)
        self._sizes.append(0)
        self._last = 0
        return at + (1 if is_plain else 3)

    def _close(self, at: int) -> int:
        if not self._opened:
            raise PatternError("there is no ( for this )", at)
        self._opened.pop()
        self._last = max(self._sizes.pop(), 1)
        self._sizes[-1] += self._last
        return at + 1

    def _repeat(self, at: int) -> int:
        times, end = 1, at + 1
        if self._text[at] == "{":
            counts = _COUNTS.match(self._text, at)
            if counts is None:
                raise PatternError(
                    "expected a number, as in {3} or {3,5}; write \\{ for a brace", at
                )
            low, high = int(counts[1]), int(counts[3] or counts[1])
            if high < low:
                raise PatternError(f"{counts[0]} has no meaning here", at)
            times, end = max(high, 1), counts.end()
        if self._last == 0:
            raise PatternError("there is nothing to repeat here", at)
        self._sizes[-1] += self._last * (times - 1)
        self._last = 0
        return end + (1 if self._text[end : end + 1] == "?" else 0)

    def _set(self, at: int) -> int:
        """The index after a set of characters."""
        text = self._text
        place = first = at + (2 if text.startswith("[^", at) else 1)
        while place < len(text):
            if text[place] == "]" and place > first:
                return place + 1
            low = self._member(place)
            place = low.end
            if text[place : place + 1] == "-" and text[place + 1 : place + 2] not in ("]", ""):
                high = self._member(place + 1)
                if low.code < 0 or high.code < low.code:
                    raise PatternError("this range has no meaning here", place - 1)
                place = high.end
        raise PatternError("expected a closing ]", at)

    def _member(self, at: int) -> _Member:
        if self._text[at] == "\\":
            return self._escape(at)
        if self._text[at] == "[" and self._text[at + 1 : at + 2] in (":", ".", "="):
            raise PatternError(f"{self._text[at : at + 2]} has no meaning here", at)
        return _Member(ord(self._text[at]), at + 1)

    def _escape(self, at: int) -> _Member:
        following = self._text[at + 1 : at + 2]
        if following == "":
            raise PatternError("a \\ at the end has no meaning here", at)
        if following in _CLASSES:
            return _Member(-1, at + 2)
        if following in _CONTROLS:
            return _Member(_CONTROLS[following], at + 2)
        if code := _HEX.match(self._text, at + 1):
            return _Member(int(code[1], 16), code.end())
        if following in "123456789":
            raise PatternError(
                "a pattern cannot refer back to a group: join conditions with 'and', ~ and !~", at
            )
        if following.isascii() and not following.isalnum():
            return _Member(ord(following), at + 2)
        raise PatternError(f"\\{following} has no meaning here", at)
