"""Finds the checkpoint that a training continues from."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from epochal import UsageError, console
from epochal.journal.layout import slugify
from epochal.records.format import format_bytes, format_duration, format_number
from epochal.settings import read_launch, read_settings
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    MANIFEST,
    MODEL,
    Manifest,
    find,
    list_manifests,
    pointed,
    problem_of,
    read_manifest,
)
from flags import PRESETS, Command, Flags

# Each checkpoint stores the name of its run, and the flags with which `epochal resume` continues.
RUN_NAME, RESUME_WITH = "run_name", "resume_with"
_OF_WEIGHTS = ("vocab_size", "context_length", "num_layers", "embd_size", "num_heads", "tokenizer")
_PLAN = (*_OF_WEIGHTS, "data", "finetune")
_WORDS = ("auto", "latest", "best")


@dataclass(frozen=True)
class Origin:
    """A checkpoint to continue from."""

    folder: Path
    manifest: Manifest

    @property
    def path(self) -> Path:
        return self.folder / self.manifest.name

    @property
    def run_name(self) -> str:
        return self.manifest.external.get(RUN_NAME, self.folder.name)

    @property
    def next_step(self) -> int:
        return self.manifest.step + 1

    @property
    def project_folder(self) -> Path | None:
        """The folder of the project; None if the checkpoints are outside the run's folder."""
        run_folder = self.folder.absolute().parent
        return run_folder.parent if (run_folder / "run.json").is_file() else None

    def best(self) -> Origin | None:
        """Return the best checkpoint of the same run."""
        has_best = pointed(self.folder, "best") is not None
        return Origin(self.folder, read_manifest(find(self.folder, "best"))) if has_best else None

    def fits(self, command: Command) -> bool:
        """Return True if the sizes and the data that a command gives are those of this training."""
        wanted = {**PRESETS.get(command.preset or "", {}), **command.given}
        saved = self.manifest.config
        return all(str(wanted[name]) == str(saved.get(name)) for name in _PLAN if name in wanted)

    def facts(self) -> dict[str, Any]:
        """Describe the origin, for the configuration of a run that starts from it."""
        return {
            "run": self.run_name,
            "run_id": self.manifest.run_id,
            "step": self.manifest.step,
            "checkpoint": str(self.path.absolute()),
        }


def with_environment(command: Command) -> Command:
    """Apply the run name and the resume mode that `epochal run` and `epochal resume` set."""
    settings = read_settings()
    name = command.given.get("run_name") or settings.name
    names_a_run = command.resume not in (None, *_WORDS)
    if name is None or names_a_run or (command.resume is None and settings.resume == "never"):
        return command
    given = {**command.given, "run_name": name}
    return replace(command, given=given, resume=command.resume or "auto")


def find_origin(command: Command, *, flag: str = "--resume") -> Origin | None:
    """Return the checkpoint that ``--resume`` names; None if ``auto`` finds none.

    ``auto`` is the newest checkpoint of the run ``--run_name``. ``latest`` and ``best`` are of that
    run too. If no run has that name, they are of the newest run of the project that was trained
    with the sizes and the data which the command gives. Anything else is a run or a path.
    """
    resume, flags = command.resume or "auto", command.flags()
    if resume not in _WORDS:
        return origin_of(resume, flags, flag=flag)
    if resume == "auto" and flags.run_name is None:
        raise UsageError("--resume auto needs --run_name, the name of the run to continue.")
    origins = [o for folder in checkpoint_folders(flags) if (o := newest_in(folder)) is not None]
    chosen = [origin for origin in origins if origin.run_name == flags.run_name]
    exists = _project(flags).joinpath(slugify(flags.run_name or "?")).exists()
    if not (chosen or exists or resume == "auto"):
        chosen = [origin for origin in origins if origin.fits(command)]
        if origins and not chosen:
            raise UsageError(
                f"{flag} {resume}: no run of the project {flags.project!r} has the sizes and the "
                f"data of this command. Name the one to continue, as in {flag} {_names(origins)}."
            )
    if resume == "best" and chosen:
        chosen = [best for origin in chosen if (best := origin.best()) is not None]
        if not chosen:
            raise UsageError("No checkpoint has a validation loss yet. Use latest or a run's name.")
    if not chosen and resume != "auto":
        raise UsageError(
            f"{flag} {resume}: there is no checkpoint yet in the project {flags.project!r}. To "
            "start a training, leave out --resume, or use --resume auto with --run_name."
        )
    return max(chosen, key=lambda origin: origin.manifest.saved, default=None)


