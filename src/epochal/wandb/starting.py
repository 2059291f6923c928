"""``wandb.init``: every argument of W&B 0.31, as an Epochal run.

An argument wins over ``settings=``, and that over the ``WANDB_*`` variables. ``online``,
``offline`` and ``shared`` all record to the local folder of runs; nothing is sent.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.api.reading import load
from epochal.errors import RunNotFoundError
from epochal.journal.layout import RunFolder, read_json, slugify
from epochal.run.console.cell import calling_cell
from epochal.run.resume import newest_run
from epochal.run.run import Run as EpochalRun
from epochal.run.run import recorder_of
from epochal.run.start import init as start_run
from epochal.settings import read_settings
from epochal.settings.toml_file import shown_path
from epochal.wandb.errors import UsageError
from epochal.wandb.metrics import config_file, parse_config
from epochal.wandb.notices import not_supported, say_once
from epochal.wandb.session import ACTIVE
from epochal.wandb.settings import Settings, as_settings, is_quiet, read_environment
from epochal.wandb.sweeps import sweep_parameters
from epochal.wandb.wandb_run import Run, facts_of_resumed

# The last two are older names of the first two.
MODES = ("online", "offline", "disabled", "shared", "run", "dryrun")
RESUMES = ("allow", "never", "must", "auto")
REINITS = ("default", "return_previous", "finish_previous", "create_new")
DEFAULTS_FILE = "config-defaults.yaml"
DO_NOT_SET = object()


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: str | os.PathLike[str] | None = None,  # noqa: A002 (W&B's names)
    id: str | None = None,  # noqa: A002
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    config: Mapping[str, Any] | str | Any = None,
    config_exclude_keys: list[str] | None = None,
    config_include_keys: list[str] | None = None,
    allow_val_change: bool | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
    force: bool | None = None,
    reinit: bool | str | None = None,
    resume: bool | str | None = None,
    resume_from: str | None = None,
    fork_from: str | None = None,
    save_code: bool | None = None,
    tensorboard: bool | None = None,
    sync_tensorboard: bool | None = None,
    monitor_gym: bool | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    anonymous: Any = DO_NOT_SET,
) -> Run:
    """Start a run and make it ``wandb.run``; the arguments are those of ``wandb.init``."""
    given = {name: value for name, value in locals().items() if value is not None}
    own = as_settings(settings)
    asked = {**read_environment(), **own.arguments, **given}
    _check(asked)
    previous = _previous(asked.get("reinit"))
    if previous is not None:
        say_once("wandb.init() returns the run that is open: reinit='create_new' opens another.")
        return previous
    entries = parse_config(config, exclude=config_exclude_keys, include=config_include_keys)
    if Path(DEFAULTS_FILE).is_file():
        entries = {**config_file(Path(DEFAULTS_FILE)), **entries}
    chosen = sweep_parameters()
    run, starting_step = _start(asked, {**entries, **chosen})
    known = facts_of_resumed(run)
    allowed = asked.get("allow_val_change") or calling_cell() is not None
    name = known.get("name") or run.name
    facts = {**known, **asked, "name": name, "allow_val_change": allowed}
    opened = Run(run, own, facts, starting_step, rejoin=rejoin)
    opened.config._locked.update(dict.fromkeys(chosen, "the sweep"))
    ACTIVE.add(opened)
    _begin(opened, asked)
    return opened


def rejoin(run_id: str, project: str, folder: Any, is_disabled: bool) -> Run:
    """The run of an id: open here, of the parent process, or resumed."""
    for run in ACTIVE:
        if isinstance(run, Run) and run.id == run_id:
            return run
    if is_disabled:
        return init(project=project, mode="disabled", reinit="create_new")
    return init(project=project, dir=folder, id=run_id, resume="allow", reinit="create_new")


def _check(asked: Mapping[str, Any]) -> None:
    for name, known in (("mode", MODES), ("reinit", REINITS)):
        value = asked.get(name)
        if isinstance(value, str) and value not in known:
            raise UsageError(f"{name}={value!r} is not known: use one of {', '.join(known)}.")
    if sum(1 for name in ("resume", "resume_from", "fork_from") if asked.get(name)) > 1:
        raise UsageError("resume, resume_from and fork_from cannot be used together.")


def _previous(reinit: bool | str | None) -> Run | None:
    """The open run that ``init`` returns; finishes open runs where that is asked for."""
    current = ACTIVE.current
    if not isinstance(current, Run) or reinit == "create_new":
        return None
    in_notebook = calling_cell() is not None
    if reinit in (True, "finish_previous") or (in_notebook and reinit in (None, "default")):
        for run in ACTIVE:
            run.finish()
        return None
    return current


def _start(asked: Mapping[str, Any], config: dict[str, Any]) -> tuple[EpochalRun, int]:
    """Open the run; give it with the number of its first row."""
    options: dict[str, Any] = {
        "project": asked.get("project"),
        "name": asked.get("name") or asked.get("id"),
        "id": asked.get("id"),
        "dir": None if asked.get("dir") is None else Path(asked["dir"]) / "runs",
        "config": config,
        "git": False if asked.get("disable_git") else None,
        **{name: asked.get(name) for name in ("tags", "notes", "group", "job_type")},
        "owner": asked.get("entity"),
        "console": False,
        "capture": str(asked.get("console") or "").lower() != "off" or None,
    }
    options["group"] = options["group"] or asked.get("sweep_id")
    if asked.get("mode") == "disabled" or asked.get("disabled"):
        return start_run(**options, enabled=False), 0
    goes_on = _set_resume(options, asked)
    try:
        run = start_run(**options)
    except RunNotFoundError as error:
        raise UsageError(str(error)) from error
    return run, run.step + 1 if goes_on else 0


def _set_resume(options: dict[str, Any], asked: Mapping[str, Any]) -> bool:
    """Set how the run is resumed; True if its steps go on where they ended."""
    resume = asked.get("resume")
    if (origin := asked.get("fork_from")) is not None:
        options["fork_from"] = str(origin).replace("?_step=", "?step=")
        return True
    if (origin := asked.get("resume_from")) is not None:
        run_id, _, step = str(origin).partition("?_step=")
        if not step.isdigit():
            raise UsageError(f"resume_from={origin!r} must be of the form 'ID?_step=NUMBER'.")
        options.update(id=run_id, resume="must", resume_step=int(step) + 1)
        return True
    if isinstance(resume, str) and resume not in RESUMES:
        options.update(id=options["id"] or resume, resume="allow")
        return True
    run_id = options["id"]
    if resume == "never" and run_id and _newest(options, lambda known: known["id"] == run_id):
        raise UsageError(f"resume='never', but a run with the id {run_id!r} exists.")
    if resume == "must" and not run_id:
        raise UsageError("resume='must' needs the id of the run to go on with.")
    if resume in (True, "auto") and not run_id:
        newest = _newest(options, lambda known: True)
        if newest is not None and load(newest.path).info.status.text != "finished":
            options["id"] = read_json(newest.identity)["id"]
    if not options["id"]:
        options.pop("id")
        options["resume"] = "never"
        return False
    options["resume"] = "must" if resume == "must" else "allow"
    # Without ``resume`` W&B overwrites a run of the same id: the new attempt begins at step 0.
    return bool(resume) and resume != "never"


def _newest(
    options: Mapping[str, Any], fits: Callable[[Mapping[str, Any]], bool]
) -> RunFolder | None:
    """The newest run of the project that fits."""
    settings = read_settings()
    root = Path(options["dir"] or settings.dir).expanduser().absolute()
    project = root / slugify(options["project"] or settings.project)
    return newest_run(project, fits) if project.is_dir() else None


def _begin(run: Run, asked: Mapping[str, Any]) -> None:
    """Start what arguments ask for beside the run, and say where it is recorded."""
    recorder = recorder_of(run.epochal)
    if asked.get("monitor_gym"):
        not_supported("monitor_gym=True", "videos of gym are not recorded")
    if asked.get("sync_tensorboard") or asked.get("tensorboard"):
        from epochal.wandb.tensorboard import record_event_files

        run.on_teardown(record_event_files(run.epochal))
    if run.disabled:
        return
    if run.sweep_id is not None:
        run.epochal.event("sweep", sweep_id=run.sweep_id)
    script = Path(sys.argv[0]) if sys.argv and sys.argv[0] else None
    if asked.get("save_code") and script is not None and script.is_file():
        run._saved.add(script, script.parent, "now", False)
    is_told = not (is_quiet() or asked.get("silent") or asked.get("quiet"))
    if is_told and recorder.rank == 0:
        recorder.console.notice(f"run {run.name!r} is recorded in {shown_path(Path(run.sync_dir))}")
