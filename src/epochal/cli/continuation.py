"""The command that continues a run: its folder, variables and checkpoint."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.cli.checkpoint_places import flag_name, newest_checkpoint, options_of, places_of
from epochal.errors import EpochalError
from epochal.format import plural
from epochal.journal.layout import slugify
from epochal.redact import REDACTED
from epochal.run.provenance import describe_git
from epochal.store.local.run import LocalRun
from epochal.store.process_action import processes_of
from epochal.torch.checkpoint.manifest import ABSENT, Drift, Manifest, config_drift, problem_of
from epochal.values import flat_items

_NOTEBOOKS = ("ipykernel_launcher", "ipykernel", "colab_kernel_launcher")
# Options of the interpreter that take a value of their own.
_WITH_VALUE = ("-W", "-X", "--check-hash-based-pycs")
# Under this name of its ``external`` a checkpoint says which arguments go on from it.
_RESUME_WITH = "resume_with"
_NO_CHECKPOINT = (
    "it has no checkpoint in {}: unless the program saves its own, training starts with new"
    " weights."
)
_BY_ITSELF = (
    "EPOCHAL_RESUME=must makes the program continue this run. If it takes its checkpoint as an"
    " argument, give that with --args, as in --args='--resume {}'."
)
_REDACTED = (
    f"its secrets were not recorded: put them in place of {REDACTED}, or give them with --args."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """How to go on with a run; ``next_step`` is None without a checkpoint, ``drift`` what changes.

    ``remarks`` are sentences about what is not as it was.
    """

    command: tuple[str, ...]
    environment: dict[str, str]
    cwd: str | None
    checkpoint: str | None
    next_step: int | None
    drift: tuple[Drift, ...]
    remarks: tuple[str, ...]

    @property
    def shell(self) -> str:
        """The same as one line for a shell."""
        variables = [f"{name}={_quoted(value)}" for name, value in self.environment.items()]
        line = " ".join([*variables, *map(_quoted, self.command)])
        return line if self.cwd is None else f"cd {_quoted(self.cwd)} && {line}"


def _quoted(word: str) -> str:
    """A word for a shell; control characters as bash and zsh spell them, not as they are."""
    if word.isprintable():
        return shlex.quote(word)
    plain = word.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in plain) + "'"


def continuation_of(view: LocalRun, more: Sequence[str] = ()) -> Continuation:
    """Work out the command; ``more`` are arguments that replace or follow the run's own.

    Raises ``EpochalError`` for a run that still goes on, and for one whose command is not known or
    was a notebook.
    """
    facts, info = view.facts, view.info
    name = f"{info.project}/{info.name}"
    if info.status.state == "running":
        raise EpochalError(f"{name} is still running: 'epochal stop {shlex.quote(name)}' ends it.")
    command = facts.get("command")
    if not isinstance(command, list) or len(command) < 2:
        raise EpochalError(f"{name} does not record which command started it.")
    words = [str(word) for word in command]
    if any(Path(word).stem in _NOTEBOOKS for word in words[1:4]):
        raise EpochalError(
            f"{name} was started in a notebook: run its cells again with"
            " epochal.init(..., resume='must')."
        )
    path, manifest = newest_checkpoint(view) or (None, None)
    own = _resume_arguments(words, more, path, manifest)
    launched, launch_remarks = _launched(_with_arguments(words, [*more, *own]), view)
    cwd = facts.get("cwd")
    return Continuation(
        command=tuple(launched),
        environment=environment_of(view),
        cwd=cwd if isinstance(cwd, str) else None,
        checkpoint=None if path is None else str(path),
        next_step=None if manifest is None else manifest.step + 1,
        drift=_drift(view, manifest, more),
        remarks=(
            *_checkpoint_remarks(view, path, manifest),
            *([_BY_ITSELF.format(path)] if path is not None and not own and not more else []),
            *launch_remarks,
            *([_REDACTED] if is_redacted(launched) else []),
            *_changed(facts),
        ),
    )


def is_redacted(command: Sequence[str]) -> bool:
    """Whether a recorded command lacks what it cannot be run without."""
    return any(REDACTED in word for word in command)


def restarted(command: Sequence[str], view: LocalRun) -> tuple[list[str], str]:
    """A command that continues from a run's last checkpoint, and a remark about it."""
    path, manifest = newest_checkpoint(view) or (None, None)
    if manifest is None:
        return list(command), "it is started again, without a checkpoint"
    more = _resume_arguments(command, (), path, manifest)
    return _with_arguments(command, more), f"it continues at step {manifest.step + 1}"


