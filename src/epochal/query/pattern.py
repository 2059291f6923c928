"""Regular expressions from outside, matched in time linear in the text.

RE2 matches without going back, so no pattern takes for ever.
"""

from __future__ import annotations

import re
from typing import Any

from epochal.errors import UsageError

MAX_PATTERN = 200
# Names and tags are short; only the beginning of a long note is searched.
MAX_TEXT = 4096
_ANY_CASE = "(?i)"
# What people know from other engines: lookahead, lookbehind, references to groups.
_NOT_IN_RE2 = re.compile(r"\(\?(?:[=!]|<[=!])|\\[1-9]")


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
    """Compile a pattern; raises ``UsageError``."""
    if len(text) > MAX_PATTERN:
        raise UsageError(f"a pattern has at most {MAX_PATTERN} characters")
    return Pattern(text, _literal(text))


def _compiled(text: str) -> Any:
    try:
        import re2  # a tenth of a second, and only needed where there is a pattern
    except ImportError as error:
        raise UsageError(f"patterns need google-re2, which cannot be loaded: {error}") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text.encode("utf-8", "replace"), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if error.args else str(error)
        if _NOT_IN_RE2.search(text):
            reason += "; join two conditions with 'and' instead, and use !~ for what must not occur"
        raise UsageError(f"this is not a regular expression: {reason}") from error


def _literal(text: str) -> str | None:
    """What a pattern without regard to case looks for, where it is plain letters.

    Lists of thousands of runs are searched for words: several times faster without RE2.
    """
    letters = text.removeprefix(_ANY_CASE)
    is_plain = letters != text and letters.isascii() and letters.replace("-", "a").isalnum()
    return letters.lower() if is_plain else None
