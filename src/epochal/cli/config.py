"""``epochal config``: every setting, its value, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from epochal.cli.command import data_command
from epochal.cli.output import form, say, say_json, table
from epochal.exchange.sinks.reporting import KnownSinks, located_options
from epochal.records.redact import REDACTED, Redactor
from epochal.settings import DECLARED, Located, Settings, file_paths, read_settings

# A setting as it is shown: its name, its value, and where that was set; None for a default.
_Row = tuple[str, Any, Located | None]


@data_command
@click.option("-a", "--all", "with_all", is_flag=True, help="Also show unset sinks and rules.")
def command(with_all: bool) -> None:
    """Show the files with settings, and every setting with its value and where it comes from."""
    settings = read_settings()
    files = dict(zip(("project", "user"), file_paths(), strict=True))
    others = (*_sinks(settings), *_rules(settings))
    shown = [*_declared(settings), *(row for row in others if with_all or row[2] is not None)]
    if form() == "json":
        names = {origin: None if path is None else str(path) for origin, path in files.items()}
        say_json({"files": names, "settings": [_as_data(*row) for row in shown]})
        return
    for origin, path in files.items():
        state = "" if path is None or Path(path).is_file() else "  (not there)"
        say(f"{origin} file: {'none' if path is None else path}{state}")
    cells = [(n, _text(v), "default" if at is None else str(at.source)) for n, v, at in shown]
    say("\n" + table(("SETTING", "VALUE", "FROM"), cells))


def _declared(settings: Settings) -> Iterator[_Row]:
    for one in DECLARED:
        value, source = getattr(settings, one.name), settings.sources[one.name]
        is_set = source.file is not None or source.variable is not None
        shown = _hidden(value) if one.kind.is_secret else value
        yield one.key or one.name, shown, Located(value, source) if is_set else None


def _sinks(settings: Settings) -> Iterator[_Row]:
    values = located_options(settings.sinks)
    for name in KnownSinks.load().option_names:
        yield f"sinks.{name}", values.get(name), settings.sinks.get(name)


def _rules(settings: Settings) -> Iterator[_Row]:
    from epochal.health.rule import declared
    from epochal.health.rule_settings import SILENCE, known_rules, rule_settings

    rule_settings(settings)
    given = settings.rules
    silence = given.get(SILENCE)
    yield f"rules.{SILENCE}", [] if silence is None else silence.value, silence
    for rule, kind in sorted(known_rules().items()):
        for name, default in {"enabled": True, **declared(kind.Thresholds())}.items():
            located = given.get(f"{rule}.{name}")
            yield f"rules.{rule}.{name}", default if located is None else located.value, located


def _as_data(name: str, value: Any, located: Located | None) -> dict[str, Any]:
    source = None if located is None else located.source
    file = None if source is None else source.file
    variable = None if source is None else source.variable
    return {
        "name": name,
        "value": _clean(value),
        "from": "environment" if variable else "default" if file is None else file.origin,
        "variable": variable,
        "file": None if file is None else str(file.path),
    }


def _hidden(value: Any) -> Any:
    """A secret, or a list of addresses of which no more than the service is shown."""
    if isinstance(value, tuple):
        parts = (one.partition("://") for one in value)
        return tuple(f"{scheme}{mark}{REDACTED}" if mark else scheme for scheme, mark, _ in parts)
    return None if value is None else REDACTED


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
