"""``epochal resume``: the command that continues a run, and what would differ."""

from __future__ import annotations

import json
import os
import shlex
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from epochal.cli import options
from epochal.cli.checkpoints import checkpoint_folders, newest_checkpoint
from epochal.cli.command import data_command, own_run
from epochal.cli.output import confirm, one_line, remark, said_json, say
from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import slugify
from epochal.records.format import plural
from epochal.records.redact import REDACTED
from epochal.records.values import flat_items
from epochal.run.provenance import describe_git
from epochal.settings.toml_file import shown_path
from epochal.store.run import RunView
from epochal.store.wait import processes_of
from epochal.torch.checkpoint.manifest import ABSENT, Drift, Manifest, config_drift, problem_of

_NOTEBOOKS = ("ipykernel_launcher", "ipykernel", "colab_kernel_launcher")
# Options of the interpreter that take a value of their own.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
_NO_CHECKPOINT = (
    "it has no checkpoint in {}: unless the program saves its own, training starts with new"
    " weights."
)
_BY_ITSELF = (
    "EPOCHAL_RESUME=must makes the program continue this run. If it takes its checkpoint as an"
    " argument, give that with --args, as in --args='--resume {}'."
)
_SECRETS = (
    f"its secrets were not recorded: put them in place of {REDACTED}, or give them with --args,"
    " as in --args='--password …'."
)


@data_command
@options.run
@click.option("--run", "start", is_flag=True, help="Run the command.")
@click.option("--args", "more", default="", help="Arguments that replace the program's own.")
@options.yes
def command(run: str | None, start: bool, more: str, yes: bool) -> None:
    """Print the command that continues a run, or run it. --quiet prints the command alone.

    \b
        epochal resume quiet-fox --run --args='--max_lr 1e-4'
    """
    try:
        arguments = shlex.split(more)
    except ValueError as error:
        raise UsageError(f"--args {more!r} cannot be read as arguments: {error}.") from error
    view = own_run(run)
    info, plan = view.info, _plan(view, arguments)
    state = {"run": info.id, "state": info.status.state, "step": info.step}
    if not said_json({**state, **plan}):
        reason = f": {info.status.reason}" if info.status.reason else ""
        at = "" if info.step is None else f", step {info.step}"
        remark(one_line(f"{info.project}/{info.name}  ({info.status.text}{reason}{at})"))
        if plan["checkpoint"] is not None:
            remark(one_line(f"  checkpoint    {shown_path(Path(plan['checkpoint']))}"))
            remark(f"  continues at  step {plan['next_step']}")
        for drift in plan["drift"]:
            remark(one_line(f"  changed       {Drift(**drift)}"))
        for sentence in plan["remarks"]:
            remark(one_line(f"  note          {sentence}"))
        remark("")
        say(plan["shell"])
    if start:
        question = "Its steps are recorded again from the beginning. Run it?"
        confirm(question, yes=yes or plan["checkpoint"] is not None)
        _become(plan)


def _become(plan: Mapping[str, Any]) -> None:
    """Replace this process by the training: signals and its end are then the shell's own."""
    if any(REDACTED in word for word in plan["command"]):
        raise EpochalError(_SECRETS)
    sys.stdout.flush()
    try:
        os.chdir(plan["cwd"] or ".")
        os.execvpe(plan["command"][0], plan["command"], {**os.environ, **plan["environment"]})
    except OSError as error:
        raise EpochalError(f"it cannot be started: {error}") from error


def _plan(view: RunView, more: Sequence[str]) -> dict[str, Any]:
    """The command that continues a run, and what is not as it was.

    ``more`` are arguments that replace or follow the run's own. Raises ``EpochalError`` for a run
    that still goes on, and for one whose command is not known or was a notebook.
    """
    facts, info = view.facts, view.info
    name = f"{info.project}/{info.name}"
    if info.status.state == "running":
        raise EpochalError(f"{name} is still running: 'epochal stop {shlex.quote(name)}' ends it.")
    recorded = facts.get("command")
    if not isinstance(recorded, list) or len(recorded) < 2:
        raise EpochalError(f"{name} does not record which command started it.")
    words = [str(word) for word in recorded]
    if any(Path(word).stem in _NOTEBOOKS for word in words[1:4]):
        raise EpochalError(
            f"{name} was started in a notebook: run its cells again with"
            " epochal.init(..., resume='must')."
        )
    path, manifest = newest_checkpoint(view) or (None, None)
    own = _resume_arguments(words, more, path, manifest)
    started, remarks = _launched(_with_arguments(words, [*more, *own]), view)
    if path is not None and not own and not more:
        remarks.insert(0, _BY_ITSELF.format(path))
    if any(REDACTED in word for word in started):
        remarks.append(_SECRETS)
    cwd, environment = facts.get("cwd"), environment_of(view)
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    shell = " ".join([*variables, *map(shlex.quote, started)])
    return {
        "shell": f"cd {shlex.quote(cwd)} && {shell}" if isinstance(cwd, str) else shell,
        "command": started,
        "environment": environment,
        "cwd": cwd,
        "checkpoint": None if path is None else str(path),
        "next_step": None if manifest is None else manifest.step + 1,
        "drift": [asdict(drift) for drift in _drift(view, manifest, more)],
        "remarks": [*_checkpoint_remarks(view, path, manifest), *remarks, *_changed(facts)],
    }


def restarted(command: Sequence[str], view: RunView) -> tuple[list[str], str]:
    """A command that continues from a run's last checkpoint, and a remark about it."""
    path, manifest = newest_checkpoint(view) or (None, None)
    if manifest is None:
        return list(command), "it is started again, without a checkpoint"
    more = _resume_arguments(command, (), path, manifest)
    return _with_arguments(command, more), f"it continues at step {manifest.step + 1}"


