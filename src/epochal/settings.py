"""The only place that reads (and, for child processes, writes) environment variables.

    EPOCHAL_DIR        folder that holds projects                default: runs
    EPOCHAL_PROJECT    project of a run that names none          default: default
    EPOCHAL_NAME       name of a run that names none             default: date and time
    EPOCHAL_RESUME     never | allow | must | latest             default: never
    EPOCHAL_TAGS       comma-separated tags added to every run
    EPOCHAL_MODE       on | off: off makes every run a no-op on disk
    EPOCHAL_STRICT     1 | 0: values that cannot be recorded raise  default: 0
    EPOCHAL_CONSOLE    1 | 0: training lines on the terminal     default: 1
    EPOCHAL_GIT        1 | 0: record commit and uncommitted diff default: 1
    EPOCHAL_REDACT     0, or names to redact besides secrets, with commas between   default: 1
    EPOCHAL_COMPANION  1 | 0: a process beside the run           default: 1
    EPOCHAL_TELEMETRY_EVERY  seconds that a record of it stands for  default: 10, later 60
    EPOCHAL_GRACE      seconds it may go on after the run        default: 30
    EPOCHAL_ALERTS     addresses, separated by blanks, that are told of findings and of the end
    EPOCHAL_ALERT_ON   info | warning | error | off: from which   default: warning
    EPOCHAL_CACHE_DIR  folder for what can be made again         default: the user's cache folder
    EPOCHAL_LAUNCH_FILE  where a run says that it has begun, to whoever started the program
    EPOCHAL_TOKEN      the token a server that other machines can reach asks for
    EPOCHAL_VERBOSITY  0-4 or quiet, normal, verbose, debug, trace

CI, NO_COLOR and launchers' variables (RANK, WORLD_SIZE, SLURM_*, OMPI_*, TORCHELASTIC_*) are read
here too.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from epochal.errors import UsageError

_WHOLE_NUMBER = re.compile(r"-?[0-9]+")
_PARENT_RUN = "EPOCHAL_PARENT_RUN"
_LAUNCH_FILE = "EPOCHAL_LAUNCH_FILE"
_ALERTS = "EPOCHAL_ALERTS"
_ALERT_ON = "EPOCHAL_ALERT_ON"
_TELEMETRY_EVERY = "EPOCHAL_TELEMETRY_EVERY"
# GPUs are looked at once a second; an hour is as coarse as anybody has use for.
_LEAST_TELEMETRY_EVERY_S = 1.0
_MOST_TELEMETRY_EVERY_S = 3600.0
ALERT_LEVELS = ("info", "warning", "error", "off")
_FALSE = frozenset({"0", "false", "no", "off"})
_TRUE = frozenset({"1", "true", "yes", "on", ""})


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says about runs; arguments given in code win over it."""

    dir: str = "runs"
    project: str = "default"
    name: str | None = None
    resume: str = "never"
    tags: tuple[str, ...] = ()
    enabled: bool = True
    console: bool = True
    git: bool = True
    redact: bool | tuple[str, ...] = True
    companion: bool = True
    strict: bool = False
    grace_s: float = 30.0
    telemetry_every_s: float | None = None
    alerts: tuple[str, ...] = ()
    alert_on: str = "warning"


@dataclass(frozen=True, slots=True)
class Launch:
    """This process's place in a distributed launch; rank 0 of 1 when there is none."""

    rank: int = 0
    world_size: int = 1
    local_rank: int = 0
    node_rank: int = 0
    launch_id: str | None = None


@dataclass(frozen=True, slots=True)
class ParentRun:
    """The run of the process that started this one with ``multiprocessing``."""

    pid: int
    folder: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Announcement:
    """A run that has begun; ``captures`` says that it keeps what it prints itself."""

    folder: str
    attempt: int
    captures: bool


