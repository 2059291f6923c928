"""Finds the checkpoint that a training continues from."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal import UsageError
from epochal.format import format_bytes, format_duration, format_number
from epochal.journal.layout import slugify
from epochal.settings import read_settings
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    MANIFEST,
    MODEL,
    Manifest,
    find,
    list_manifests,
    pointed,
    read_manifest,
)
from flags import Command, Flags

# Each checkpoint stores the name of its run, and the flags with which `epochal resume` continues.
RUN_NAME, RESUME_WITH = "run_name", "resume_with"
_OF_WEIGHTS = ("vocab_size", "context_length", "num_layers", "embd_size", "num_heads", "tokenizer")
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
    is_path = command.resume not in (None, *_WORDS)
    if name is None or is_path or (command.resume is None and settings.resume == "never"):
        return command
    given = {**command.given, "run_name": name}
    return Command(
        given, command.preset, command.resume or "auto", command.list_checkpoints, command.estimate
    )


def find_origin(resume: str, flags: Flags) -> Origin | None:
    """Return the checkpoint that ``--resume`` names; None if ``auto`` finds none.

    ``auto`` is the newest checkpoint of the run of that name. ``latest`` and ``best`` are of that
    run too, or of the newest run if no run has that name. Anything else is a path.
    """
    if resume not in _WORDS:
        return origin_at(Path(resume), flag="--resume")
    if resume == "auto" and flags.run_name is None:
        raise UsageError("--resume auto needs --run_name, the name of the run to continue.")
    folders = [folder for folder in checkpoint_folders(flags) if list_manifests(folder)]
    named = [folder for folder in folders if _run_name(folder) == flags.run_name]
    if not named and _project(flags).joinpath(slugify(flags.run_name or "?")).exists():
        folders = []  # the run exists, but it has no checkpoint yet
    folders = named if named or resume == "auto" else folders
    if resume == "best":
        with_best = [folder for folder in folders if pointed(folder, "best") is not None]
        if folders and not with_best:
            raise UsageError("No checkpoint has a validation loss yet. Use latest or a path.")
        folders = with_best
    origins = [
        Origin(folder, read_manifest(find(folder, "best" if resume == "best" else "latest")))
        for folder in folders
    ]
    if not origins and resume != "auto":
        raise UsageError(
            f"--resume {resume}: there is no checkpoint yet. Start without --resume, or use "
            "--resume auto with --run_name."
        )
    return max(origins, key=lambda origin: origin.manifest.saved, default=None)


def origin_at(path: Path, *, flag: str) -> Origin:
    """Return the checkpoint at a path, or the newest one of the run or folder at that path."""
    if (path / MANIFEST).is_file():
        return Origin(path.parent, read_manifest(path))
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    if not list_manifests(folder):
        raise UsageError(f"{flag} {path} is not a checkpoint. List them with --list_checkpoints.")
    return Origin(folder, read_manifest(find(folder, "latest")))


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
        yield f"{_run_name(folder)}: {len(manifests)} checkpoints, {format_bytes(total)}"
        pointers = {name: pointed(folder, name) for name in ("latest", "best")}
        for m in manifests:
            loss = "–" if m.metric is None else format_number(m.metric)
            marks = ", ".join(name for name, target in pointers.items() if target == m.name)
            age = format_duration(max(0.0, time.time() - m.saved))
            line = f"  {m.name:<12} {m.kind:<9} val loss {loss:<8} {format_bytes(m.size_bytes):>10}"
            yield f"{line}  {age} ago  {folder / m.name}  {marks}".rstrip()


def initial_weights(path: Path) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """Return the file that ``--init_from`` names, the flags that its sizes need, and its origin.

    The path is a file, a checkpoint, or a run with checkpoints. A bare file has no sizes.
    """
    if path.is_file():
        return path, {}, {"checkpoint": str(path.absolute()), "weights_only": True}
    origin = origin_at(path, flag="--init_from")
    config = origin.manifest.config
    sizes = {name: config[name] for name in _OF_WEIGHTS if name in config}
    return origin.path / MODEL, sizes, {**origin.facts(), "weights_only": True}


def _project(flags: Flags) -> Path:
    return Path(flags.dir or read_settings().dir) / slugify(flags.project)


def _run_name(folder: Path) -> str:
    return Origin(folder, list_manifests(folder)[-1]).run_name