def environment_of(view: RunView) -> dict[str, str]:
    """The variables that make ``init`` go on with a run."""
    project, name = str(view.facts.get("project")), str(view.facts.get("name"))
    variables = {"EPOCHAL_PROJECT": project, "EPOCHAL_NAME": name, "EPOCHAL_RESUME": "must"}
    if view.path.parent.name == slugify(project):
        variables = {"EPOCHAL_DIR": str(view.path.parent.parent.absolute()), **variables}
    return variables


def _checkpoint_remarks(
    view: RunView, path: Path | None, manifest: Manifest | None
) -> Iterator[str]:
    if path is None or manifest is None:
        yield _NO_CHECKPOINT.format(" or ".join(map(str, checkpoint_folders(view))))
        return
    if problem := problem_of(path, manifest):
        yield f"{path.name} is damaged: {problem}."
    again = (view.info.step or 0) - manifest.step
    if again > 0:
        yield f"{plural(again, 'step')} {'is' if again == 1 else 'are'} run again."


def _resume_arguments(
    command: Sequence[str], more: Sequence[str], path: Path | None, manifest: Manifest | None
) -> list[str]:
    """What a program has to be told that does not go on by itself.

    Its checkpoint has the arguments (``external={"resume_with": "--resume {checkpoint}"}``), or the
    run was started with ``--resume`` and a value. No other program gets an argument.
    """
    if path is None or manifest is None:
        return []
    had_value = bool(dict(_options(command)).get("resume"))
    words = manifest.external.get("resume_with", "--resume {checkpoint}" if had_value else "")
    # The program starts in a folder of its own.
    told = [word.replace("{checkpoint}", str(path.absolute())) for word in shlex.split(words)]
    is_given = any(_flag(word) in dict(_options(more)) for word in told[:1])
    return [] if is_given else told


def _flag(word: str) -> str:
    """The name of an option, as a variable would be written."""
    return word.lstrip("-").partition("=")[0].replace("-", "_")


def _options(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Options with the words that follow them, in order; none for a switch."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            _, equals, value = word.partition("=")
            found.append((_flag(word), [value] if equals else []))
        elif found:
            found[-1][1].append(word)
    return found


def _with_arguments(command: Sequence[str], more: Sequence[str]) -> list[str]:
    """The command with existing options replaced, and new ones at its end."""
    replaced = dict(_options(more))
    kept: list[str] = []
    is_replaced = False
    for word in command:
        if word.startswith("-") and not word[1:2].isdigit():
            is_replaced = word.startswith("--") and _flag(word) in replaced
        if not is_replaced:
            kept.append(word)
    return [*kept, *more]


def _launched(command: Sequence[str], view: RunView) -> tuple[list[str], list[str]]:
    """The command with its launcher before it, for a run of several processes; remarks."""
    facts = view.facts
    world, launch = facts.get("world_size"), str(facts.get("launch_id") or "")
    if not isinstance(world, int) or world < 2:
        return list(command), []
    if launch.startswith("slurm-"):
        words = f"it had {world} processes of a Slurm job: start it inside an allocation."
        return ["srun", f"--ntasks={world}", *command], [words]
    if not launch.startswith("elastic-"):
        words = f"it had {world} processes; as their launcher is not known, this starts one."
        return list(command), [words]
    here = max(1, sum(p.get("host") == facts.get("host") for p in processes_of(view)))
    nodes = -(-world // here)
    # A script or ``-m module`` with its arguments; the interpreter's own options go.
    program = list(command[1:])
    while program and program[0].startswith("-") and program[0] != "-m":
        del program[: 2 if program[0] in _WITH_VALUE else 1]
    options = [f"--nproc-per-node={here}", *([f"--nnodes={nodes}"] if nodes > 1 else [])]
    words = f"it ran on {nodes} machines: start it on each of them."
    started = [command[0], "-m", "torch.distributed.run", *options, *program]
    return started, [words] if nodes > 1 else []


def _drift(view: RunView, manifest: Manifest | None, more: Sequence[str]) -> list[Drift]:
    """What the arguments would change, and what changed since the checkpoint was saved."""
    config = dict(flat_items(view.config))
    drifts: dict[str, Drift] = {}
    for flag, values in _options(more):
        name = next((key for key in config if key.rpartition(".")[2] == flag), flag)
        before, text = config.get(name, ABSENT), " ".join(values) or "true"
        try:
            now = json.loads(text.lower())
        except ValueError:
            now = text
        if flag != "resume" and now != before:
            drifts[name] = Drift(name, before, now)
    if manifest is not None and manifest.config:
        for drift in config_drift(manifest.config, view.config):
            drifts.setdefault(drift.name, drift)
    return list(drifts.values())


def _changed(facts: Mapping[str, Any]) -> Iterator[str]:
    """The differences since the run was started."""
    host, cwd, git = facts.get("host"), facts.get("cwd"), facts.get("git")
    if host is not None and host != socket.gethostname():
        yield f"it ran on {host!r}, and this is {socket.gethostname()!r}."
    if not isinstance(cwd, str) or not os.path.isdir(cwd):
        yield f"its folder {cwd} is not here."
    elif isinstance(git, Mapping) and (now := describe_git(Path(cwd))[0]) is not None:
        names = [str(one.get("commit"))[:10] + "+" * bool(one.get("dirty")) for one in (git, now)]
        if names[0] != names[1]:
            yield f"its code was at {names[0]} and is at {names[1]} now (+: uncommitted changes)."
