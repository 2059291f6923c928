"""Finds what other packages add to Epochal through entry points, and whose a member is."""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint
    from types import ModuleType

T = TypeVar("T")

# By the word that the names of its members have: "rule plateau", "loading of importer csv".
_GROUPS = {"rule": "epochal.rules", "sink": "epochal.sinks", "importer": "epochal.importers"}


def own_members(package: ModuleType, base: type[T]) -> Iterator[type[T]]:
    """The subclasses of ``base`` that the modules of a package define."""
    import pkgutil  # every process loads this module, few list their members

    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        for value in vars(import_module(module.name)).values():
            # The module first: on Python 3.10 an alias such as list[int] is an instance of type.
            is_own = isinstance(value, type) and value.__module__ == module.name
            if is_own and issubclass(value, base):
                yield value


def load_member(entry_point: EntryPoint, base: type[T], taken: Container[str]) -> type[T]:
    """The subclass of ``base`` that an entry point of another package names.

    Raises ``TypeError`` or ``ValueError`` for anything else, and for a name that is ``taken``.
    """
    member = entry_point.load()
    where = place_of(entry_point)
    if not isinstance(member, type) or not issubclass(member, base):
        raise TypeError(f"{where} is not a subclass of {base.__module__}.{base.__name__}")
    name = getattr(member, "name", None)
    if name != entry_point.name:
        raise ValueError(f"{where} is called {name!r}: both names must be the same")
    if name in taken:
        raise ValueError(f"{where} has the name of another {base.__name__.lower()}: {name}")
    return member


def place_of(entry_point: EntryPoint) -> str:
    """What names an entry point in a sentence."""
    return f"entry point {entry_point.name} = {entry_point.value} of {entry_point.group}"


@cache
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