def origin_of(which: str, flags: Flags, *, flag: str) -> Origin:
    """Return a checkpoint by its path, or the newest one of a run by name, project/name or path."""
    path = Path(which)
    if (path / MANIFEST).is_file():
        return Origin(path.parent, read_manifest(path))
    if which.count("/") == 1:
        flags = replace(flags, project=path.parent.name)
    origins = [o for folder in checkpoint_folders(flags) if (o := newest_in(folder)) is not None]
    found = newest_in(path / FOLDER) or newest_in(path)
    found = found or next((origin for origin in origins if origin.run_name == path.name), None)
    if found is None:
        there = f"these have checkpoints: {_names(origins)}" if origins else "there are none yet"
        raise UsageError(
            f"{flag} {which} is neither a run nor a checkpoint. In the project "
            f"{flags.project!r}, {there}."
        )
    return found


def newest_in(folder: Path) -> Origin | None:
    """Return the newest checkpoint in a folder that is not damaged; None if there is none."""
    for manifest in sorted(list_manifests(folder), key=lambda m: m.saved, reverse=True):
        problem = problem_of(folder / manifest.name, manifest)
        if problem is None:
            return Origin(folder, manifest)
        if read_launch().rank == 0:
            console.msg(
                "%s", f"{folder / manifest.name} is left out because it is damaged: {problem}."
            )
    return None


def checkpoint_folders(flags: Flags) -> list[Path]:
    """Return every folder that may hold the checkpoints of a run."""
    if flags.checkpoint_dir is not None:
        return sorted(path for path in Path(flags.checkpoint_dir).glob("*") if path.is_dir())
    return sorted(_project(flags).glob(f"*/{FOLDER}"))


def describe_checkpoints(flags: Flags) -> Iterator[str]:
    """Yield one line for every checkpoint of every run."""
    for folder in checkpoint_folders(flags):
        manifests = list_manifests(folder)
        if not manifests:
            continue
        total = sum(manifest.size_bytes for manifest in manifests)
        name = Origin(folder, manifests[-1]).run_name
        yield f"{name}: {len(manifests)} checkpoints, {format_bytes(total)}"
        pointers = {name: pointed(folder, name) for name in ("latest", "best")}
        for m in manifests:
            loss = "–" if m.metric is None else format_number(m.metric)
            marks = ", ".join(name for name, target in pointers.items() if target == m.name)
            age = format_duration(max(0.0, time.time() - m.saved))
            line = f"  {m.name:<12} {m.kind:<9} val loss {loss:<8} {format_bytes(m.size_bytes):>10}"
            yield f"{line}  {age} ago  {folder / m.name}  {marks}".rstrip()


def initial_weights(flags: Flags) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Return the file that ``--init_from`` names, the flags that its sizes need, and its origin.

    It names a file, a checkpoint, or a run with checkpoints. A bare file has no sizes.
    """
    path = Path(flags.init_from or "")
    if path.is_file():
        return path, {}, {"checkpoint": str(path.absolute()), "weights_only": True}
    origin = origin_of(str(path), flags, flag="--init_from")
    config = origin.manifest.config
    sizes = {name: config[name] for name in _OF_WEIGHTS if name in config}
    return origin.path / MODEL, sizes, {**origin.facts(), "weights_only": True}


def _project(flags: Flags) -> Path:
    return Path(flags.dir or read_settings().dir) / slugify(flags.project)


def _names(origins: Sequence[Origin]) -> str:
    by_age = sorted(origins, key=lambda origin: origin.manifest.saved, reverse=True)
    *others, last = [origin.run_name for origin in by_age[:8]]
    return f"{', '.join(others)} or {last}" if others else last
