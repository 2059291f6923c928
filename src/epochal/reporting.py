"""What can be said about sinks: one dataclass per sink, and one flat mapping for all of them.

The flat names are those people write in a configuration file (``report_to``, ``wandb_project``).
A file path is made absolute when it is read, because the process that writes has its own folder.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from epochal.errors import UsageError, ValueTypeError

if TYPE_CHECKING:
    from epochal.settings import Located


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLogOptions:
    """``log_file``: where the JSON array goes; ``training.json`` in the run's folder if None."""

    log_file: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainLogOptions:
    """``plain_log_file``: where ``step kind value`` goes; ``training.txt`` in the run's folder.

    ``plain_log_kinds``: which kinds, with commas between (``train,val``); all of them if None.
    """

    plain_log_file: str | None = None
    plain_log_kinds: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorBoardOptions:
    """``tensorboard_dir`` holds one folder per run, named ``run_name`` (the run's own if None).

    Without ``tensorboard_dir`` the event file lies in the run's own folder.
    """

    tensorboard_dir: str | None = None
    run_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WandbOptions:
    """What is None is left to W&B: its environment variables and its settings."""

    wandb_project: str | None = None
    wandb_name: str | None = None
    wandb_entity: str | None = None
    wandb_mode: str | None = None
    wandb_dir: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AimOptions:
    """``aim_repo`` is a folder or an ``aim://`` address; Aim's own default if None."""

    aim_experiment: str | None = None
    aim_repo: str | None = None
    aim_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MlflowOptions:
    """``mlflow_tracking_uri`` as MLflow writes them; its environment variable if None."""

    mlflow_tracking_uri: str | None = None
    mlflow_experiment: str | None = None
    mlflow_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackioOptions:
    """Trackio's own folder (TRACKIO_DIR) holds the project."""

    trackio_project: str | None = None
    trackio_name: str | None = None


SinkOptions = (
    JsonLogOptions
    | PlainLogOptions
    | TensorBoardOptions
    | WandbOptions
    | AimOptions
    | MlflowOptions
    | TrackioOptions
)

# Every sink there is, by the name that ``report_to`` takes.
OPTIONS: Mapping[str, type[SinkOptions]] = MappingProxyType(
    {
        "json_log": JsonLogOptions,
        "plain_log": PlainLogOptions,
        "tensorboard": TensorBoardOptions,
        "wandb": WandbOptions,
        "aim": AimOptions,
        "mlflow": MlflowOptions,
        "trackio": TrackioOptions,
    }
)
_OWNERS: Mapping[str, str] = {
    entry.name: sink for sink, kind in OPTIONS.items() for entry in fields(kind)
}
OPTION_NAMES = ("report_to", *_OWNERS)
_PATHS = frozenset({"log_file", "plain_log_file", "tensorboard_dir", "wandb_dir", "aim_repo"})
_PREFIXES = ("tensorboard_", "wandb_", "aim_", "mlflow_", "trackio_", "report_")
_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Reporting:
    """Which sinks a run goes to, and what was said about each; ``given`` is the flat mapping."""

    report_to: tuple[str, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)

    def of(self, sink: str) -> SinkOptions:
        """The options of one sink."""
        kind = OPTIONS[checked_sink(sink)]
        return kind(**{name: text for name, text in self.given.items() if _OWNERS[name] == sink})

    def plain(self) -> dict[str, Any]:
        """The mapping that :func:`options_from` makes the same from."""
        return {"report_to": list(self.report_to), **self.given}


def options_from(mapping: Mapping[str, Any], *, base: str | Path | None = None) -> Reporting:
    """Read a flat mapping of option names; raises for a name that is not one.

    Relative paths are taken from ``base``, the current folder by default. ``log_file`` alone is
    enough to have that file written.
    """
    for name in mapping:
        if name not in OPTION_NAMES:
            raise UsageError(_unknown(str(name)))
    given = {
        name: _absolute(name, _text(name, value), base)
        for name, value in mapping.items()
        if name != "report_to" and value is not None
    }
    names = _sink_names(mapping.get("report_to"))
    if "log_file" in given and "json_log" not in names:
        names = ("json_log", *names)
    return Reporting(names, given)


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
    for name, value in mapping.items():
        if name in OPTION_NAMES:
            options[name] = value
        elif str(name).startswith(_PREFIXES) or _nearest(str(name), cutoff=_NEAR + 0.1):
            raise UsageError(_unknown(str(name)))
        else:
            rest[name] = value
    return options, rest


def checked_sink(name: str) -> str:
    """The name of a sink; raises for one there is none of."""
    if name in OPTIONS:
        return name
    near = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(OPTIONS)}."
    raise UsageError(f"report_to={name!r} is not known: {hint}")


def _sink_names(value: Any) -> tuple[str, ...]:
    if value is None or value == "none":
        return ()
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or isinstance(names, Mapping):
        raise ValueTypeError(f"report_to must be a name or a list of names, not {value!r}.")
    listed = list(names)
    for name in listed:
        if not isinstance(name, str):
            raise ValueTypeError(f"report_to must hold names, not {name!r}.")
    return tuple(dict.fromkeys(checked_sink(name.strip()) for name in listed))


def _text(name: str, value: Any) -> str:
    if isinstance(value, (str, Path)) and str(value):
        return str(value)
    raise ValueTypeError(f"{name} must be a text that is not empty, not {value!r}.")


def _absolute(name: str, text: str, base: str | Path | None) -> str:
    if name not in _PATHS or "://" in text:
        return text
    path = Path(text).expanduser()
    return str((path if base is None else Path(base) / path).absolute())


def _unknown(name: str) -> str:
    near = _nearest(name, cutoff=0.5)
    hint = f"did you mean {near!r}?" if near else f"use one of {', '.join(OPTION_NAMES)}."
    return f"the option {name!r} is not known: {hint}"


def _nearest(name: str, *, cutoff: float) -> str | None:
    near = difflib.get_close_matches(name, OPTION_NAMES, n=1, cutoff=cutoff)
    return near[0] if near else None