def read_settings(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the EPOCHAL_* variables once; a malformed one raises and names itself."""
    env = os.environ if environ is None else environ
    default = Settings()
    tags = tuple(t.strip() for t in env.get("EPOCHAL_TAGS", "").split(",") if t.strip())
    return Settings(
        dir=env.get("EPOCHAL_DIR") or default.dir,
        project=env.get("EPOCHAL_PROJECT") or default.project,
        name=env.get("EPOCHAL_NAME") or None,
        resume=env.get("EPOCHAL_RESUME") or default.resume,
        tags=tags,
        enabled=_flag(env, "EPOCHAL_MODE", default=True),
        console=_flag(env, "EPOCHAL_CONSOLE", default=True),
        git=_flag(env, "EPOCHAL_GIT", default=True),
        redact=_redact(env.get("EPOCHAL_REDACT", "")),
        companion=_flag(env, "EPOCHAL_COMPANION", default=True),
        strict=environment_strict(env),
        grace_s=_seconds(env, "EPOCHAL_GRACE", default=default.grace_s),
        telemetry_every_s=_telemetry_every(env),
        alerts=tuple(env.get(_ALERTS, "").split()),
        alert_on=_alert_level(env.get(_ALERT_ON) or default.alert_on),
    )


def environment_strict(environ: Mapping[str, str] | None = None) -> bool:
    """Whether EPOCHAL_STRICT asks for an error where a value cannot be recorded."""
    env = os.environ if environ is None else environ
    return _flag(env, "EPOCHAL_STRICT", default=False)


def cache_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where an index and other things that can be made again are kept; it may not exist yet."""
    env = os.environ if environ is None else environ
    if given := env.get("EPOCHAL_CACHE_DIR"):
        return Path(given).expanduser().absolute()
    if shared := env.get("XDG_CACHE_HOME"):
        return Path(shared).absolute() / "epochal"
    if sys.platform == "win32":
        return Path(env.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "epochal"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "epochal"
    return Path.home() / ".cache" / "epochal"


def child_environment(package_root: Path) -> dict[str, str]:
    """The environment of a process of ours that is started in another folder.

    It finds this package and whatever the caller's relative entries of PYTHONPATH led to.
    """
    env = dict(os.environ)
    env.pop("PYTHONINSPECT", None)  # would have it wait for input at its end
    given = [os.path.abspath(p) for p in env.get("PYTHONPATH", "").split(os.pathsep) if p]
    # Put in front, an installation's folder could hide modules of Python itself.
    if package_root.name not in ("site-packages", "dist-packages"):
        given = [str(package_root), *given]
    if given:
        env["PYTHONPATH"] = os.pathsep.join(given)
    return env


def no_colours(environ: Mapping[str, str] | None = None) -> bool:
    """Whether NO_COLOR asks for text without colours."""
    return bool((os.environ if environ is None else environ).get("NO_COLOR"))


def is_ci(environ: Mapping[str, str] | None = None) -> bool:
    """Whether CI says that nobody is looking: continuous integration sets it."""
    value = (os.environ if environ is None else environ).get("CI", "")
    return value.strip().lower() not in {*_FALSE, ""}


def environment_verbosity(environ: Mapping[str, str] | None = None) -> str | None:
    """The text of EPOCHAL_VERBOSITY, or None when it is not set."""
    env = os.environ if environ is None else environ
    return env.get("EPOCHAL_VERBOSITY")


def environment_token(environ: Mapping[str, str] | None = None) -> str | None:
    """The text of EPOCHAL_TOKEN, the token a server on another host asks for; None when not set."""
    env = os.environ if environ is None else environ
    return env.get("EPOCHAL_TOKEN") or None


def export_verbosity(level: int) -> None:
    """Hand a verbosity chosen on the command line to child processes."""
    os.environ["EPOCHAL_VERBOSITY"] = str(level)


def read_launch(environ: Mapping[str, str] | None = None) -> Launch:
    """Find rank and launch id from torchrun, Slurm or MPI variables."""
    env = os.environ if environ is None else environ
    rank = _first_int(env, "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
    world = _first_int(env, "WORLD_SIZE", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    if rank is None or world is None or world < 1 or not 0 <= rank < world:
        return Launch()
    local = _first_int(env, "LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK")
    node = _first_int(env, "GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
    return Launch(
        rank=rank,
        world_size=world,
        local_rank=local or 0,
        node_rank=node or 0,
        launch_id=_launch_id(env) if world > 1 else None,
    )


def read_parent_run(environ: Mapping[str, str] | None = None) -> ParentRun | None:
    """The run this process's parent announced, if any."""
    env = os.environ if environ is None else environ
    parts = env.get(_PARENT_RUN, "").split(":", 2)
    if len(parts) != 3 or not all(_WHOLE_NUMBER.fullmatch(part) for part in parts[:2]):
        return None
    return ParentRun(pid=int(parts[0]), attempt=int(parts[1]), folder=parts[2])


def announce_run(*, pid: int, folder: str, attempt: int) -> None:
    """Let processes started from here with ``multiprocessing`` find this run."""
    os.environ[_PARENT_RUN] = f"{pid}:{attempt}:{folder}"


def withdraw_run(*, pid: int) -> None:
    """Take back what ``announce_run`` of this process said."""
    announced = read_parent_run()
    if announced is not None and announced.pid == pid:
        del os.environ[_PARENT_RUN]


def launch_variable(path: Path) -> dict[str, str]:
    """What tells a command's runs to announce themselves in this file."""
    return {_LAUNCH_FILE: str(path)}


def announce_launched(announcement: Announcement, environ: Mapping[str, str] | None = None) -> None:
    """Say that a run has begun, where EPOCHAL_LAUNCH_FILE asks for it; raises ``OSError``."""
    path = (os.environ if environ is None else environ).get(_LAUNCH_FILE)
    if path and os.path.isdir(os.path.dirname(path)):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(announcement)) + "\n")


def read_announcements(path: Path) -> list[Announcement]:
    """The runs that were announced in a file, in order."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    # A line without its end is still being written.
    return [Announcement(**json.loads(line)) for line in text.split("\n")[:-1]]


def alert_environment(alerts: Iterable[str], alert_on: str) -> dict[str, str]:
    """What a companion's environment says about alerts; addresses may hold passwords."""
    return {_ALERTS: " ".join(alerts), _ALERT_ON: alert_on}


def checked_telemetry_every(seconds: float) -> float:
    """How much time a record of telemetry stands for; raises ``UsageError``."""
    if not _LEAST_TELEMETRY_EVERY_S <= seconds <= _MOST_TELEMETRY_EVERY_S:
        raise UsageError(
            f"telemetry every {seconds:g} s is not possible: from"
            f" {_LEAST_TELEMETRY_EVERY_S:g} to {_MOST_TELEMETRY_EVERY_S:g} seconds are."
        )
    return seconds


def _telemetry_every(env: Mapping[str, str]) -> float | None:
    if not env.get(_TELEMETRY_EVERY, "").strip():
        return None
    return checked_telemetry_every(_seconds(env, _TELEMETRY_EVERY, default=0.0))


def _redact(text: str) -> bool | tuple[str, ...]:
    if text.strip().lower() in _FALSE | _TRUE:
        return text.strip().lower() in _TRUE
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _alert_level(text: str) -> str:
    level = text.strip().lower()
    if level not in ALERT_LEVELS:
        raise UsageError(
            f"{_ALERT_ON}={text!r} is not known: use one of {', '.join(ALERT_LEVELS)}."
        )
    return level


def _flag(env: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = env.get(name)
    if text is None:
        return default
    lowered = text.strip().lower()
    if lowered in _FALSE:
        return False
    if lowered in _TRUE:
        return True
    raise UsageError(f"{name}={text!r} is not a switch: use 1/on or 0/off.")


def _seconds(env: Mapping[str, str], name: str, *, default: float) -> float:
    text = env.get(name, "").strip()
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise UsageError(f"{name}={text!r} is not a time: use seconds, 0 or more.")
    return seconds


def _first_int(env: Mapping[str, str], *names: str) -> int | None:
    for name in names:
        text = env.get(name, "").strip()
        if _WHOLE_NUMBER.fullmatch(text):
            return int(text)
    return None


def _launch_id(env: Mapping[str, str]) -> str | None:
    if elastic := env.get("TORCHELASTIC_RUN_ID"):
        restart = env.get("TORCHELASTIC_RESTART_COUNT", "0")
        # torchrun without --rdzv-id calls every launch "none": the address tells them apart.
        address = f"{env.get('MASTER_ADDR', '')}-{env.get('MASTER_PORT', '')}"
        return f"elastic-{elastic}-{address if elastic == 'none' else ''}-{restart}"
    if job := env.get("SLURM_JOB_ID"):
        return f"slurm-{job}-{env.get('SLURM_STEP_ID', '0')}-{env.get('SLURM_RESTART_COUNT', '0')}"
    if port := env.get("MASTER_PORT"):
        return f"master-{env.get('MASTER_ADDR', '')}-{port}"
    return None
