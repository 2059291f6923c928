"""The list of importers, from ``imports/formats/`` and other packages, and the runs they find.

An importer is a module. Its file in ``formats/`` has the name of the format. A package adds
importers with entry points of the group ``epochal.importers``, each the name of such a module::

    def find(path: Path, bounds: SearchBounds | None = None) -> Source | None

``find`` returns the runs in a file or folder, or None if it has another format. ``bounds`` set
which links are followed below a folder; by default those that stay within it. The module may have
two more names. ``ORDER`` is a number; the smallest is tried first. ``IS_GENERAL`` is True for
general formats. Beside a tracker's own files those are not runs.

A file in ``sources/`` reads what can only be copied. Its ``find(place: str) -> Source | None``
takes a path or a URL.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence, Set
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

import msgspec

from epochal.base.guard import Guard
from epochal.base.plugins import entry_points, place_of
from epochal.errors import EpochalError, FormatError, InternalError, UsageError
from epochal.exchange.imports import formats, sources
from epochal.exchange.imports.foreign import Source
from epochal.journal.layout import SearchBounds

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "epochal.importers"
# After the trackers' own files that Epochal knows, before the general ones.
_DEFAULT_ORDER = 50


class Importer(msgspec.Struct, frozen=True):
    """Reads one format."""

    name: str
    module: ModuleType
    # Which importers it is tried before.
    order: int
    # Whether any program writes such files for any purpose.
    is_general: bool

    def find(self, path: Path, bounds: SearchBounds | None = None) -> Source | None:
        """The runs in a file or folder, None if it is not of this format."""
        return cast("Source | None", self.module.find(path, bounds))


@cache
def own_formats() -> tuple[str, ...]:
    """The names of the formats that Epochal reads itself."""
    return tuple(module.name for module in pkgutil.iter_modules(formats.__path__))


@cache
def own_sources() -> tuple[str, ...]:
    """The names of the sources that are only copied."""
    return tuple(module.name for module in pkgutil.iter_modules(sources.__path__))


def all_importers(guard: Guard) -> Sequence[Importer]:
    """Every importer, in the order they are tried.

    One that cannot be loaded is a fault, and left out; after a few faults it is not loaded again.
    """
    found = []
    own: list[tuple[str, EntryPoint | None]] = [(name, None) for name in own_formats()]
    for name, entry_point in (*own, *((one.name, one) for one in entry_points(ENTRY_POINTS))):
        member = f"loading of importer {name}"
        importer = (
            None if guard.is_disabled(member) else guard.run(member, _load, name, entry_point)
        )
        if importer is not None:
            found.append(importer)
    return sorted(found, key=lambda importer: (importer.order, importer.name))


def importer_member(name: str) -> str:
    """What the importer of a format is called as a member of the fault boundary."""
    return f"importer {name}"


def open_foreign(path: str | Path, *, follow_links: bool = False) -> Source | None:
    """The runs that another tracker left in a file or folder; None when there are none of any.

    Links that lead out of the folder are followed only with ``follow_links``. Raises
    ``UsageError`` if there is no such file or folder, and ``FormatError`` for a tracker's file that
    cannot be read. Raises ``InternalError`` if an importer failed and no other knows the file.
    """
    place = Path(path).expanduser().absolute()
    if not place.exists():
        raise UsageError(f"there is no file or folder {str(path)!r}.")
    guard = Guard()
    found = open_all_foreign(
        place, bounds=SearchBounds(place, follow_links=follow_links), guard=guard
    )
    for left_out in () if found else guard.faults.values():
        raise left_out.as_error()
    return found[0] if found else None


def open_source(place: str, *, follow_links: bool = False) -> Source | None:
    """The runs to copy from a path or a URL; None when no importer knows it.

    Raises like ``open_foreign``, ``HttpError`` for a server that cannot be read, and
    ``MissingPackageError`` for a store that needs a package.
    """
    guard = Guard()
    for name in own_sources():
        module = importlib.import_module(f"{sources.__name__}.{name}")
        found: Source | None = guard.explained(importer_member(name), module.find, place)
        if found is not None:
            return found
    return open_foreign(place, follow_links=follow_links)


def open_all_foreign(
    path: str | Path,
    *,
    without: Set[str] = frozenset(),
    bounds: SearchBounds | None = None,
    guard: Guard | None = None,
) -> Sequence[Source]:
    """Every tracker's runs in a file or folder; tables and lines where no tracker left anything.

    Formats named in ``without`` are not tried. Raises like ``open_foreign``, after all were, but
    not for an importer that cannot be loaded: that is a fault in ``guard``.
    """
    place = Path(path).expanduser().absolute()
    found: list[Source] = []
    fault: EpochalError | None = None
    guard = Guard() if guard is None else guard
    for importer in all_importers(guard):
        if importer.name in without or (found and importer.is_general):
            continue
        try:
            member = importer_member(importer.name)
            source = guard.explained(member, importer.find, place, bounds)
        except (FormatError, InternalError) as error:
            fault = fault or error
            continue
        if source is not None:
            found.append(source)
    if fault is not None and not found:
        raise fault
    return found


def _load(name: str, entry_point: EntryPoint | None) -> Importer:
    if entry_point is None:
        module = importlib.import_module(f"{formats.__name__}.{name}")
    else:
        module, where = entry_point.load(), place_of(entry_point)
        if not isinstance(module, ModuleType) or not callable(getattr(module, "find", None)):
            raise TypeError(f"{where} is not a module with a function find")
        if name in own_formats():
            raise ValueError(f"{where} has the name of another importer")
    order = int(getattr(module, "ORDER", _DEFAULT_ORDER))
    return Importer(name, module, order, bool(getattr(module, "IS_GENERAL", False)))
