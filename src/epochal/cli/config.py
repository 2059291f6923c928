"""``epochal config``: every setting, its value, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from epochal.cli.command import cli_command, json_option
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table
from epochal.redact import REDACTED, Redactor
from epochal.settings import DECLARED, Located, Settings, file_paths, read_settings
from epochal.sinks.reporting import KnownSinks, located_options


@dataclass(frozen=True, slots=True)
class _Line:
    """One setting as it is shown; ``located`` is None for a default."""

    name: str
    value: Any
    located: Located | None = None


@cli_command
@click.argument("action", type=click.Choice(("show", "path")), default="show")
@click.option(
    "--all", "with_all", is_flag=True, help="Also show options of sinks and thresholds of rules."
)
@json_option
def command(action: str, with_all: bool, as_json: bool) -> None:
    """Show every setting, its value and where the value comes from.

    'epochal config path' names the files that are read.
    """
    if action == "path":
        _say_paths(as_json=as_json)
        return
    settings = read_settings()
    lines = [
        *_declared(settings),
        *_sinks(settings, with_all=with_all),
        *_rules(settings, with_all=with_all),
    ]
    if as_json:
        say_json({"files": _files(), "settings": [_as_data(line) for line in lines]})
        return
    _say_paths(as_json=False)
    remark("")
    rows = [(line.name, _text(line.value), _source(line)) for line in lines]
    say(table(("setting", "value", "from"), rows))


def _declared(settings: Settings) -> Iterator[_Line]:
    for one in DECLARED:
        value, source = getattr(settings, one.name), settings.sources[one.name]
        shown = _hidden(value) if one.kind.is_secret else value
        name = one.key or one.name
        is_set = source.file is not None or source.variable is not None
        yield _Line(name, shown, Located(value, source) if is_set else None)


def _sinks(settings: Settings, *, with_all: bool) -> Iterator[_Line]:
    values = located_options(settings.sinks)
    for name in KnownSinks.load().option_names:
        if name in values or with_all:
            yield _Line(f"sinks.{name}", values.get(name), settings.sinks.get(name))


def _rules(settings: Settings, *, with_all: bool) -> Iterator[_Line]:
    from epochal.health.rule_settings import SILENCE, known_rules, rule_settings
    from epochal.health.thresholds import declared

    rule_settings(settings)
    given = settings.rules
    silence = given.get(SILENCE)
    if silence is not None or with_all:
        yield _Line(f"rules.{SILENCE}", [] if silence is None else silence.value, silence)
    for rule, kind in sorted(known_rules().items()):
        for name, default in {"enabled": True, **declared(kind.Thresholds())}.items():
            located = given.get(f"{rule}.{name}")
            if located is not None:
                yield _Line(f"rules.{rule}.{name}", located.value, located)
            elif with_all:
                yield _Line(f"rules.{rule}.{name}", default)


def _say_paths(*, as_json: bool) -> None:
    if as_json:
        say_json(_files())
        return
    for origin, path in _files().items():
        state = "" if path is None or Path(path).is_file() else "  (not there)"
        say(f"{origin} file: {'none' if path is None else path}{state}")


def _files() -> dict[str, str | None]:
    project, user = file_paths()
    return {
        "project": None if project is None else str(project),
        "user": None if user is None else str(user),
    }


def _as_data(line: _Line) -> dict[str, Any]:
    source = None if line.located is None else line.located.source
    file = None if source is None else source.file
    variable = None if source is None else source.variable
    return {
        "name": line.name,
        "value": _clean(line.value),
        "from": "environment" if variable else "default" if file is None else file.origin,
        "variable": variable,
        "file": None if file is None else str(file.path),
    }


def _source(line: _Line) -> str:
    return "default" if line.located is None else str(line.located.source)


def _hidden(value: Any) -> Any:
    """A secret, or a list of addresses of which no more than the service is shown."""
    if isinstance(value, tuple):
        return tuple(_service(one) for one in value)
    return None if value is None else REDACTED


def _service(address: str) -> str:
    scheme, mark, _ = address.partition("://")
    return f"{scheme}{mark}{REDACTED}" if mark else address


def _clean(value: Any) -> Any:
    """A value without the passwords in it."""
    if isinstance(value, (list, tuple)):
        return [_clean(one) for one in value]
    return Redactor().text(value) if isinstance(value, str) else value


def _text(value: Any) -> str:
    clean = _clean(value)
    if isinstance(clean, list):
        return ", ".join(map(_text, clean)) or "–"
    if isinstance(clean, bool):
        return str(clean).lower()
    if isinstance(clean, float):
        return f"{clean:g}"
    return "–" if clean is None else str(clean)
