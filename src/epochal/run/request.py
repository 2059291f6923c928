"""Checks the arguments of ``init`` and completes them from the settings."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from epochal.console.messages import LogVerbosity, Verbosity
from epochal.console.printer import Console
from epochal.errors import UsageError, ValueTypeError
from epochal.redact import Redactor
from epochal.run.accepted import shown_text
from epochal.run.progress_estimator import Totals
from epochal.settings import ALERT_LEVELS, DECLARED, RESUME_MODES, Settings
from epochal.settings.launch import Launch
from epochal.sinks.reporting import (
    KnownSinks,
    Reporting,
    located_options,
    options_from,
    split_options,
)
from epochal.values import plain_int, plain_json

REINIT_MODES = ("create_new", "finish_previous")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The checked arguments of ``init``; ``named`` is False if the name was made up.

    ``run_folder`` is the folder itself, if that is given instead of project and name. ``id`` is
    the id of the run, if the caller chose it.
    """

    root: Path
    project: str
    name: str
    named: bool
    config: dict[str, Any]
    reporting: Reporting
    tags: list[str]
    notes: str | None
    group: str | None = None
    job_type: str | None = None
    owner: str | None = None
    fork_from: str | None = None
    resume: str
    resume_step: int | None
    totals: Totals
    console: Console
    redactor: Redactor
    rules: Mapping[str, Any]
    run_folder: Path | None = None
    id: str | None = None


def checked_request(
    settings: Settings,
    *,
    project: str | None,
    name: str | None,
    console: Console,
    redactor: Redactor,
    resume: Any,
    resume_step: int | None = None,
    folder: str | Path | None = None,
    config: Any = None,
    entries: Mapping[str, Any] | None = None,
    reporting: Mapping[str, Any] | None = None,
    tags: Iterable[str] = (),
    notes: str | None = None,
    group: str | None = None,
    job_type: str | None = None,
    owner: str | None = None,
    fork_from: str | None = None,
    totals: Totals | None = None,
    run_id: str | None = None,
) -> Request:
    """Return the request; raise for the first argument that is not valid."""
    _check_texts(project=project, name=name, id=run_id)
    _check_texts(group=group, job_type=job_type, owner=owner)
    if notes is not None and not isinstance(notes, str):
        raise ValueTypeError(f"notes must be a text, not {type(notes).__name__}.")
    if not isinstance(tags, Iterable):
        raise ValueTypeError(f"tags must be a list of texts, not {type(tags).__name__}.")
    file_options, file_config = split_options(entries or {})
    given = [tags] if isinstance(tags, str) else [shown_text(tag) for tag in tags]
    return Request(
        root=Path(settings.dir if folder is None else folder).expanduser().absolute(),
        project=project or settings.project,
        name=name or settings.name or time.strftime("%Y%m%d-%H%M%S"),
        named=bool(name or settings.name),
        config=_merged_config(config, file_config),
        reporting=options_from(
            {**located_options(settings.sinks), **file_options, **(reporting or {})}
        ),
        tags=list(dict.fromkeys([*settings.tags, *given])),
        notes=notes,
        group=group,
        job_type=job_type,
        owner=owner,
        fork_from=fork_from,
        resume=_resume_mode(settings.resume if resume is None else resume),
        resume_step=None if resume_step is None else plain_int(resume_step, name="resume_step"),
        totals=totals or Totals(),
        console=console,
        redactor=redactor,
        rules=_checked_rules(settings),
        id=run_id,
    )


def check_options(options: Mapping[str, Any], arguments: Iterable[str]) -> None:
    """Raise for a keyword that is neither one of the arguments of ``init`` nor a sink's option."""
    if not options:
        return
    known = KnownSinks.load()
    for name in options:
        if name not in known.option_names:
            raise UsageError(
                f"init() has no argument {name!r}{_where_else(name, known, arguments)}"
            )


def _where_else(name: str, known: KnownSinks, arguments: Iterable[str]) -> str:
    for setting in DECLARED:
        if setting.name == name:
            places = [f"{setting.key} in epochal.toml"] if setting.key else []
            places += [f"the variable {setting.variable}"] if setting.variable else []
            return f": it is a setting, {' or '.join(places)}."
    near = difflib.get_close_matches(name, (*arguments, *known.option_names), n=1)
    if near:
        return f": did you mean {near[0]!r}?"
    return " and no sink has an option of this name. Values of your own go into config={…}."


def _checked_rules(settings: Settings) -> Mapping[str, Any]:
    if settings.health and not settings.rules:
        return {}
    from epochal.health.rule_settings import rule_settings  # most runs need none of it

    return rule_settings(settings).record()


