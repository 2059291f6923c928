"""Finds and parses ``epochal.toml``, and knows the line of each key.

The project's file is the nearest ``epochal.toml`` from the working folder upward. The search ends
at the folder that holds ``.git``. The user's file is ``epochal/epochal.toml`` in
``$XDG_CONFIG_HOME``, by default ``~/.config``.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from epochal.errors import UsageError

NAME = "epochal.toml"
_PLACE = re.compile(r" \(at line (\d+), column \d+\)$")
_AT_END = " (at end of document)"

Origin = Literal["project", "user"]
Key = tuple[str, ...]


class SettingsFile:
    """A file that was read.

    ``base`` is what relative paths in it start from, None for the working folder.
    """

    def __init__(self, path: Path, origin: Origin) -> None:
        self.path = path
        self.origin = origin
        self.base = path.parent if origin == "project" else None
        self._text = _read(path)
        self.table = self._parsed(self._text)

    def __str__(self) -> str:
        try:
            relative = os.path.relpath(self.path)
        except (OSError, ValueError):  # the working folder is gone, or on another drive
            return str(self.path)
        return str(self.path) if relative.startswith(os.pardir) else relative

    def line(self, key: Key) -> int | None:
        """The line of a key or a table, counted from 1."""
        return self._lines.get(key)

    @cached_property
    def _lines(self) -> Mapping[Key, int]:
        """The parser has no line numbers. So longer and longer prefixes of the file are parsed.

        A key stands where it first appears: after the last beginning that parses without it.
        """
        lines = self._text.splitlines(keepends=True)
        found: dict[Key, int] = {}
        start = 0
        for end in range(1, len(lines) + 1):
            try:
                table = _toml().loads("".join(lines[:end]))
            except ValueError:
                continue  # inside a value of several lines
            for key in _keys(table):
                found.setdefault(key, start + 1)
            start = end
        return found

    def _parsed(self, text: str) -> Mapping[str, Any]:
        try:
            return _toml().loads(text)  # type: ignore[no-any-return]
        except ValueError as error:
            said = str(error)
            place = _PLACE.search(said)
            last = max(1, text.count("\n") + (not text.endswith("\n")))
            line = last if place is None else int(place[1])
            words = _PLACE.sub("", said).removesuffix(_AT_END)
            raise UsageError(f"{self} line {line}: this is not valid TOML: {words}.") from error


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: a variable, a key of a file, or neither for a default."""

    variable: str | None = None
    file: SettingsFile | None = field(default=None, compare=False)
    key: Key = ()

    @property
    def line(self) -> int | None:
        """The line of the file."""
        return None if self.file is None else self.file.line(self.key)

    def __str__(self) -> str:
        if self.file is not None:
            line = self.line
            return str(self.file) if line is None else f"{self.file} line {line}"
        return "default" if self.variable is None else f"environment variable {self.variable}"


def find_project_file(folder: Path) -> Path | None:
    """The project's file for a working folder."""
    for place in (folder, *folder.parents):
        own = place / NAME
        if own.is_file() and not _is_planted(own):
            return own
        if (place / ".git").exists():
            return None
    return None


def user_file(environ: Mapping[str, str]) -> Path:
    """Where the user's file is, or would be."""
    shared = environ.get("XDG_CONFIG_HOME")
    return (Path(shared) if shared else Path.home() / ".config") / "epochal" / NAME


def _is_planted(path: Path) -> bool:
    """Whether another user may have put a file into a shared folder such as /tmp."""
    if not hasattr(os, "getuid"):
        return False
    try:
        return (
            bool(path.parent.stat().st_mode & stat.S_IWOTH)
            and path.stat().st_uid not in (0, os.getuid())  # root may do as it likes anyway
        )
    except OSError:
        return False


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} cannot be read: it is not UTF-8 text.") from error


def _keys(table: Mapping[str, Any], prefix: Key = ()) -> Iterator[Key]:
    for name, value in table.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from _keys(value, (*prefix, name))


def _toml() -> Any:
    """The parser; imported when a file is there to be parsed."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib
