"""Finds what other packages add to Epochal through entry points, and whose a member is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

# By the word that the names of its members have: "rule plateau", "loading of importer csv".
_GROUPS = {"rule": "epochal.rules", "sink": "epochal.sinks", "importer": "epochal.importers"}


def entry_points(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, such as ``epochal.rules``.

    ``importlib.metadata`` costs two MiB in every companion, so it is loaded only where an installed
    package names the group.
    """
    header = f"[{group}]".encode()
    if not any(header in text for text in _entry_point_files()):
        return ()
    from importlib.metadata import entry_points as read

    return tuple(read(group=group))


def package_of(member: str) -> str | None:
    """The package that a member of another package comes from; None for one of Epochal."""
    kind, _, name = member.rpartition(" ")
    group = _GROUPS.get(kind.rpartition(" ")[2])
    found = () if group is None else entry_points(group)
    return next((one.dist.name for one in found if one.name == name and one.dist), None)


def _entry_point_files() -> Iterator[bytes]:
    for folder in dict.fromkeys(sys.path):
        for pattern in ("*.dist-info/entry_points.txt", "*.egg-info/entry_points.txt"):
            try:
                yield from (path.read_bytes() for path in Path(folder or ".").glob(pattern))
            except OSError:  # a folder on the path that is not there or cannot be read
                continue