def checked_console(
    console: bool | Console | None,
    settings: Settings,
    launch: Launch,
    *,
    verbosity: Verbosity | LogVerbosity | int | str | None,
    line_every_s: float | None,
) -> Console:
    """Return where the lines of this process go; only rank 0 prints."""
    if isinstance(console, Console):
        return console
    wanted = settings.console if console is None else console
    if not wanted or launch.rank != 0:
        return Console(verbosity=Verbosity.QUIET)
    every_s = settings.line_every_s if line_every_s is None else line_every_s
    return Console(verbosity=verbosity, min_interval_s=every_s)


def check_wait(finish_wait_s: Any) -> None:
    """Raise unless the argument is a finite time of at least 0 seconds."""
    if isinstance(finish_wait_s, bool) or not isinstance(finish_wait_s, (int, float)):
        raise ValueTypeError(
            f"finish_wait_s must be a number of seconds, not {type(finish_wait_s).__name__}."
        )
    if not 0 <= finish_wait_s < float("inf"):
        raise UsageError(f"finish_wait_s={finish_wait_s} must be 0 or more seconds.")


def check_reinit(reinit: Any) -> None:
    """Raise unless the argument is a known mode."""
    if reinit not in REINIT_MODES:
        raise UsageError(f"reinit={reinit!r} is not known: use one of {', '.join(REINIT_MODES)}.")


def checked_alerts(
    alerts: str | Iterable[str] | None, alert_on: str | None, settings: Settings
) -> tuple[list[str], str]:
    """Return the addresses of alerts and the lowest severity that is sent."""
    if alert_on is not None and alert_on not in ALERT_LEVELS:
        raise UsageError(
            f"alert_on={alert_on!r} is not known: use one of {', '.join(ALERT_LEVELS)}."
        )
    given: Any = settings.alerts if alerts is None else alerts
    if not isinstance(given, Iterable):
        raise UsageError(
            "alerts takes an address such as 'desktop' or 'json://host/path', or a list of them,"
            f" not {type(given).__name__}."
        )
    addresses: list[Any] = [given] if isinstance(given, str) else list(given)
    for address in addresses:
        if not isinstance(address, str) or not (address == "desktop" or "://" in address):
            raise UsageError(
                "alerts takes addresses such as 'desktop' or 'json://host/path', a list of them;"
                " this one is none."
            )
    return addresses, alert_on or settings.alert_on


def checked_hub(hub: Any) -> str | None:
    """Return the address of a hub, None without one."""
    if hub is None or hub == "":
        return None
    if not isinstance(hub, str) or not hub.startswith(("http://", "https://")):
        raise UsageError(f"hub={hub!r} is not an address such as https://host.")
    return hub


def _check_texts(**texts: Any) -> None:
    for argument, value in texts.items():
        if value is None:
            continue
        if not isinstance(value, str):
            raise ValueTypeError(f"{argument} must be a text, not {type(value).__name__}.")
        if not value.strip():
            raise UsageError(f"{argument} must not be empty.")


def file_entries(config_file: str | Path | None) -> dict[str, Any]:
    """Return the entries of a configuration file: hyperparameters and options of Epochal."""
    return {} if config_file is None else _read_config_file(Path(config_file))


def _merged_config(config: Any, from_file: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the configuration; values in code win over the file."""
    if config is None:
        return dict(from_file)
    plain = plain_json(_as_mapping(config))
    if not isinstance(plain, dict):
        raise ValueTypeError(
            f"config must be a mapping, a dataclass or a namespace, not {type(config).__name__}."
        )
    return {**from_file, **plain}


def _as_mapping(config: Any) -> Any:
    """Return the mapping inside a namespace (such as argparse's); anything else unchanged."""
    is_namespace = hasattr(config, "__dict__") and not hasattr(config, "__dataclass_fields__")
    return vars(config) if is_namespace and not isinstance(config, Mapping) else config


def _read_config_file(path: Path) -> dict[str, Any]:
    import yaml  # only when a file is given

    try:
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"config_file {str(path)!r} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(f"config_file {str(path)!r} is not valid YAML: {error}") from error
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        raise UsageError(f"config_file {str(path)!r} must hold a mapping of names to values.")
    return dict(plain_json(loaded))


def _resume_mode(resume: Any) -> str:
    if isinstance(resume, bool):
        return "allow" if resume else "never"
    if resume not in RESUME_MODES:
        raise UsageError(f"resume={resume!r} is not known: use one of {', '.join(RESUME_MODES)}.")
    return str(resume)
