"""Every setting, declared once: reading, checks, ``epochal config show`` and the docs use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from epochal.settings import kinds
from epochal.settings.kinds import Kind
from epochal.settings.toml_file import SettingsFile, Source

RESUME_MODES = ("never", "allow", "must", "latest")
ALERT_LEVELS = ("info", "warning", "error", "off")
# Tables of ``epochal.toml`` whose keys are declared by the rules and by the sinks.
OPEN_TABLES = ("rules", "sinks")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One setting: a field of ``Settings``.

    ``key`` is its name in ``epochal.toml``, None for what does not belong in a file; ``variable``
    is its environment variable. ``argument`` says that ``init`` takes an argument of its name.
    """

    name: str = ""
    kind: Kind
    default: Any
    meaning: str
    key: str | None = None
    variable: str | None = None
    argument: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """A value and where it stands."""

    value: Any
    source: Source

    @property
    def base(self) -> Path | None:
        """What a relative path in it starts from; None for the working folder."""
        return None if self.source.file is None else self.source.file.base


def _setting(
    default: Any,
    kind: Kind,
    meaning: str,
    *,
    variable: str | None = None,
    argument: bool = False,
    key: str | None = "",
) -> Any:
    declared = Setting(
        kind=kind,
        default=default,
        meaning=meaning,
        key=key,
        variable=variable,
        argument=argument,
    )
    return field(default=default, metadata={"setting": declared})


@dataclass(frozen=True, slots=True)
class Settings:
    """What environment and files say; arguments given in code win over it.

    ``rules`` and ``sinks`` hold what the tables of these names say, by dotted key. The rules and
    the sinks check them. ``sources`` says of each setting where it comes from, ``files`` which
    files were read, the project's first.
    """

    dir: str = _setting(
        "runs",
        kinds.PATH,
        "the folder that holds projects",
        variable="EPOCHAL_DIR",
        argument=True,
    )
    project: str = _setting(
        "default",
        kinds.TEXT,
        "project of a run that names none",
        variable="EPOCHAL_PROJECT",
        argument=True,
    )
    name: str | None = _setting(
        None,
        kinds.TEXT,
        "name of a run that names none; date and time by default",
        variable="EPOCHAL_NAME",
        argument=True,
        key=None,
    )
    resume: str = _setting(
        "never",
        kinds.choice(*RESUME_MODES),
        "whether `init` goes on with a run of the same name",
        variable="EPOCHAL_RESUME",
        argument=True,
    )
    tags: tuple[str, ...] = _setting(
        (),
        kinds.TEXTS,
        "tags of every run; those of `init` are added. Commas separate them in the variable",
        variable="EPOCHAL_TAGS",
        argument=True,
    )
    enabled: bool = _setting(
        True,
        kinds.SWITCH,
        "`false` (`EPOCHAL_MODE=off`): runs check their arguments and write nothing",
        variable="EPOCHAL_MODE",
    )
    strict: bool = _setting(
        False,
        kinds.SWITCH,
        "calls raise for values that cannot be recorded; for tests",
        variable="EPOCHAL_STRICT",
        argument=True,
    )
    capture: bool = _setting(
        False, kinds.SWITCH, "keep what the program prints in the run", argument=True
    )
    console: bool = _setting(
        True,
        kinds.SWITCH,
        "training lines on the terminal",
        variable="EPOCHAL_CONSOLE",
        argument=True,
    )
    verbosity: str = _setting(
        "normal",
        kinds.VERBOSITY,
        "how much is printed",
        variable="EPOCHAL_VERBOSITY",
        argument=True,
    )
    line_every_s: float = _setting(
        0.25,
        kinds.seconds(),
        "seconds between lines of steps, 0 for a line each",
        argument=True,
    )
    git: bool = _setting(
        True,
        kinds.SWITCH,
        "record commit and uncommitted changes",
        variable="EPOCHAL_GIT",
    )
    redact: bool | tuple[str, ...] = _setting(
        True,
        kinds.PATTERNS,
        "names and patterns to redact besides secrets; `false` (`EPOCHAL_REDACT=0`) redacts"
        " nothing. Those of `init` are added. Commas separate them in the variable",
        variable="EPOCHAL_REDACT",
        argument=True,
    )
    companion: bool = _setting(
        True,
        kinds.SWITCH,
        "a companion process beside the run",
        variable="EPOCHAL_COMPANION",
        argument=True,
    )
    grace_s: float = _setting(
        30.0,
        kinds.seconds(),
        "how long the companion may go on after the run, to seal and to forward",
        variable="EPOCHAL_GRACE",
    )
    finish_wait_s: float = _setting(
        5.0,
        kinds.seconds(),
        "how long `finish()` waits for what is being forwarded and for findings",
        argument=True,
    )
    telemetry_every_s: float | None = _setting(
        None,
        kinds.seconds(1, 3600),  # GPUs are read once a second; nobody has use for less than hourly
        "how long one record of telemetry stands for; 10, and 60 after the first day, by default",
        variable="EPOCHAL_TELEMETRY_EVERY",
    )
    alerts: tuple[str, ...] = _setting(
        (),
        kinds.ADDRESSES,
        "addresses that are told of findings and of the end: `desktop`, or those of the apprise"
        " package such as `json://host/path`. Blanks separate them in the variable",
        variable="EPOCHAL_ALERTS",
        argument=True,
    )
    alert_on: str = _setting(
        "warning",
        kinds.choice(*ALERT_LEVELS),
        "from which severity on",
        variable="EPOCHAL_ALERT_ON",
        argument=True,
    )
    cache_dir: str | None = _setting(
        None,
        kinds.PATH,
        "the folder for what can be made again: the index of runs, copies of large journals;"
        " `epochal` in the user's cache folder by default",
        variable="EPOCHAL_CACHE_DIR",
    )
    server_port: int = _setting(
        6060,
        kinds.whole_number(0, 65535),
        "the port of the live page; where it is taken, the next free one is used",
        key="server.port",
    )
    server_token: str | None = _setting(
        None,
        kinds.SECRET,
        "the token that a server asks for when other machines can reach it",
        variable="EPOCHAL_TOKEN",
        key=None,
    )
    server_token_file: str | None = _setting(
        None,
        kinds.PATH,
        "file whose first line is that token",
        key="server.token_file",
    )
    rules: Mapping[str, Located] = field(default_factory=dict)
    sinks: Mapping[str, Located] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict, compare=False, repr=False)
    files: tuple[SettingsFile, ...] = field(default=(), compare=False, repr=False)


def _declared() -> Iterator[Setting]:
    for one in fields(Settings):
        declared: Setting | None = one.metadata.get("setting")
        if declared is not None:
            key = one.name if declared.key == "" else declared.key
            yield replace(declared, name=one.name, key=key)


DECLARED = tuple(_declared())
BY_NAME: Mapping[str, Setting] = {one.name: one for one in DECLARED}
