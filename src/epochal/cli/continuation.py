"""The command that continues a run: its folder, variables and checkpoint."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.cli.checkpoint_places import newest_checkpoint, places_of
from epochal.cli.command import flag_name, options_of
from epochal.errors import EpochalError
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
RESUME_WITH = "resume_with"
_RESUME = "resume"
_NO_CHECKPOINT = (
    "it has no checkpoint in {}: unless the program saves its own, training starts with new"
    " weights."
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
    environment: Mapping[str, str]
    cwd: str | None
    checkpoint: Path | None
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
    command = _command_of(facts, name)
    checkpoint, manifest, remarks = _checkpoint_of(view)
    given = [*more, *_resume_arguments(view.config, manifest, more, checkpoint)]
    launched, launch_remarks = _launched(_with_arguments(command, given), view)
    if is_redacted(launched):
        launch_remarks = [*launch_remarks, _REDACTED]
    cwd = facts.get("cwd")
    return Continuation(
        command=tuple(launched),
        environment=environment_of(view),
        cwd=cwd if isinstance(cwd, str) else None,
        checkpoint=checkpoint,
        next_step=None if manifest is None else manifest.step + 1,
        drift=_drift(view, manifest, more),
        remarks=(*remarks, *launch_remarks, *_changed(facts)),
    )


def is_redacted(command: Sequence[str]) -> bool:
    """Whether a recorded command lacks what it cannot be run without."""
    return any(REDACTED in word for word in command)


def restarted(command: Sequence[str], view: LocalRun) -> tuple[list[str], str]:
    """A command that continues from a run's last checkpoint, and a remark about it."""
    checkpoint, manifest, _ = _checkpoint_of(view)
    more = _resume_arguments(view.config, manifest, (), checkpoint)
    if manifest is None:
        return list(command), "it is started again, without a checkpoint"
    return _with_arguments(command, more), f"it continues at step {manifest.step + 1}"


def _command_of(facts: Mapping[str, Any], name: str) -> list[str]:
    command = facts.get("command")
    if not isinstance(command, list) or len(command) < 2:
        raise EpochalError(f"{name} does not record which command started it.")
    words = [str(word) for word in command]
    if any(Path(word).stem in _NOTEBOOKS for word in words[1:4]):
        raise EpochalError(
            f"{name} was started in a notebook: run its cells again with"
            " epochal.init(..., resume='must')."
        )
    return words


def _checkpoint_of(view: LocalRun) -> tuple[Path | None, Manifest | None, list[str]]:
    found = newest_checkpoint(view)
    if found is None:
        places = " or ".join(str(place) for place in places_of(view))
        return None, None, [_NO_CHECKPOINT.format(places)]
    path, manifest = found
    problem = problem_of(path, manifest)
    remarks = [] if problem is None else [f"{path.name} is damaged: {problem}."]
    reached = view.info.step
    if reached is not None and reached > manifest.step:
        again = reached - manifest.step
        remarks.append(f"{again} {'step is' if again == 1 else 'steps are'} run again.")
    return path, manifest, remarks


def _resume_arguments(
    config: Mapping[str, Any], manifest: Manifest | None, more: Sequence[str], path: Path | None
) -> list[str]:
    """What a program has to be told that does not go on by itself.

    Its checkpoint says so (``external={"resume_with": "--resume {checkpoint}"}``), or it has a
    setting of the name ``resume``.
    """
    if manifest is None or path is None:
        return []
    # The program starts in a folder of its own.
    where = str(path.absolute())
    resume_with = manifest.external.get(RESUME_WITH)
    if resume_with is not None:
        words = [word.replace("{checkpoint}", where) for word in shlex.split(resume_with)]
    elif isinstance(config.get(_RESUME), bool):
        words = [f"--{_RESUME}"]
    elif _RESUME in config:
        words = [f"--{_RESUME}", where]
    else:
        words = []
    given = {flag_name(word) for word in more if word.startswith("--")}
    return [] if given & {flag_name(word) for word in words[:1]} else words


