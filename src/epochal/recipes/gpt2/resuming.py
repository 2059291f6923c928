"""Which checkpoint a training goes on from, and whether that makes it the same run or a new one."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_bytes, format_duration, format_number
from epochal.journal.layout import read_json, run_folders, slugify
from epochal.recipes.gpt2.flags import Asked, Flags, as_words
from epochal.settings import read_settings
from epochal.torch.checkpoint.manifest import (
    FOLDER,
    MANIFEST,
    Manifest,
    find,
    list_manifests,
    pointed,
    read_manifest,
)
from epochal.torch.checkpoint.state_files import MODEL

# Under these names a checkpoint keeps whose it is, and which flags go on from it.
RUN_NAME = "run_name"
RESUME_WITH = "resume_with"
# Under these names a run's configuration says where it began, and that it took weights alone.
FORKED_FROM, WEIGHTS_ONLY = "forked_from", "weights_only"
_OF_WEIGHTS = ("vocab_size", "context_length", "num_layers", "embd_size", "num_heads", "tokenizer")
_WORDS = ("auto", "latest", "best")


@dataclass(frozen=True, slots=True)
class Origin:
    """The checkpoint a training goes on from."""

    folder: Path
    manifest: Manifest

    @property
    def run_name(self) -> str:
        """The name of the run it is of."""
        return self.manifest.external.get(RUN_NAME, self.folder.name)

    @property
    def next_step(self) -> int:
        """The first step that is not in it."""
        return self.manifest.step + 1

    @property
    def home(self) -> Path | None:
        """The project's folder of the run it is of; None when checkpoints lie elsewhere."""
        run_folder = self.folder.absolute().parent
        return run_folder.parent if (run_folder / "run.json").is_file() else None

    def facts(self) -> dict[str, Any]:
        """Where a run was forked, for that run's configuration."""
        return {
            "run": self.run_name,
            "run_id": self.manifest.run_id,
            "step": self.manifest.step,
            "checkpoint": str((self.folder / self.manifest.name).absolute()),
        }


def with_environment(asked: Asked) -> Asked:
    """The command with the run name and the resume mode of the environment, if they are set."""
    settings, given = read_settings(), dict(asked.given)
    name = given.get("run_name") or settings.name
    is_path = asked.resume not in (None, *_WORDS)
    if name is None or is_path or (asked.resume is None and settings.resume == "never"):
        return asked
    return replace(asked, given={**given, "run_name": name}, resume=asked.resume or "auto")


def find_origin(resume: str, flags: Flags) -> Origin | None:
    """The checkpoint that is meant; None when ``auto`` finds none and the training begins.

    ``auto`` is the newest of the run of that name, if there is one. ``latest`` and ``best`` are
    that run's too, but the newest of all runs where no run has that name. Else it is a path.
    Raises UsageError for a checkpoint that does not exist.
    """
    if resume not in _WORDS:
        return _at_path(Path(resume), flag="--resume")
    if resume == "auto" and flags.run_name is None:
        raise UsageError("--resume auto needs --run_name: the run to go on with, if there is one.")
    folders = [folder for folder in checkpoint_folders(flags) if list_manifests(folder)]
    begun = begun_config(flags)
    if resume == "auto" or begun is not None:
        folders = [f for f in folders if flags.run_name == _run_name(f)]
    pointer = "best" if resume == "best" else "latest"
    candidates = [_pointed(folder, pointer) for folder in folders]
    known = [origin for origin in candidates if origin is not None]
    if known:
        return max(known, key=lambda origin: origin.manifest.saved)
    if folders:
        raise UsageError("--resume best: no checkpoint has a metric yet; use latest or a path.")
    _check_begins(resume, flags, begun)
    return None


