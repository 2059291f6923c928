"""The bounds of a search for runs: links out of the folder are followed only on request.

A searched folder may itself be a link. A link inside is followed where it leads to something within
the searched folders; with ``follow_links`` it is followed wherever it leads.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

_StrPath = str | os.PathLike[str]
P = TypeVar("P", str, Path)


class SearchBounds:
    """The folders that are searched, and whether links may lead out of them."""

    def __init__(self, *roots: _StrPath, follow_links: bool = False) -> None:
        self.follow_links = follow_links
        self._roots = tuple(os.path.realpath(root) for root in roots)

    def with_root(self, root: _StrPath) -> SearchBounds:
        """The same bounds, and one more folder within them."""
        return SearchBounds(*self._roots, root, follow_links=self.follow_links)

    def allows(self, path: _StrPath) -> bool:
        """Whether a path may be read: it lies within the folders, or links may be followed."""
        if self.follow_links:
            return True
        real = os.path.realpath(path)
        return any(real == root or real.startswith(_below(root)) for root in self._roots)

    def allows_entry(self, entry: os.DirEntry[str]) -> bool:
        """Like ``allows`` for an entry of a folder that is allowed; free unless it is a link."""
        return self.follow_links or not entry.is_symlink() or self.allows(entry.path)

    def leads_out(self, path: _StrPath) -> bool:
        """Whether what lies in an allowed folder is a link that is not followed."""
        return not self.follow_links and os.path.islink(path) and not self.allows(path)

    def chosen(self, paths: Iterable[P]) -> list[P]:
        """Those of some paths that may be read."""
        return [path for path in paths if self.allows(path)]


def _below(root: str) -> str:
    return root if root.endswith(os.sep) else root + os.sep
