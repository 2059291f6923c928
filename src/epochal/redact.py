"""Keeps secrets out of what is recorded: values are redacted by the names they go by.

A name is split into words (snake, kebab, camel case, dots). It is secret when its words contain
``password``, ``passwd``, ``passphrase``, ``secret``, ``credential``, ``authorization`` or
``api_key``, or when the last one is ``token`` or ``key``. Only texts of at least eight characters
are redacted, never numbers or booleans. ``max_tokens``, ``pad_token_id``, ``key_dim`` stay readable
by that rule, and a tokenizer's special tokens (``SPECIAL_TOKENS``: ``eos_token`` and the like) by
an exception to it. Passwords inside URLs (``https://user:password@host``) are redacted anywhere.

The process keeps the true values; only what is written, sent or exported is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from epochal.errors import UsageError

REDACTED = "[redacted]"
# The words before ``token`` that name a piece of text of a tokenizer, not an access token.
SPECIAL_TOKENS = frozenset(
    "additional audio begin bos boi cls decoder end eoi eos eot fim first image last mask middle"
    " newline next pad prefix sep special start stop suffix think unk video".split()
)
_LEAST_CHARACTERS = 8
# A user name as long as this in a URL without a password is an access token.
_TOKEN_CHARACTERS = 20
# A word that ends so is enough: ``dbpassword`` too.
_STRONG = tuple(
    "password passwords passwd passphrase secret secrets credential credentials authorization"
    " apikey apikeys".split()
)
_WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
_URL = re.compile(r"(?P<start>[A-Za-z][\w+.-]*://)(?P<user>[^\s/:@]*)(?::(?P<word>[^\s/]*))?@")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z][\w.-]*)")
_ASSIGNED = re.compile(r"(?P<start>[-+~]*(?P<name>[A-Za-z_][\w.-]*)=)(?P<value>.+)", re.DOTALL)
# ``name=value`` in the middle of a word, as in a query string or the text of ``sh -c``.
_INNER = re.compile(
    r"(?P<start>(?P<name>[A-Za-z_][\w.-]*)=)(?P<value>\"[^\"]*\"|'[^']*'|[^\s\"'()\[\]{},;&]+)"
)
_QUOTED = re.compile(
    r"(?P<start>(?P<q>[\"'])(?P<name>[\w.-]+)(?P=q)\s*:\s*)(?P<value>\"(?:[^\"\\]|\\.)*\"|'[^']*')"
)


class Redactor:
    """Redacts by name; ``names`` remembers what was redacted, for a notice.

    ``patterns`` are further names, or regular expressions that fit a whole name or its dotted path,
    whatever the case; what they fit is redacted whatever its value. One with ``!`` before it stays
    readable. ``is_on=False`` redacts nothing.
    """

    def __init__(self, patterns: Iterable[str] = (), *, is_on: bool = True) -> None:
        given = list(patterns)
        self.is_on = is_on
        self.names: dict[str, None] = {}
        self._more = [_compiled(one) for one in given if not one.startswith("!")]
        self._fewer = [_compiled(one[1:]) for one in given if one.startswith("!")]

    def config(self, config: Mapping[str, Any], *, within: str = "") -> dict[str, Any]:
        """A copy of a configuration of plain JSON values, redacted at any depth."""
        if not self.is_on:
            return dict(config)
        return {name: self._value(within, str(name), value) for name, value in config.items()}

    def command(self, words: Sequence[str]) -> list[str]:
        """A command line: ``--password x``, ``--password=x``, ``PASSWORD=x``, and inside a word."""
        if not self.is_on:
            return list(words)
        redacted: list[str] = []
        option: str | None = None  # the name whose value the next word is
        for before, word in zip(["", *words], words, strict=False):
            if option is not None and not word.startswith("--"):
                redacted.append(self._text(option, word))
                option = None
                continue
            found = _OPTION.fullmatch(word)
            option = found["name"] if found is not None and self._is_secret(found["name"]) else None
            redacted.append(self._word(word, is_script=before == "-c"))
        return redacted

    def identity(self, identity: Mapping[str, Any]) -> dict[str, Any]:
        """A copy of what ``run.json`` holds, its command, configuration and git facts redacted."""
        found = dict(identity)
        if isinstance(found.get("config"), Mapping):
            found["config"] = self.config(found["config"])
        if isinstance(found.get("command"), list):
            found["command"] = self.command([str(word) for word in found["command"]])
        if isinstance(found.get("git"), Mapping):
            facts = found["git"].items()
            found["git"] = {k: self.text(v) if isinstance(v, str) else v for k, v in facts}
        return found

    def text(self, text: str) -> str:
        """A text without the passwords of URLs in it."""
        return _URL.sub(self._url, text) if self.is_on and "://" in text else text

    def notice(self) -> str | None:
        """A sentence about what was redacted since the last one; None when nothing was."""
        names, self.names = self.names, {}
        if not names:
            return None
        return (
            f"not recorded, because of their names: {', '.join(names)}."
            " redact=False or EPOCHAL_REDACT=0 records them."
        )

    # -- by name ----------------------------------------------------------------------------------

    def _value(self, within: str, name: str, value: Any) -> Any:
        path = f"{within}.{name}" if within else name
        if self._is_kept(name, path):
            return value
        if self._is_given(name, path) and not isinstance(value, bool) and value is not None:
            return self._redacted(path)
        if isinstance(value, Mapping):
            return self.config(value, within=path)
        is_secret = _is_strong(_words(path)) or _is_secret(name)
        if isinstance(value, str):
            if is_secret and len(value) >= _LEAST_CHARACTERS:
                return self._redacted(path)
            return self.text(value)
        if isinstance(value, (list, tuple)):
            return [self._element(path, index, one) for index, one in enumerate(value)]
        return value

    def _element(self, path: str, index: int, value: Any) -> Any:
        """One of a list: secret where the list's own name says so in so many words."""
        if isinstance(value, Mapping):
            return self.config(value, within=path)
        if isinstance(value, (list, tuple)):
            return [self._element(path, index, one) for one in value]
        if isinstance(value, str):
            if _is_strong(_words(path)) and len(value) >= _LEAST_CHARACTERS:
                return self._redacted(path)
            return self.text(value)
        return value

    def _is_secret(self, name: str) -> bool:
        if self._is_kept(name, name):
            return False
        return self._is_given(name, name) or _is_secret(name)

    def _is_given(self, name: str, path: str) -> bool:
        return any(one.fullmatch(name) or one.fullmatch(path) for one in self._more)

    def _is_kept(self, name: str, path: str) -> bool:
        return any(one.fullmatch(name) or one.fullmatch(path) for one in self._fewer)

    def _redacted(self, name: str) -> str:
        self.names.setdefault(name)
        return REDACTED

    # -- in words of a command --------------------------------------------------------------------

    def _text(self, name: str, value: str) -> str:
        """The value of a secret name on a command line, where numbers are texts as well."""
        if self._is_given(name, name):
            return self._redacted(name)
        bare = value.strip("\"'")
        is_number = re.fullmatch(r"[-+]?[\d.]+(e[-+]?\d+)?", bare) is not None
        if len(bare) < _LEAST_CHARACTERS or (is_number and not _is_strong(_words(name))):
            return value
        return value.replace(bare, self._redacted(name))

    def _word(self, word: str, *, is_script: bool) -> str:
        whole = None if is_script else _ASSIGNED.fullmatch(word)
        if whole is not None and self._is_secret(whole["name"]):
            return whole["start"] + self._text(whole["name"], whole["value"])
        for pattern in (_INNER, _QUOTED):
            word = pattern.sub(self._assigned, word)
        return self.text(word)

    def _assigned(self, found: re.Match[str]) -> str:
        is_called = found.string[found.end() : found.end() + 1] in ("(", "[")  # code, no value
        if is_called or not self._is_secret(found["name"]):
            return found[0]
        return found["start"] + self._text(found["name"], found["value"])

    def _url(self, found: re.Match[str]) -> str:
        user, word = found["user"], found["word"]
        if word:
            self.names.setdefault("a password in a URL")
            return f"{found['start']}{user}:{REDACTED}@"
        if len(user) >= _TOKEN_CHARACTERS:
            self.names.setdefault("a token in a URL")
            return f"{found['start']}{REDACTED}@"
        return found[0]


def checked_redactor(redact: Any, default: bool | tuple[str, ...] = True) -> Redactor:
    """The redactor that ``redact=`` asks for: True, False, or further patterns; None: default."""
    if isinstance(redact, bool):
        # ``redact=True`` keeps the patterns that the environment gives.
        return Redactor(default if isinstance(default, tuple) else (), is_on=redact)
    if redact is None:
        return checked_redactor(default) if isinstance(default, bool) else Redactor(default)
    given = [redact] if isinstance(redact, str) else redact
    more = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, str) for one in more):
        raise UsageError(
            "redact takes False, or names and regular expressions of what else to redact;"
            f" this is {redact!r}."
        )
    return Redactor([*(default if isinstance(default, tuple) else ()), *more])


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise UsageError(f"redact={pattern!r} is not a regular expression: {error}.") from error


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(name: str) -> bool:
    words = _words(name)
    if _is_strong(words):
        return True
    if words[-1:] == ["key"]:
        return True
    return words[-1:] == ["token"] and not SPECIAL_TOKENS.intersection(words[-2:-1])


def _is_strong(words: Sequence[str]) -> bool:
    return any(word.endswith(_STRONG) for word in words) or any(
        first == "api" and second in ("key", "keys") for first, second in pairwise(words)
    )
