"""What a series is called in plain logs, lines of ``step kind value``."""

from __future__ import annotations

import re

_BY_ROLE = {"loss": "train", "eval_loss": "val"}
# The score that is reported, by length-normalised choice; ``hellaswag_acc`` is another one.
_HELLASWAG = re.compile(r"(.*[/._])?hellaswag([_/.]?(accuracy|acc[_/.]?norm))?", re.IGNORECASE)


def plain_kind(name: str, *, role: str | None) -> str:
    """One word: ``train``, ``val``, ``hellaswag``, else the name with ``_`` for its blanks."""
    if role in _BY_ROLE:
        return _BY_ROLE[role]
    return "hellaswag" if _HELLASWAG.fullmatch(name) else plain_word(name)


def plain_word(text: str) -> str:
    """A text as one word, so that a line always has three."""
    joined = "_".join(text.split()) or "_"
    return joined if joined.isprintable() else repr(joined)[1:-1]