def _checkpoint_remarks(
    view: LocalRun, path: Path | None, manifest: Manifest | None
) -> Iterator[str]:
    if path is None or manifest is None:
        yield _NO_CHECKPOINT.format(" or ".join(map(str, places_of(view))))
        return
    problem = problem_of(path, manifest)
    if problem is not None:
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
    had_value = bool(dict(options_of(command)).get("resume"))
    words = manifest.external.get(_RESUME_WITH, "--resume {checkpoint}" if had_value else "")
    # The program starts in a folder of its own.
    where = str(path.absolute())
    told = [word.replace("{checkpoint}", where) for word in shlex.split(words)]
    given = {flag_name(word) for word in more if word.startswith("--")}
    return [] if given & set(map(flag_name, told[:1])) else told


def _with_arguments(command: Sequence[str], more: Sequence[str]) -> list[str]:
    """The command with existing options replaced, and new ones at its end."""
    replaced = {flag_name(word) for word in more if word.startswith("--")}
    kept: list[str] = []
    is_replaced = False
    for word in command:
        if word.startswith("-") and not word[1:2].isdigit():
            is_replaced = word.startswith("--") and flag_name(word) in replaced
        if not is_replaced:
            kept.append(word)
    return [*kept, *more]


def _launched(command: Sequence[str], view: LocalRun) -> tuple[list[str], list[str]]:
    """The command with its launcher before it, for a run of several processes."""
    facts = view.facts
    world = facts.get("world_size")
    if not isinstance(world, int) or world < 2:
        return list(command), []
    launch = str(facts.get("launch_id") or "")
    if launch.startswith("slurm-"):
        remark = f"it had {world} processes of a Slurm job: start it inside an allocation."
        return ["srun", f"--ntasks={world}", *command], [remark]
    if not launch.startswith("elastic-"):
        return list(command), [
            f"it had {world} processes; their launcher is not known, so this starts one of them."
        ]
    here = max(1, sum(p.get("host") == facts.get("host") for p in processes_of(view)))
    nodes = -(-world // here)
    # A script or ``-m module`` with its arguments; the interpreter's own options go.
    program = list(command[1:])
    while program and program[0].startswith("-") and program[0] != "-m":
        del program[: 2 if program[0] in _WITH_VALUE else 1]
    launcher = [command[0], "-m", "torch.distributed.run", f"--nproc-per-node={here}"]
    if nodes == 1:
        return [*launcher, *program], []
    remark = f"it ran on {nodes} machines: start it on each of them."
    return [*launcher, f"--nnodes={nodes}", *program], [remark]


def environment_of(view: LocalRun) -> dict[str, str]:
    """The variables that make ``init`` go on with a run."""
    facts = view.facts
    project, name = str(facts.get("project")), str(facts.get("name"))
    variables = {"EPOCHAL_PROJECT": project, "EPOCHAL_NAME": name, "EPOCHAL_RESUME": "must"}
    if view.path.parent.name == slugify(project):
        variables = {"EPOCHAL_DIR": str(view.path.parent.parent.absolute()), **variables}
    return variables


def _drift(view: LocalRun, manifest: Manifest | None, more: Sequence[str]) -> tuple[Drift, ...]:
    """What the arguments would change, and what changed since the checkpoint was saved."""
    config = dict(flat_items(view.config))
    drifts: dict[str, Drift] = {}
    for flag, values in options_of(more):
        name = next((key for key in config if key.rpartition(".")[2] == flag), flag)
        before, text = config.get(name, ABSENT), " ".join(values) or "true"
        try:
            now = json.loads(text.lower())
        except ValueError:
            now = text
        if flag != "resume" and now != before:
            drifts[name] = Drift(name, before, now)
    saved = manifest.config if manifest is not None else None
    since = config_drift(saved, dict(view.config)) if saved else ()
    return (*drifts.values(), *(drift for drift in since if drift.name not in drifts))


def _changed(facts: Mapping[str, Any]) -> Iterator[str]:
    """The differences since the run was started."""
    host, cwd, command = facts.get("host"), facts.get("cwd"), facts.get("command")
    if host is not None and host != socket.gethostname():
        yield f"it ran on {host!r}, and this is {socket.gethostname()!r}."
    if isinstance(cwd, str) and not os.path.isdir(cwd):
        yield f"its folder {cwd} is not here."
        return
    if isinstance(command, list) and command and shutil.which(str(command[0])) is None:
        yield f"its Python {command[0]} is not here; this one is {sys.executable}."
    git = facts.get("git")
    now = describe_git(Path(cwd))[0] if isinstance(git, Mapping) and isinstance(cwd, str) else None
    if now is None or not isinstance(git, Mapping):
        return
    if now["commit"] != git.get("commit"):
        yield f"its code was at {str(git.get('commit'))[:10]} and is at {now['commit'][:10]} now."
    elif now["dirty"] != git.get("dirty"):
        word = "has uncommitted changes now" if now["dirty"] else "had uncommitted changes then"
        yield f"its code {word}."
