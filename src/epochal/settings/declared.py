"""Every setting, declared once: reading, checks, ``init``, commands and the docs use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import msgspec

from epochal.settings import kinds
from epochal.settings.kinds import Kind
from epochal.settings.toml_file import SettingsFile, Source

# Tables of ``epochal.toml`` whose keys are declared by the rules, the sinks and the hub.
OPEN_TABLES = ("rules", "sinks", "retention")
# The options that describe one run. No other process needs them.
LABELS = ("project", "name", "tags", "notes", "group", "job_type", "owner")

# The families of trainings; `epochal.health.families` says what each of them is.
FAMILIES = (
    *("supervised", "language", "preference", "rl"),
    *("contrastive", "generative", "adversarial", "transduction"),
)


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting: a field of ``Settings``.

    ``key`` is its name in ``epochal.toml``, None for what does not belong in a file; ``variable``
    is its environment variable.
    """

    name: str = ""
    kind: Kind
    default: Any
    meaning: str
    key: str | None = None
    variable: str | None = None


class Located(msgspec.Struct, frozen=True):
    """A value and its source."""

    value: Any
    source: Source

    @property
    def base(self) -> Path | None:
        """What a relative path in it starts from; None for the working folder."""
        return None if self.source.file is None else self.source.file.base


def _setting(
    default: Any, kind: Kind, meaning: str, *, variable: str | None = "", key: str | None = ""
) -> Any:
    """Declare a setting; an empty variable and an empty key are named after the field."""
    declared = Setting(kind=kind, default=default, meaning=meaning, key=key, variable=variable)
    return field(default=default, metadata={"setting": declared})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The settings of a run: each is also a keyword of ``init``, which wins over the rest."""

    dir: str = _setting("runs", kinds.PATH, "The folder that contains the projects.")
    project: str = _setting("default", kinds.TEXT, "The project that the run belongs to.")
    name: str | None = _setting(
        None, kinds.TEXT, "The name of the run. By default it is the date and time.", key=None
    )
    tags: tuple[str, ...] = _setting(
        (),
        kinds.TEXTS,
        "Tags of the run. Tags passed to `init` are added. The variable separates tags by commas.",
    )
    notes: str | None = _setting(None, kinds.TEXT, "A text that describes the run.", key=None)
    group: str | None = _setting(None, kinds.TEXT, "The group of runs that the run belongs to.")
    job_type: str | None = _setting(
        None, kinds.TEXT, "What the run does in its group, such as `train` or `eval`."
    )
    owner: str | None = _setting(
        None, kinds.TEXT, "Who owns the run. By default it is the user of the operating system."
    )
    resume: str = _setting(
        "never",
        kinds.choice("never", "allow", "must", "latest"),
        "Whether `init` continues the run of the same name.",
    )
    enabled: bool = _setting(
        True,
        kinds.SWITCH,
        "With `false` (`EPOCHAL_MODE=off`), runs check their arguments and write nothing.",
        variable="EPOCHAL_MODE",
    )
    strict: bool = _setting(
        False, kinds.SWITCH, "Calls raise for values that cannot be recorded. Meant for tests."
    )
    capture: bool = _setting(
        False, kinds.SWITCH, "Record what the program prints, up to 8 MiB.", variable=None
    )
    console: bool = _setting(True, kinds.SWITCH, "Print training lines on the terminal.")
    verbosity: str = _setting("normal", kinds.VERBOSITY, "How much is printed.")
    line_every_s: float = _setting(
        0.25,
        kinds.seconds(),
        "The shortest time between two step lines; 0 prints every step.",
        variable=None,
    )
    git: bool = _setting(True, kinds.SWITCH, "Record the commit and uncommitted changes.")
    redact: Literal[False] | tuple[str, ...] = _setting(
        (),
        kinds.PATTERNS,
        "Names and regular expressions to redact besides secrets; `!name` keeps a name readable,"
        " `false` (`EPOCHAL_REDACT=0`) redacts nothing. Those passed to `init` are added. The"
        " variable separates them by commas.",
    )
    companion: bool = _setting(
        True,
        kinds.SWITCH,
        "Start a process beside the run that samples the machine, evaluates the health rules,"
        " seals finished files and forwards to other trackers.",
    )
    facts: bool = _setting(
        True,
        kinds.SWITCH,
        "Record facts of a PyTorch training without being asked: its optimizers, data loaders and"
        " gradients. `false` leaves torch as it is.",
    )
    health: bool = _setting(
        True, kinds.SWITCH, "Evaluate the health rules; `false` turns all of them off."
    )
    family: str | None = _setting(
        None,
        kinds.choice(*FAMILIES),
        "What kind of training it is. By default it is recognised from the names of metrics and"
        " the configuration.",
    )
    grace_s: float = _setting(
        30.0,
        kinds.seconds(),
        "How long the companion may run after the end of the run, to seal and to forward.",
        variable="EPOCHAL_GRACE",
    )
    finish_wait_s: float = _setting(
        5.0,
        kinds.seconds(),
        "How long `finish()` waits in total for callbacks, forwarding and findings.",
        variable=None,
    )
    samples_gb: float = _setting(
        2.0,
        kinds.gigabytes(),
        "How many gigabytes the samples and files of a run may take. You are warned at 80 %, and"
        " further samples are skipped and counted.",
    )
    telemetry_every_s: float | None = _setting(
        None,
        kinds.seconds(1, 3600),  # GPUs are read once a second; nobody has use for less than hourly
        "The time that one telemetry record covers. By default 10, and 60 after the first day.",
        variable="EPOCHAL_TELEMETRY_EVERY",
    )
    alerts: tuple[str, ...] = _setting(
        (),
        kinds.ADDRESSES,
        "Addresses that receive findings and the end of the run: `desktop`, or an address of the"
        " apprise package such as `json://host/path`. The variable separates them by blanks.",
    )
    alert_on: str = _setting(
        "warning",
        kinds.choice("info", "warning", "error", "off"),
        "The lowest severity that is sent as an alert.",
    )
    hub: str | None = _setting(
        None,
        kinds.URL,
        "The address of a hub, such as `https://host`, that receives the run as it is written.",
        key="hub.url",
    )
    hub_token: str | None = _setting(
        None, kinds.SECRET, "The token that the hub requires.", key=None
    )
    hub_token_file: str | None = _setting(
        None, kinds.PATH, "A file whose first line is that token.", key="hub.token_file"
    )
    hub_bytes_per_s: int | None = _setting(
        None,
        kinds.whole_number(1, 10**12),
        "How many bytes are sent to the hub each second at most. By default there is no limit.",
        variable="EPOCHAL_HUB_RATE",
        key="hub.bytes_per_s",
    )
    hub_patch: bool = _setting(
        False,
        kinds.SWITCH,
        "Send the uncommitted changes of the code to the hub. They may contain secrets.",
        key="hub.patch",
    )
    control: bool = _setting(
        False,
        kinds.SWITCH,
        "The companion obeys requests from the hub: stop, suspend, continue, save a checkpoint.",
        key="hub.control",
    )


@dataclass(frozen=True, slots=True)
class Settings(RunOptions):
    """The settings of the environment and the files; arguments given in code win over them.

    ``rules`` and ``sinks`` have the tables of these names, by dotted key. The rules and the sinks
    check them. ``sources`` has the source of each setting, ``files`` the files that were read, the
    project's first.
    """

    cache_dir: str | None = _setting(
        None,
        kinds.PATH,
        "The folder for the index of runs and for converted runs of"
        " other trackers. You can delete it. By default it is `epochal` in the user's cache"
        " folder.",
    )
    server_port: int = _setting(
        6060,
        kinds.whole_number(0, 65535),
        "The port of the live page. If it is in use, the next free one is taken.",
        key="server.port",
        variable=None,
    )
    server_token: str | None = _setting(
        None,
        kinds.SECRET,
        "The token that a server requires when other machines can reach it.",
        variable="EPOCHAL_TOKEN",
        key=None,
    )
    server_token_file: str | None = _setting(
        None,
        kinds.PATH,
        "A file whose first line is that token.",
        key="server.token_file",
        variable=None,
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
RUN_OPTIONS: Mapping[str, Setting] = {one.name: BY_NAME[one.name] for one in fields(RunOptions)}
