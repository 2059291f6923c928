"""Checks the arguments of ``init`` and completes them from the settings."""

from __future__ import annotations

import difflib
import math
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import UsageError, ValueTypeError
from epochal.exchange.sinks.reporting import (
    KnownSinks,
    Reporting,
    located_options,
    options_from,
    split_options,
)
from epochal.journal.layout import slugify
from epochal.records.redact import Redactor
from epochal.records.values import plain_json
from epochal.run.console.messages import Verbosity
from epochal.run.console.printer import Console
from epochal.run.console_reporter import Totals
from epochal.settings import (
    BY_NAME,
    RUN_OPTIONS,
    Located,
    Settings,
    Source,
    read_settings,
    with_arguments,
)
from epochal.settings.kinds import listed
from epochal.settings.launch import Launch, read_launch

_TOTALS = ("total_steps", "total_tokens", "num_epochs")
_NO_SETTINGS = ("config", "rules", "id", "fork_from", "resume_step", *_TOTALS)


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The checked arguments of ``init``: the settings with arguments over them, and the rest.

    ``folder`` is the folder of the run itself, if that is given instead of project and name.
    ``rules`` is what ``run.json`` keeps of the settings of rules.
    """

    settings: Settings
    launch: Launch
    name: str
    config: dict[str, Any]
    reporting: Reporting
    console: Console
    redactor: Redactor
    rules: Mapping[str, Any]
    totals: Totals
    id: str | None
    fork_from: str | None
    resume_step: int | None
    folder: Path | None

    @property
    def root(self) -> Path:
        """The folder of projects."""
        return Path(self.settings.dir).expanduser().absolute()

    @property
    def launch_id(self) -> str:
        """What the ranks of a launch have in common: its id, else project and name of the run."""
        return self.launch.launch_id or slugify(f"{self.settings.project}-{self.name}")


def checked_request(arguments: Mapping[str, Any], folder: Path | None = None) -> Request:
    """Return the request of ``init``'s arguments; raise for the first one that is not valid.

    None is an argument that was not given.
    """
    given = {name: value for name, value in arguments.items() if value is not None}
    own = {name: given.pop(name, None) for name in _NO_SETTINGS}
    _check_names(given.keys() - RUN_OPTIONS.keys())
    entries = config_entries(own["config"])
    if isinstance(own["config"], (str, os.PathLike)):
        in_file, entries = split_options(entries)
        if "verbosity" in entries:
            in_file["verbosity"] = entries.pop("verbosity")
        given = {**in_file, **given}
    if isinstance(given.get("resume"), bool):
        given["resume"] = "allow" if given["resume"] else "never"
    verbosity = given.pop("verbosity", None)
    console = given.pop("console") if isinstance(given.get("console"), Console) else None
    options = {name: given.pop(name) for name in RUN_OPTIONS if name in given}
    settings, launch = with_arguments(read_settings(), options), read_launch()
    if console is None:
        level = verbosity if settings.console and launch.rank == 0 else Verbosity.QUIET
        console = Console(verbosity=level, min_interval_s=settings.line_every_s)
    settings = _with_conditions(settings, own["rules"])
    for name in ("id", "fork_from"):
        text = own[name]
        if text is not None and not (isinstance(text, str) and text.strip()):
            raise UsageError(f"{name}={text!r} is not a text, or is empty.")
    return Request(
        settings=settings,
        launch=launch,
        name=settings.name or own["id"] or time.strftime("%Y%m%d-%H%M%S"),
        config=entries,
        reporting=options_from({**located_options(settings.sinks), **given}),
        console=console,
        redactor=Redactor(settings.redact or (), is_on=settings.redact is not False),
        rules=_checked_rules(settings),
        totals=Totals(*(_number(name, own[name]) for name in _TOTALS)),
        id=own["id"],
        fork_from=own["fork_from"],
        resume_step=_number("resume_step", own["resume_step"], whole=True),
        folder=folder,
    )


def _number(name: str, value: Any, *, whole: bool = False) -> Any:
    """Return a given number as a plain one; None if there is none."""
    if value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number) or (whole and not number.is_integer()):
        raise UsageError(f"{name}={value!r} is not a {'whole ' if whole else ''}number.")
    return int(number) if number.is_integer() else number


def _check_names(names: set[str]) -> None:
    """Raise for a keyword that is neither a setting of a run nor an option of a sink."""
    if names <= {"report_to"}:
        return
    known = KnownSinks.load().option_names
    for name in sorted(names.difference(known)):
        near = difflib.get_close_matches(name, (*_NO_SETTINGS, *RUN_OPTIONS, *known), n=1)
        if name in BY_NAME:
            hint = ": it is a setting, but not one of a run. Set it in epochal.toml instead."
        elif near:
            hint = f": did you mean {near[0]!r}?"
        else:
            hint = " and no sink has an option of this name. Your own values go into config={…}."
        raise UsageError(f"init() has no argument {name!r}{hint}")


def _with_conditions(settings: Settings, rules: Any) -> Settings:
    """Return the settings with the ``rules`` of ``init`` behind the conditions of the file."""
    more = listed(rules or ())
    if not more:
        return settings
    known = settings.rules.get("conditions")
    conditions = [*(() if known is None else listed(known.value)), *more]
    place = "init(rules=[…])" if known is None else f"{known.source} or init(rules=[…])"
    both = Located(conditions, Source(argument=place))
    return replace(settings, rules={**settings.rules, "conditions": both})


def _checked_rules(settings: Settings) -> Mapping[str, Any]:
    if settings.health and not settings.rules and settings.family is None:
        return {}
    from epochal.health.rule_settings import rule_settings  # most runs need none of it

    return rule_settings(settings).record()


def config_entries(config: Any) -> dict[str, Any]:
    """Return the entries of a configuration: of a mapping, an object or a YAML file."""
    if isinstance(config, (str, os.PathLike)):
        config = _read_yaml(Path(config))
    elif hasattr(config, "__dict__") and not hasattr(config, "__dataclass_fields__"):
        config = config if isinstance(config, Mapping) else vars(config)  # a namespace
    plain = {} if config is None else plain_json(config)
    if not isinstance(plain, dict):
        raise ValueTypeError(
            "config must be a mapping, a dataclass, a namespace or the path of a YAML file, not"
            f" {type(config).__name__}."
        )
    return plain


def _read_yaml(path: Path) -> Mapping[str, Any] | None:
    import yaml  # only when a file is given

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"config={str(path)!r} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"config={str(path)!r} is not valid YAML: {error}") from error
    if not isinstance(loaded, (dict, type(None))):
        raise UsageError(f"config={str(path)!r} must contain names and values, not a list or text.")
    return loaded
