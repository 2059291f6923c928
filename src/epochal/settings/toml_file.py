"""Finds and parses ``epochal.toml``.

The project's file is the nearest ``epochal.toml`` from the working folder upward. The search ends
at the folder that holds ``.git``. The user's file is ``epochal/epochal.toml`` in
``$XDG_CONFIG_HOME``, by default ``~/.config``.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from epochal.errors import UsageError

NAME = "epochal.toml"

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
        self.table = self._parsed(_read(path))

    def __str__(self) -> str:
        return shown_path(self.path)

    def _parsed(self, text: str) -> Mapping[str, Any]:
        try:
            return _toml().loads(text)  # type: ignore[no-any-return]
        except ValueError as error:
            raise UsageError(f"{self}: this is not valid TOML: {error}.") from error


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: an argument, a variable, a file, or none of them for a default."""

    argument: str | None = None
    variable: str | None = None
    file: SettingsFile | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.file is not None:
            return str(self.file)
        if self.argument is not None:
            return self.argument
        return "default" if self.variable is None else f"environment variable {self.variable}"


def shown_path(path: Path) -> str:
    """Return a path relative to the working folder, unless it is outside of that."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the working folder is gone, or on another drive
        return str(path)
    return str(path) if relative.startswith(os.pardir) else relative


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


def _toml() -> Any:
    """The parser; imported when a file is there to be parsed."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib
