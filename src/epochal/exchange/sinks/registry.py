"""Every sink there is: those in ``sinks/members/``, and those that other packages add.

A sink is found because its file stands in ``members/``. A package adds sinks with entry points of
the group ``epochal.sinks``, each the name of a subclass of ``Sink``. Nothing is loaded before it is
asked for: a training process that reports nowhere loads no sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from epochal.base.guard import Guard
from epochal.base.plugins import entry_points, load_member, own_members, place_of
from epochal.errors import UsageError
from epochal.exchange.sinks import members
from epochal.exchange.sinks.sink import Sink, SinkOptions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "epochal.sinks"


@cache
def own_sinks() -> Mapping[str, type[Sink]]:
    """Epochal's own sinks, by name."""
    found = own_members(members, Sink)  # type: ignore[type-abstract]
    return MappingProxyType({sink.name: sink for sink in found})


def all_sinks(guard: Guard) -> Mapping[str, type[Sink]]:
    """Our sinks and those of other packages; one that cannot be loaded is a fault, and left out."""
    found = dict(own_sinks())
    for entry_point in entry_points(ENTRY_POINTS):
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


def _load(entry_point: EntryPoint, taken: frozenset[str]) -> type[Sink]:
    sink = load_member(entry_point, Sink, taken)  # type: ignore[type-abstract]
    where = place_of(entry_point)
    if not issubclass(sink.options, SinkOptions):
        raise TypeError(
            f"options of {where} are not a subclass of epochal.exchange.sinks.sink.SinkOptions"
        )
    for one in fields(sink.options):
        if not one.name.startswith(f"{sink.name}_"):
            raise ValueError(f"option {one.name!r} of {where} must begin with {sink.name}_")
    return sink
