"""A folder of checkpoints: manifests, the pointers `latest` and `best`, retention. Needs no torch.

checkpoints/
  latest  best            texts that name a checkpoint: ``step-1000``
  step-1000/
    model.safetensors  shared.safetensors  rank-0000.safetensors …
    manifest.json         what, when, of which run, and the SHA-256 of every file; written last

A checkpoint appears under its name when its manifest is on the disk. Until then it is a folder
whose name starts with a dot.
"""

from __future__ import annotations

import hashlib
import math
import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

import msgspec

from epochal.base.atomic_file import make_folder, replaced_file, sync_folder
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal.layout import read_json, write_json
from epochal.journal.process import liveness, process_identity
from epochal.records.values import flat_items
from epochal.torch.checks import check_whole

Kind = Literal["rolling", "epoch", "emergency"]
Mode = Literal["min", "max"]
Pointer = Literal["latest", "best"]

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
MODEL = "model.safetensors"
ABSENT = "(absent)"
VERSION = 1
_FORMAT = "epochal-checkpoint"
_WRITER = ".writer.json"
_STEP_NAME = re.compile(r"step-(0|[1-9][0-9]{0,17})")
_CHUNK_BYTES = 1 << 20
# No separators and no leading dot: a manifest cannot name a file outside its folder.
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9]+)*$")]


class CheckpointNotFoundError(EpochalError, LookupError):
    """A checkpoint asked for by name or step does not exist."""


class FileFacts(msgspec.Struct, frozen=True):
    """A file of a checkpoint, as it was written."""

    bytes: int
    sha256: str


class Best(msgspec.Struct, frozen=True):
    """The best value of the metric so far, and the step that had it."""

    step: int
    metric: float


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint, without its contents; `step` is the last step that is in it."""

    step: Annotated[int, msgspec.Meta(ge=0, lt=10**18)]
    kind: Kind
    saved: float
    files: dict[FileName, FileFacts]
    world_size: Annotated[int, msgspec.Meta(ge=1)] = 1
    epoch: float | None = None
    metric: float | None = None
    mode: Mode = "min"
    best: Best | None = None
    run_id: str | None = None
    attempt: int | None = None
    config: dict[str, Any] = {}
    external: dict[str, str] = {}
    hash: str | None = None
    torch: str | None = None

    @property
    def size_bytes(self) -> int:
        """What all files take together."""
        return sum(facts.bytes for facts in self.files.values())

    @property
    def name(self) -> str:
        """The name of its folder."""
        return step_name(self.step)


def step_name(step: int) -> str:
    """The folder of the checkpoint after a step."""
    if type(step) is not int or not 0 <= step < 10**18:
        raise UsageError(f"step must be a whole number of at least 0, got {step!r}.")
    return f"step-{step}"


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder a checkpoint."""
    body = {"format": _FORMAT, "version": VERSION, **msgspec.to_builtins(manifest)}
    write_json(folder / MANIFEST, body)


def read_manifest(folder: Path) -> Manifest:
    """Read what a checkpoint says of itself; a damaged manifest is a `FormatError`."""
    path = folder / MANIFEST
    body = read_json(path)
    if body.get("format") != _FORMAT:
        raise FormatError(f"{path} is not the manifest of a checkpoint.")
    if body.get("version") != VERSION:
        raise FormatError(f"{path} has version {body.get('version')!r}, expected {VERSION}.")
    try:
        return msgspec.convert(body, Manifest)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path} is damaged: {error}.") from error


def list_manifests(folder: Path) -> list[Manifest]:
    """Every checkpoint in a folder, by step; folders without a manifest do not exist."""
    return [manifest for _, manifest in scan(folder) if isinstance(manifest, Manifest)]


def scan(folder: Path) -> list[tuple[str, Manifest | FormatError]]:
    """Every folder with a manifest, by step: what it says, or why it cannot be read."""
    try:
        names = [name for name in os.listdir(folder) if _STEP_NAME.fullmatch(name)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found: list[tuple[str, Manifest | FormatError]] = []
    for name in sorted(names, key=lambda name: int(name[len("step-") :])):
        try:
            found.append((name, read_manifest(folder / name)))
        except FileNotFoundError:
            continue
        except FormatError as error:
            found.append((name, error))
    return found


def find(folder: Path, which: Pointer | int | str) -> Path:
    """The folder of one checkpoint: `latest`, `best`, a step, or a name like ``step-1000``.

    Where `latest` is missing or names none, it is the checkpoint that was saved last. Raises
    `CheckpointNotFoundError`, or `FormatError` for a damaged manifest.
    """
    found = dict(scan(folder))
    name: str | None
    if which in get_args(Pointer):
        name = pointed(folder, cast(Pointer, which))
        if name is None and which == "latest":
            name = next((manifest.name for manifest in by_age(folder)), None)
    else:
        name = which = step_name(which) if isinstance(which, int) else which
    manifest = found.get(name or "")
    if isinstance(manifest, FormatError):
        raise FormatError(f"{folder / str(name)} is damaged: {manifest}") from manifest
    if manifest is not None:
        return folder / manifest.name
    wanted = f"{folder} has no checkpoint {which}"
    if name not in (None, which):
        wanted = f"{folder / str(which)} names {name}, which is no checkpoint here"
    listed = ", ".join(list(found)[-8:]) or "none"
    raise CheckpointNotFoundError(f"{wanted}; there are: {listed}.")


def by_age(folder: Path) -> list[Manifest]:
    """Every checkpoint whose manifest can be read, the one that was saved last first."""
    return sorted(list_manifests(folder), key=lambda m: (m.saved, m.step), reverse=True)


def pointed(folder: Path, pointer: Pointer) -> str | None:
    """The name that `latest` or `best` holds; None when there is none, or it is no such name."""
    try:
        name = (folder / pointer).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None
    return name if _STEP_NAME.fullmatch(name) else None


def best_of(manifests: list[Manifest], mode: Mode) -> Manifest | None:
    """The checkpoint with the best metric; of equal ones the earliest."""
    sign = 1.0 if mode == "min" else -1.0
    measured = [
        (sign * m.metric, m.step, m)
        for m in manifests
        if m.metric is not None and math.isfinite(m.metric)
    ]
    return min(measured, key=lambda item: item[:2])[2] if measured else None


def problem_of(folder: Path, manifest: Manifest, *, thorough: bool = False) -> str | None:
    """Why a checkpoint cannot be used; None when it can. `thorough` reads every byte."""
    for name, facts in manifest.files.items():
        try:
            size = (folder / name).stat().st_size
            if size != facts.bytes:
                return f"{name} has {size} bytes instead of {facts.bytes}"
            if thorough and facts_of(folder / name).sha256 != facts.sha256:
                return f"{name} does not fit its checksum"
        except FileNotFoundError:
            return f"{name} is missing"
    return None


def facts_of(path: Path) -> FileFacts:
    """The size and the SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileFacts(size, digest.hexdigest())


def verify(path: Path, manifest: Manifest, names: Sequence[str]) -> None:
    """Compare files with their checksums, every byte."""
    absent = [name for name in names if name not in manifest.files]
    only = {name: facts for name, facts in manifest.files.items() if name in names}
    problem = f"it has no {absent[0]}" if absent else None
    only_these = msgspec.structs.replace(manifest, files=only)
    problem = problem or problem_of(path, only_these, thorough=True)
    if problem is not None:
        others = [m.name for m in list_manifests(path.parent) if m.step != manifest.step]
        hint = f" Others in this folder: {', '.join(others[-3:])}." if others else ""
        raise FormatError(f"{path} is damaged: {problem}.{hint}")


def prepare(final: Path) -> Path:
    """Make the folder that becomes a checkpoint when all of it is written."""
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    make_folder(temporary.parent)
    if temporary.exists():
        shutil.rmtree(temporary)
    temporary.mkdir()
    write_json(temporary / _WRITER, process_identity())
    return temporary


def publish(
    temporary: Path, final: Path, manifest: Manifest, files: Mapping[str, FileFacts]
) -> Manifest:
    """Make a written folder a checkpoint, and have `latest` and `best` name what they should."""
    folder = final.parent
    others = [m for m in list_manifests(folder) if m.step != manifest.step]
    best = best_of([*others, manifest], manifest.mode)
    complete = msgspec.structs.replace(
        manifest,
        files=dict(sorted(files.items())),
        best=None if best is None or best.metric is None else Best(best.step, best.metric),
    )
    problem = problem_of(temporary, complete)
    if problem is not None:
        raise FormatError(f"{final} was not written completely: {problem}.")
    write_manifest(temporary, complete)
    sync_folder(temporary)
    _put_in_place(temporary, final)
    sync_folder(folder)
    (final / _WRITER).unlink()
    _point(folder, "latest", complete)
    if best is not None:
        _point(folder, "best", best)
    sync_folder(folder)
    return complete


def _point(folder: Path, pointer: Pointer, manifest: Manifest) -> None:
    with replaced_file(folder / pointer, durable=True) as temporary:
        temporary.write_text(f"{manifest.name}\n", encoding="ascii")


def _put_in_place(temporary: Path, final: Path) -> None:
    if not final.exists():
        os.rename(temporary, final)
        return
    old = final.with_name(f".{final.name}.old")
    if old.exists():
        shutil.rmtree(old)
    os.rename(final, old)
    try:
        os.rename(temporary, final)
    except OSError:
        os.rename(old, final)
        raise
    sync_folder(final.parent)
    shutil.rmtree(old)


def discard(path: Path) -> None:
    """Delete a checkpoint. It leaves the list as a whole, before the first of its files."""
    gone = path.with_name(f".{path.name}.gone")
    if gone.exists():
        shutil.rmtree(gone)
    os.rename(path, gone)
    shutil.rmtree(gone)


def sweep(folder: Path) -> None:
    """Clear away what writers that are dead left unfinished, and put back what they took away."""
    for path in folder.glob(".step-*"):
        if path.name.endswith(".gone"):
            shutil.rmtree(path)
        elif path.name.endswith(".old"):
            final = path.with_name(path.name[1:-4])
            if final.exists():
                shutil.rmtree(path)
            else:
                os.rename(path, final)
        elif path.name.endswith(".tmp") and _is_abandoned(path):
            shutil.rmtree(path)


def _is_abandoned(temporary: Path) -> bool:
    try:
        writer = read_json(temporary / _WRITER)
    except (FileNotFoundError, FormatError):
        return False  # just being made
    return liveness(writer) == "dead"


@dataclass(frozen=True, slots=True)
class Retention:
    """How many checkpoints of each kind stay; None keeps all.

    The latest and the best always stay. `every` keeps rolling ones permanently whose step, counted
    from 1, is a multiple of it.

    Args:
        rolling: Checkpoints that `every` saved.
        epoch: Checkpoints of epochs.
        emergency: Checkpoints that a signal saved.
        every: Keep rolling checkpoints permanently whose step, counted from 1, is a multiple of it.
    """

    rolling: int | None = 3
    epoch: int | None = None
    emergency: int | None = 2
    every: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("rolling", 0), ("epoch", 0), ("emergency", 0), ("every", 1)):
            if getattr(self, name) is not None:
                check_whole(getattr(self, name), name=name, least=least, hint=" or None")

    def superseded(self, manifests: Sequence[Manifest], *, keep: Iterable[str]) -> list[Manifest]:
        """Those that may go, by step; `keep` names ones that stay whatever their kind.

        Args:
            manifests: The checkpoints that exist.
            keep: Names of checkpoints that stay whatever their kind.
        """
        kept = set(keep)
        # By age and not by step: after going back, the steps that were given up are the old ones.
        oldest_first = sorted(manifests, key=lambda m: (m.saved, m.step))
        going = []
        for kind in get_args(Kind):
            limit = getattr(self, kind)
            of_kind = [m for m in oldest_first if m.kind == kind]
            if kind == "rolling" and self.every is not None:
                of_kind = [m for m in of_kind if (m.step + 1) % self.every]
            if limit is not None and limit < len(of_kind):
                going += of_kind[: len(of_kind) - limit]
        return sorted((m for m in going if m.name not in kept), key=lambda m: m.step)


@dataclass(frozen=True, slots=True)
class Drift:
    """One hyperparameter: what it was when the checkpoint was saved, and what it is now."""

    name: str
    saved: Any
    now: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.saved} → {self.now}"


def config_drift(saved: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Drift, ...]:
    """Every difference between two configurations, nested names with dots, in order of name."""
    before, after = _flat(saved), _flat(now)
    return tuple(
        Drift(name, before.get(name, ABSENT), after.get(name, ABSENT))
        for name in sorted(before.keys() | after.keys())
        if before.get(name, ABSENT) != after.get(name, ABSENT)
    )


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in flat_items(config)
    }
