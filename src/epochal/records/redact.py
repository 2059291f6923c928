"""Keeps secrets out of what is recorded: values are redacted by their names or by their look.

A name is split into words (snake, kebab, camel case, dots). It is secret when its words contain
``password``, ``passwd``, ``passphrase``, ``secret``, ``credential``, ``authorization`` or
``api_key``, or when the last one is ``token``, ``key``, ``pw``, ``auth``, ``bearer``, ``cookie`` or
``dsn``. Only texts of at least eight characters are redacted, never numbers or booleans.
``max_tokens``, ``pad_token_id``, ``key_dim``, ``author`` stay readable by that rule, and a
tokenizer's special tokens (``SPECIAL_TOKENS``: ``eos_token`` and the like) by an exception to it.

In any text, these are redacted: passwords inside URLs (``https://user:password@host``), values of
names with the words above (``password=…``, also in connection strings), and what ``_LOOKS`` lists:
private keys, ``Authorization`` headers, and the tokens of well-known services (``hf_…``, ``sk-…``).

Everything that a program says comes through here: its configuration, its command, and by
:meth:`Redactor.record` the events, messages, alerts, texts and summary values of a run, and the
reason for which it ended.

The process keeps the true values; only what is written, sent or exported is redacted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

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
# The last word of a name is one of these. Lists and mappings below the first ones are secret too.
_HIDES_ALL = frozenset("pw auth cookie cookies dsn".split())
_LAST = frozenset("token key bearer".split()) | _HIDES_ALL
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
# A header as ``curl -H`` takes it: a word, the value of an option, or quoted in a script.
_HEADER = re.compile(
    r"(?P<start>(?:(?P<q>[\"'])|^-?|=)(?P<name>[A-Za-z][A-Za-z0-9-]*):\s+)"
    r"(?P<value>(?(q)(?:(?!(?P=q)).)+|.+))"
)
_BEARER = re.compile(
    r"(?P<start>authorization[\"']?\s*[:=]\s*[\"']?(?:[a-z]+\s+)?|\bbearer\s+(?=\S*\d|\S{20}))"
    r"[\w.~+/=-]{8,}",
    re.IGNORECASE,
)
# Tokens that say by their beginning what they are: Hugging Face, GitHub, OpenAI and others, GitLab,
# Slack, AWS, a hub of Epochal, and signed JSON (JWT). ``sk-learn`` is none.
_TOKEN = re.compile(
    r"(?<![\w-])(?:(?:hf|gh[oprsu])_[A-Za-z0-9]{16,}|github_pat_\w{16,}"
    r"|sk-(?!learn)[\w-]*?[A-Za-z0-9]{16}[\w-]*|(?:glpat|xox[a-z])-[\w-]{16,}"
    r"|A[KS]IA[A-Z0-9]{16}(?![\w-])|ep_[\w-]{43}(?![\w-])|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"
    r"|AIza[\w-]{35}(?![\w-]))"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----.*?"
    r"(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|\Z)",
    re.DOTALL,
)
_WEBHOOK = re.compile(r"(?P<start>hooks\.slack\.com/[a-z]+/)[\w/-]{16,}")
# A key of W&B has the look of a git hash, so that only a word beside it tells them apart.
_WANDB = re.compile(
    r"(?P<start>\bwandb(?:[ _.-]?(?:api[ _-]?key|login|key))?[\"']?[\s=:,(]+[\"']?)"
    r"[0-9a-f]{40}(?![0-9a-f])",
    re.IGNORECASE,
)
# What is redacted in any text, and what a notice calls it.
_LOOKS = (
    (_PRIVATE_KEY, "a private key"),
    (_BEARER, "a bearer token"),
    (_WEBHOOK, "the address of a webhook"),
    (_WANDB, "a key of W&B"),
    (_TOKEN, "a token in a text"),
)
# The fields of a record with what a program said; the last ones are redacted by the record's name.
_SAID = {"message": ("text",), "finish": ("reason",)}
_SAID_BY_NAME = {"text": ("text", "caption"), "summary": ("value",), "option": ("value",)}


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
        self._noticed: set[str] = set()
        self._more = [re.compile(one, re.IGNORECASE) for one in given if not one.startswith("!")]
        self._fewer = [re.compile(one[1:], re.IGNORECASE) for one in given if one.startswith("!")]

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
        """A text without the passwords, private keys and tokens in it."""
        if not self.is_on:
            return text
        if "://" in text:
            text = _URL.sub(self._url, text)
        for look, what in _LOOKS:
            text = look.sub(partial(self._looked, what), text)
        return _INNER.sub(self._assigned_in_text, text) if "=" in text else text

    def record(self, record: dict[str, Any]) -> dict[str, Any]:
        """A record without secrets in what a program said; others as they are."""
        kind = record["log"]
        if not self.is_on or (kind not in _SAID and kind not in _SAID_BY_NAME):
            return record
        name = str(record.get("name", "")) if kind in _SAID_BY_NAME else ""
        fields = _SAID_BY_NAME.get(kind) or _SAID[kind]
        said = {field: record[field] for field in fields if record.get(field) is not None}
        return {**record, **{f: self._value("", name, value) for f, value in said.items()}}

    def notice(self, print_line: Callable[[str], object]) -> None:
        """Print a sentence that names what was redacted and was not in a sentence before."""
        names, self.names = [name for name in self.names if name not in self._noticed], {}
        self._noticed.update(names)
        if names:
            print_line(
                f"not recorded, because they look like secrets: {', '.join(names)}."
                " Pass redact=False or set EPOCHAL_REDACT=0 to record them."
            )

    # -- by name ----------------------------------------------------------------------------------

    def _value(self, within: str, name: str, value: Any) -> Any:
        path = f"{within}.{name}" if within else name
        if self._is_kept(name, path):
            return value
        if self._is_given(name, path) and not isinstance(value, bool) and value is not None:
            return self._redacted(path)
        return self._inner(path, value, is_secret=_hides_all(path) or _is_secret(name))

    def _inner(self, path: str, value: Any, *, is_secret: bool) -> Any:
        """A value; one of a list is secret where the list's own name says so in so many words."""
        if isinstance(value, Mapping):
            return self.config(value, within=path)
        if isinstance(value, (list, tuple)):
            return [self._inner(path, one, is_secret=_hides_all(path)) for one in value]
        if not isinstance(value, str):
            return value
        if is_secret and len(value) >= _LEAST_CHARACTERS:
            return self._redacted(path)
        return self.text(value)

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
        for pattern in (_HEADER, _INNER, _QUOTED):
            word = pattern.sub(self._assigned, word)
        return self.text(word)

    def _assigned(self, found: re.Match[str]) -> str:
        is_called = found.string[found.end() : found.end() + 1] in ("(", "[")  # code, no value
        if is_called or not self._is_secret(found["name"]):
            return found[0]
        return found["start"] + self._text(found["name"], found["value"])

    def _assigned_in_text(self, found: re.Match[str]) -> str:
        """Like :meth:`_assigned`, for names that leave no doubt: texts are full of ``key=``."""
        name = found["name"]
        is_clear = self._is_given(name, name) or _is_strong(_words(name))
        return self._assigned(found) if is_clear else found[0]

    def _looked(self, what: str, found: re.Match[str]) -> str:
        return (found.groupdict().get("start") or "") + self._redacted(what)

    def _url(self, found: re.Match[str]) -> str:
        user, word = found["user"], found["word"]
        if word:
            self.names.setdefault("a password in a URL")
            return f"{found['start']}{user}:{REDACTED}@"
        if len(user) >= _TOKEN_CHARACTERS:
            self.names.setdefault("a token in a URL")
            return f"{found['start']}{REDACTED}@"
        return found[0]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


def _is_secret(name: str) -> bool:
    words = _words(name)
    if _is_strong(words):
        return True
    is_special = words[-1:] == ["token"] and not SPECIAL_TOKENS.isdisjoint(words[-2:-1])
    return not _LAST.isdisjoint(words[-1:]) and not is_special


def _hides_all(path: str) -> bool:
    """Whether everything is secret that has this dotted path, or is below it."""
    return _is_strong(_words(path)) or any(
        not _HIDES_ALL.isdisjoint(_words(name)[-1:]) for name in path.split(".")
    )


def _is_strong(words: Sequence[str]) -> bool:
    return any(word.endswith(_STRONG) for word in words) or any(
        first == "api" and second in ("key", "keys") for first, second in pairwise(words)
    )
