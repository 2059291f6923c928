"""Where a run reports to: one flat mapping with the options of all sinks.

The flat names are those people write in a configuration file (``report_to``, ``wandb_project``).
A file path is made absolute when it is read, because the process that writes has its own folder.
The training process checks options here, and loads no sink unless an option is given.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from epochal.base.guard import Fault, Guard
from epochal.errors import UsageError, ValueTypeError
from epochal.settings import nearest

if TYPE_CHECKING:
    from epochal.exchange.sinks.sink import Sink, SinkOptions
    from epochal.settings import Located


# How alike a name and an option are when the name counts as misspelt.
_NEAR = 0.9


class KnownSinks(msgspec.Struct, frozen=True):
    """The sinks that can be used now, and the options of all of them."""

    sinks: Mapping[str, type[Sink]]
    faults: Mapping[str, Fault]

    @classmethod
    def load(cls, guard: Guard | None = None) -> KnownSinks:
        """Find every sink; the guard keeps the fault of one that cannot be loaded."""
        from epochal.exchange.sinks.registry import all_sinks

        guard = Guard() if guard is None else guard
        return cls(all_sinks(guard), guard.faults)

    @property
    def options(self) -> dict[str, Field[Any]]:
        """Every option of every sink, by name."""
        return {one.name: one for sink in self.sinks.values() for one in fields(sink.options)}

    @property
    def option_names(self) -> tuple[str, ...]:
        """Every name that a flat mapping may have."""
        return ("report_to", *self.options)

    def checked(self, name: str) -> str:
        """The name of a sink; raises for one there is none of."""
        if name in self.sinks:
            return name
        from epochal.exchange.sinks.registry import sink_member

        fault = self.faults.get(sink_member(name))
        if fault is not None:
            raise UsageError(f"report_to={name!r}: the sink cannot be loaded: {fault.error}.")
        raise UsageError(f"report_to={name!r} is not known: {nearest(name, self.sinks)}")

    def unknown(self, name: str) -> UsageError:
        """The error for an option that no sink has."""
        return UsageError(f"the option {name!r} is not known: {nearest(name, self.option_names)}")


class Reporting(msgspec.Struct, frozen=True):
    """The sinks of a run and the options of each; ``given`` is the flat mapping."""

    report_to: tuple[str, ...] = ()
    given: Mapping[str, str] = {}

    def of(self, sink: str) -> SinkOptions:
        known = KnownSinks.load()
        kind = known.sinks[known.checked(sink)].options
        names = {one.name for one in fields(kind)}
        return kind(**{name: text for name, text in self.given.items() if name in names})

    def plain(self) -> dict[str, Any]:
        """The mapping that :func:`options_from` makes the same from."""
        return {"report_to": list(self.report_to), **self.given}


def options_from(mapping: Mapping[str, Any], *, base: str | Path | None = None) -> Reporting:
    """Read a flat mapping of option names; raises for a name that is not one.

    Relative paths are taken from ``base``, the current folder by default. ``log_file`` alone is
    enough to have that file written. A mapping that says nothing loads no sink.
    """
    if mapping.keys() <= {"report_to"} and mapping.get("report_to") in (None, "none", []):
        return Reporting()
    known = KnownSinks.load()
    options = known.options
    for name in mapping:
        if name != "report_to" and name not in options:
            raise known.unknown(str(name))
    given = {
        name: _absolute(
            _text(name, value, may_be_count=bool(options[name].metadata.get("may_be_count"))),
            base,
            is_path=bool(options[name].metadata.get("is_path")),
        )
        for name, value in mapping.items()
        if name != "report_to" and value is not None
    }
    names = _sink_names(mapping.get("report_to"), known)
    started = [
        sink.name
        for sink in known.sinks.values()
        if any(
            one.name in given and one.metadata.get("starts_sink") for one in fields(sink.options)
        )
    ]
    return Reporting(tuple(dict.fromkeys((*(s for s in started if s not in names), *names))), given)


def located_options(given: Mapping[str, Located]) -> dict[str, Any]:
    """The options in ``[sinks]`` of ``epochal.toml``; an error names the line.

    Relative paths in a project's file are taken from its folder.
    """
    found: dict[str, Any] = {}
    for name, located in given.items():
        try:
            read = options_from({name: located.value}, base=located.base)
        except UsageError as error:
            raise UsageError(f"{located.source}: {error}") from error
        found[name] = located.value if name == "report_to" else read.given[name]
    return found


def split_options(mapping: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options among a file's entries, and the rest; raises for a misspelt option.

    A name counts as misspelt when it begins like an option, or is nearly one.
    """
    options: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    if not mapping:
        return options, rest
    from epochal.exchange.sinks.registry import own_sinks

    known = KnownSinks.load()
    prefixes = ("report_", *(f"{name}_" for name in own_sinks()))
    for name, value in mapping.items():
        if name in known.option_names:
            options[name] = value
        elif str(name).startswith(prefixes) or difflib.get_close_matches(
            str(name), known.option_names, n=1, cutoff=_NEAR
        ):
            raise known.unknown(str(name))
        else:
            rest[name] = value
    return options, rest


def _sink_names(value: Any, known: KnownSinks) -> tuple[str, ...]:
    if value is None or value == "none":
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        raise ValueTypeError(f"report_to must be a name or a list of names, not {value!r}.")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise ValueTypeError(f"report_to must hold names, not {name!r}.")
    return tuple(dict.fromkeys(known.checked(name.strip()) for name in listed))


def _text(name: str, value: Any, *, may_be_count: bool) -> str:
    is_count = may_be_count and type(value) is int
    if (isinstance(value, (str, Path)) and str(value)) or is_count:
        return str(value)
    raise ValueTypeError(f"{name} must be a text that is not empty, not {value!r}.")


def _absolute(text: str, base: str | Path | None, *, is_path: bool) -> str:
    if not is_path or "://" in text:
        return text
    path = Path(text).expanduser()
    return str((path if base is None else Path(base) / path).absolute())
