"""Every setting, declared once: reading, checks, ``epochal config show`` and the docs use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import msgspec

from epochal.settings import kinds
from epochal.settings.kinds import Kind
from epochal.settings.toml_file import SettingsFile, Source

RESUME_MODES = ("never", "allow", "must", "latest")
ALERT_LEVELS = ("info", "warning", "error", "off")
# Tables of ``epochal.toml`` whose keys are declared by the rules, the sinks and the hub.
OPEN_TABLES = ("rules", "sinks", "retention")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
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


class Located(msgspec.Struct, frozen=True):
    """A value and its source."""

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
    argument: bool = False,
    variable: str | None = "",
    key: str | None = "",
) -> Any:
    """Declare a setting; an empty variable and an empty key are named after the field."""
    declared = Setting(
        kind=kind, default=default, meaning=meaning, key=key, variable=variable, argument=argument
    )
    return field(default=default, metadata={"setting": declared})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of the environment and the files; arguments given in code win over them.

    ``rules`` and ``sinks`` have the tables of these names, by dotted key. The rules and the sinks
    check them. ``sources`` has the source of each setting, ``files`` the files that were read, the
    project's first.
    """

    dir: str = _setting("runs", kinds.PATH, "the folder that holds projects", argument=True)
    project: str = _setting(
        "default", kinds.TEXT, "the project of runs that do not name one", argument=True
    )
    name: str | None = _setting(
        None,
        kinds.TEXT,
        "the name of a run that does not set one; date and time by default",
        argument=True,
        key=None,
    )
    resume: str = _setting(
        "never",
        kinds.choice(*RESUME_MODES),
        "whether `init` continues a run of the same name",
        argument=True,
    )
    tags: tuple[str, ...] = _setting(
        (),
        kinds.TEXTS,
        "tags of every run; `init` adds its own. In the variable, commas separate them",
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
        argument=True,
    )
    capture: bool = _setting(
        False, kinds.SWITCH, "record what the program prints", argument=True, variable=None
    )
    console: bool = _setting(True, kinds.SWITCH, "training lines on the terminal", argument=True)
    verbosity: str = _setting("normal", kinds.VERBOSITY, "how much is printed", argument=True)
    line_every_s: float = _setting(
        0.25,
        kinds.seconds(),
        "seconds between step lines, 0 for every step",
        argument=True,
        variable=None,
    )
    git: bool = _setting(True, kinds.SWITCH, "record commit and uncommitted changes")
    redact: bool | tuple[str, ...] = _setting(
        True,
        kinds.PATTERNS,
        "names and patterns to redact besides secrets; `false` (`EPOCHAL_REDACT=0`) redacts"
        " nothing. `init` adds its own. In the variable, commas separate them",
        argument=True,
    )
    companion: bool = _setting(
        True, kinds.SWITCH, "a companion process beside the run", argument=True
    )
    health: bool = _setting(
        True, kinds.SWITCH, "evaluate the health rules; `false` turns all of them off"
    )
    grace_s: float = _setting(
        30.0,
        kinds.seconds(),
        "how long the companion may run after the run has ended, to seal and to forward",
        variable="EPOCHAL_GRACE",
    )
    finish_wait_s: float = _setting(
        5.0,
        kinds.seconds(),
        "how long `finish()` waits for forwarding and for findings",
        argument=True,
        variable=None,
    )
    telemetry_every_s: float | None = _setting(
        None,
        kinds.seconds(1, 3600),  # GPUs are read once a second; nobody has use for less than hourly
        "the time that one telemetry record covers; by default 10, and 60 after the first day",
        variable="EPOCHAL_TELEMETRY_EVERY",
    )
    alerts: tuple[str, ...] = _setting(
        (),
        kinds.ADDRESSES,
        "addresses that receive findings and the end of a run: `desktop`, or an address of the"
        " apprise package such as `json://host/path`. In the variable, blanks separate them",
        argument=True,
    )
    alert_on: str = _setting(
        "warning", kinds.choice(*ALERT_LEVELS), "the lowest severity that is sent", argument=True
    )
    cache_dir: str | None = _setting(
        None,
        kinds.PATH,
        "the folder of the index of runs, of copies of large journals and of converted runs of"
        " other trackers; it can be deleted."
        " By default `epochal` in the user's cache folder",
    )
    server_port: int = _setting(
        6060,
        kinds.whole_number(0, 65535),
        "the port of the live page; if it is in use, the next free one",
        key="server.port",
        variable=None,
    )
    server_token: str | None = _setting(
        None,
        kinds.SECRET,
        "the token that a server requires when other machines can reach it",
        variable="EPOCHAL_TOKEN",
        key=None,
    )
    server_token_file: str | None = _setting(
        None,
        kinds.PATH,
        "a file whose first line is that token",
        key="server.token_file",
        variable=None,
    )
    hub: str | None = _setting(
        None,
        kinds.TEXT,
        "the address of a hub, such as `https://host`, that receives runs as they are written",
        argument=True,
        key="hub.url",
    )
    hub_token: str | None = _setting(
        None, kinds.SECRET, "the token that the hub requires", key=None
    )
    hub_token_file: str | None = _setting(
        None, kinds.PATH, "a file whose first line is that token", key="hub.token_file"
    )
    hub_bytes_per_s: int | None = _setting(
        None,
        kinds.whole_number(1, 10**12),
        "how many bytes are sent to the hub each second at most; by default there is no limit",
        variable="EPOCHAL_HUB_RATE",
        key="hub.bytes_per_s",
    )
    hub_patch: bool = _setting(
        False,
        kinds.SWITCH,
        "send the uncommitted changes of the code to the hub, which may contain secrets",
        key="hub.patch",
    )
    control: bool = _setting(
        False,
        kinds.SWITCH,
        "the companion obeys requests from the hub: stop, suspend, continue, save a checkpoint",
        key="hub.control",
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
            variable = declared.variable
            if variable == "":
                variable = f"EPOCHAL_{one.name.upper()}"
            yield msgspec.structs.replace(declared, name=one.name, key=key, variable=variable)


DECLARED = tuple(_declared())
BY_NAME: Mapping[str, Setting] = {one.name: one for one in DECLARED}
