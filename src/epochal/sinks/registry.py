"""Every sink there is: those in ``sinks/members/``, and those that other packages add.

A sink is found because its file stands in ``members/``. A package adds sinks with entry points of
the group ``epochal.sinks``, each the name of a subclass of ``Sink``. Nothing is loaded before it is
asked for: a training process that reports nowhere loads no sink.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from epochal.errors import UsageError
from epochal.guard import Guard
from epochal.plugins import entry_points
from epochal.sinks import members
from epochal.sinks.sink import Sink, SinkOptions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "epochal.sinks"


@cache
def own_sinks() -> Mapping[str, type[Sink]]:
    """Epochal's own sinks, by name."""
    found: dict[str, type[Sink]] = {}
    for module in pkgutil.iter_modules(members.__path__, f"{members.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            is_sink = isinstance(value, type) and issubclass(value, Sink)
            if is_sink and value.__module__ == module.name:
                found[value.name] = value
    return MappingProxyType(found)


def all_sinks(guard: Guard) -> Mapping[str, type[Sink]]:
    """Our sinks and those of other packages; one that cannot be loaded is a fault, and left out."""
    found = dict(own_sinks())
    for entry_point in _entry_points():
        sink = guard.run(sink_member(entry_point.name), _load, entry_point, frozenset(found))
        if sink is not None:
            found[sink.name] = sink
    return found


def sink_member(name: str) -> str:
    """What a sink is called as a member of the fault boundary."""
    return f"sink {name}"


def make_sink(name: str) -> Sink:
    """A new, unopened sink; raises ``UsageError`` for a name there is none of."""
    found = all_sinks(Guard()).get(name)
    if found is None:
        raise UsageError(f"there is no sink {name!r}.")
    return found()


@cache
def _entry_points() -> tuple[EntryPoint, ...]:
    return entry_points(ENTRY_POINTS)


def _load(entry_point: EntryPoint, taken: frozenset[str]) -> type[Sink]:
    sink = entry_point.load()
    where = f"entry point {entry_point.name} = {entry_point.value} of {ENTRY_POINTS}"
    if not isinstance(sink, type) or not issubclass(sink, Sink):
        raise TypeError(f"{where} is not a subclass of epochal.sinks.sink.Sink")
    if sink.name != entry_point.name:
        raise ValueError(f"{where} is called {sink.name!r}: both names must be the same")
    if sink.name in taken:
        raise ValueError(f"{where} has the name of another sink")
    if not issubclass(sink.options, SinkOptions):
        raise TypeError(f"options of {where} are not a subclass of epochal.sinks.sink.SinkOptions")
    for one in fields(sink.options):
        if not one.name.startswith(f"{sink.name}_"):
            raise ValueError(f"option {one.name!r} of {where} must begin with {sink.name}_")
    return sink
