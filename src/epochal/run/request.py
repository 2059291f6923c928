"""Checks the arguments of ``init`` and completes them from the settings."""

from __future__ import annotations

import difflib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from epochal.console.messages import Verbosity
from epochal.console.printer import Console
from epochal.errors import UsageError, ValueTypeError
from epochal.redact import Redactor
from epochal.run.progress_estimator import Totals
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
from epochal.sinks.reporting import (
    KnownSinks,
    Reporting,
    located_options,
    options_from,
    split_options,
)
from epochal.values import plain_int, plain_json


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
    id: str | None = None
    fork_from: str | None = None
    resume_step: int | None = None
    folder: Path | None = None

    @property
    def root(self) -> Path:
        """The folder of projects."""
        return Path(self.settings.dir).expanduser().absolute()


def checked_request(
    options: Mapping[str, Any],
    *,
    config: Any = None,
    rules: Any = (),
    totals: Totals | None = None,
    resume_step: int | None = None,
    **others: Any,
) -> Request:
    """Return the request; raise for the first argument that is not valid.

    ``options`` are the settings of the run and the options of sinks; None is one not given.
    """
    own = {name: value for name, value in options.items() if name in RUN_OPTIONS}
    of_sinks = {name: value for name, value in options.items() if name not in RUN_OPTIONS}
    _check_names(of_sinks)
    given_console = own.get("console")
    if isinstance(given_console, Console):
        del own["console"]
    entries = config_entries(config)
    of_file: dict[str, Any] = {}
    verbosity = own.pop("verbosity", None)
    if isinstance(config, (str, os.PathLike)):
        in_file = entries.pop("verbosity", None)
        verbosity = in_file if verbosity is None else verbosity
        of_file, entries = split_options(entries)
    settings = _with_conditions(with_arguments(read_settings(), own), rules)
    launch = read_launch()
    if isinstance(given_console, Console):
        console = given_console
    elif settings.console and launch.rank == 0:
        console = Console(verbosity=verbosity, min_interval_s=settings.line_every_s)
    else:
        console = Console(verbosity=Verbosity.QUIET)
    run_id = others.get("id")
    if run_id is not None and not (isinstance(run_id, str) and run_id.strip()):
        raise UsageError(f"id={run_id!r} is not a text, or is empty.")
    given = {name: value for name, value in of_sinks.items() if value is not None}
    return Request(
        settings=settings,
        launch=launch,
        name=settings.name or time.strftime("%Y%m%d-%H%M%S"),
        config=entries,
        reporting=options_from({**located_options(settings.sinks), **of_file, **given}),
        console=console,
        redactor=Redactor(
            settings.redact if isinstance(settings.redact, tuple) else (),
            is_on=settings.redact is not False,
        ),
        rules=_checked_rules(settings),
        totals=totals or Totals(),
        resume_step=None if resume_step is None else plain_int(resume_step, name="resume_step"),
        **others,
    )


def _check_names(names: Iterable[str]) -> None:
    """Raise for a keyword that is neither a setting of a run nor an option of a sink."""
    if set(names) <= {"report_to"}:
        return
    known = KnownSinks.load().option_names
    for name in names:
        if name in known:
            continue
        from epochal.run.start import init  # which imports this module

        arguments = ("project", "name", *(init.__kwdefaults__ or ()), *RUN_OPTIONS, *known)
        near = difflib.get_close_matches(name, arguments, n=1)
        if name in BY_NAME:
            hint = ": it is a setting, but not one of a run. Set it in epochal.toml instead."
        elif near:
            hint = f": did you mean {near[0]!r}?"
        else:
            hint = " and no sink has an option of this name. Your own values go into config={…}."
        raise UsageError(f"init() has no argument {name!r}{hint}")


def _with_conditions(settings: Settings, rules: Any) -> Settings:
    """Return the settings with the ``rules`` of ``init`` behind the conditions of the file."""
    known = settings.rules.get("conditions", Located([], Source()))
    conditions = [*listed(known.value), *listed(rules)]
    if len(conditions) == len(listed(known.value)):
        return settings
    both = {**settings.rules, "conditions": Located(conditions, Source())}
    return replace(settings, rules=both)


def _checked_rules(settings: Settings) -> Mapping[str, Any]:
    if settings.health and not settings.rules:
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
    if loaded is not None and not isinstance(loaded, dict):
        raise UsageError(f"config={str(path)!r} must contain names and values, not a list or text.")
    return loaded