def _check_begins(resume: str, flags: Flags, begun: Mapping[str, Any] | None) -> None:
    """Refuse to begin at step 0 what was to be gone on with, unless that is what ``auto`` means."""
    source = (begun or {}).get(FORKED_FROM) or {}
    if source and WEIGHTS_ONLY not in source:
        raise UsageError(
            f"run {flags.run_name!r} has no checkpoint yet and began after step {source['step']} "
            f"of run {source['run']!r}: begin it anew, under another --run_name, with "
            f"--resume {source['checkpoint']}."
        )
    if resume == "auto":
        return
    if begun is None:
        raise UsageError(f"--resume {resume}: there is no checkpoint yet; begin without --resume.")
    words = as_words(begun)
    again = f" with its flags: {shlex.join(words)}," if words else ","
    raise UsageError(
        f"run {flags.run_name!r} has no checkpoint yet; begin it again{again} or use --resume auto."
    )


def begun_config(flags: Flags) -> dict[str, Any] | None:
    """The configuration of the run of that name; None when it was not begun before."""
    for run in run_folders(_project(flags)) if flags.run_name is not None else ():
        if run.identity.exists():
            identity = read_json(run.identity)
            if identity.get("name") == flags.run_name:
                config = dict(identity.get("config") or {})
                source = config.get(FORKED_FROM) or {}
                weights = source["checkpoint"] if WEIGHTS_ONLY in source else None
                return {**config, "init_from": weights}
    return None


def _project(flags: Flags) -> Path:
    return Path(flags.dir or read_settings().dir) / slugify(flags.project)


def checkpoint_folders(flags: Flags) -> list[Path]:
    """Every folder that may hold the checkpoints of a run."""
    if flags.checkpoint_dir is not None:
        root = Path(flags.checkpoint_dir)
        return sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return sorted(path for path in _project(flags).glob(f"*/{FOLDER}") if path.is_dir())


def describe_checkpoints(flags: Flags) -> Iterator[str]:
    """One line for every checkpoint of every run, oldest run first."""
    for folder in checkpoint_folders(flags):
        latest, best = (pointed(folder, pointer) for pointer in ("latest", "best"))
        manifests = list_manifests(folder)
        if manifests:
            total = sum(manifest.size_bytes for manifest in manifests)
            yield f"{_run_name(folder)}: {len(manifests)} checkpoints, {format_bytes(total)}"
        for m in manifests:
            loss = UNKNOWN if m.metric is None else format_number(m.metric)
            marks = [name for name, at in (("latest", latest), ("best", best)) if at == m.name]
            age = format_duration(max(0.0, time.time() - m.saved))
            yield (
                f"  {m.name:<12} {m.kind:<9} val loss {loss:<8} {format_bytes(m.size_bytes):>10}"
                f"  {age} ago  {folder / m.name}{'  ' if marks else ''}{', '.join(marks)}"
            )


@dataclass(frozen=True, slots=True)
class Borrowed:
    """Weights to begin with: their file, the flags they need, and where they are from."""

    file: Path
    flags: dict[str, Any]
    facts: dict[str, Any]


def borrowed_weights(path: Path) -> Borrowed:
    """The weights of a file, a checkpoint, or a run's newest checkpoint; a bare file has no sizes.

    Raises UsageError when there are none.
    """
    if path.is_file():
        return Borrowed(path, {}, {"checkpoint": str(path.absolute()), WEIGHTS_ONLY: True})
    origin = _at_path(path, flag="--init_from")
    config = origin.manifest.config
    sizes = {name: config[name] for name in _OF_WEIGHTS if name in config}
    facts = {**origin.facts(), WEIGHTS_ONLY: True}
    return Borrowed(origin.folder / origin.manifest.name / MODEL, sizes, facts)


def _at_path(path: Path, *, flag: str) -> Origin:
    if (path / MANIFEST).is_file():
        return Origin(path.parent, read_manifest(path))
    folder = path / FOLDER if (path / FOLDER).is_dir() else path
    if not list_manifests(folder):
        raise UsageError(
            f"{flag} {path} is no checkpoint: --list_checkpoints shows those there are."
        )
    return Origin(folder, read_manifest(find(folder, "latest")))


def _pointed(folder: Path, pointer: str) -> Origin | None:
    if pointer == "best" and pointed(folder, "best") is None:
        return None
    return Origin(folder, read_manifest(find(folder, pointer)))


def _run_name(folder: Path) -> str:
    return Origin(folder, list_manifests(folder)[-1]).run_name