def _with_arguments(command: Sequence[str], more: Sequence[str]) -> list[str]:
    """The command with existing options replaced, and new ones at its end."""
    replaced = {flag_name(word) for word in more if word.startswith("--")}
    kept: list[str] = []
    is_replaced = False
    for word in command:
        if word.startswith("-") and not _is_number(word):
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
    launch, program = str(facts.get("launch_id") or ""), _program(command)
    here = sum(p.get("host") == facts.get("host") for p in processes_of(view))
    if launch.startswith("elastic-"):
        nodes = -(-world // max(here, 1))
        more = [] if nodes == 1 else [f"--nnodes={nodes}"]
        remark = [] if nodes == 1 else [f"it ran on {nodes} machines: start it on each of them."]
        launcher = [command[0], "-m", "torch.distributed.run", f"--nproc-per-node={max(here, 1)}"]
        return [*launcher, *more, *program], remark
    if launch.startswith("slurm-"):
        remark = [f"it had {world} processes of a Slurm job: start it inside an allocation."]
        return ["srun", f"--ntasks={world}", *command], remark
    return list(command), [
        f"it had {world} processes; their launcher is not known, so this starts one of them."
    ]


def _program(command: Sequence[str]) -> list[str]:
    """The command without the interpreter and its options: a script or ``-m module``, arguments."""
    words = list(command[1:])
    while words and words[0].startswith("-") and words[0] != "-m":
        del words[: 2 if words[0] in _WITH_VALUE else 1]
    return words


def environment_of(view: LocalRun) -> dict[str, str]:
    """The variables that make ``init`` go on with a run."""
    facts = view.facts
    project, name = str(facts.get("project")), str(facts.get("name"))
    variables = {"EPOCHAL_PROJECT": project, "EPOCHAL_NAME": name, "EPOCHAL_RESUME": "must"}
    if view.path.parent.name == slugify(project):
        variables = {"EPOCHAL_DIR": str(view.path.parent.parent.absolute()), **variables}
    return variables


def _drift(view: LocalRun, manifest: Manifest | None, more: Sequence[str]) -> tuple[Drift, ...]:
    """What the command would change, and what changed since the checkpoint was saved."""
    saved = dict(manifest.config) if manifest is not None and manifest.config else None
    now = dict(view.config)
    since = config_drift(saved, now) if saved is not None else ()
    asked = _overrides(dict(flat_items(now)), more)
    named = {drift.name for drift in asked}
    return (*asked, *(drift for drift in since if drift.name not in named))


def _overrides(config: Mapping[str, Any], more: Sequence[str]) -> list[Drift]:
    found: list[Drift] = []
    for flag, values in options_of(more):
        text = " ".join(values) or "true"
        name = next((k for k in config if k == flag or k.rpartition(".")[2] == flag), flag)
        if name == _RESUME:
            continue
        before = config.get(name, ABSENT)
        now = _like(before, text)
        if now != before:
            found.append(Drift(name, before, now))
    return found


def _like(before: Any, text: str) -> Any:
    """A text as a value of the kind that was there."""
    if isinstance(before, bool):
        return text.lower() in ("1", "true", "yes", "on")
    if isinstance(before, (int, float)):
        try:
            number = float(text)
        except ValueError:
            return text
        return int(number) if number.is_integer() and isinstance(before, int) else number
    return text


def _changed(facts: Mapping[str, Any]) -> list[str]:
    """The differences since the run was started."""
    remarks = []
    host, cwd, command = facts.get("host"), facts.get("cwd"), facts.get("command")
    if host is not None and host != socket.gethostname():
        remarks.append(f"it ran on {host!r}, and this is {socket.gethostname()!r}.")
    if isinstance(cwd, str) and not os.path.isdir(cwd):
        remarks.append(f"its folder {cwd} is not here.")
        return remarks
    if isinstance(command, list) and command and shutil.which(str(command[0])) is None:
        remarks.append(f"its Python {command[0]} is not here; this one is {sys.executable}.")
    git = facts.get("git")
    if isinstance(git, Mapping) and isinstance(cwd, str):
        now, _ = describe_git(Path(cwd))
        if now is not None and now["commit"] != git.get("commit"):
            was, now_at = str(git.get("commit"))[:10], now["commit"][:10]
            remarks.append(f"its code was at {was} and is at {now_at} now.")
        elif now is not None and now["dirty"] != git.get("dirty"):
            word = "has uncommitted changes now" if now["dirty"] else "had uncommitted changes then"
            remarks.append(f"its code {word}.")
    return remarks


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
