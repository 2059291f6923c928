"""What makes a folder of files a checkpoint: its manifest. Needs no torch.

checkpoints/
  latest  best            texts that name a checkpoint: ``step-1000``
  step-1000/
    model.safetensors  shared.safetensors  rank-0000.safetensors …  loss.svg
    manifest.json         what, when, of which run, and the SHA-256 of every file; written last
"""

from __future__ import annotations

import hashlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from epochal.atomic_file import replaced_file
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal.layout import read_json, write_json

Kind = Literal["rolling", "epoch", "emergency"]
Mode = Literal["min", "max"]
Pointer = Literal["latest", "best"]

FOLDER = "checkpoints"
MANIFEST = "manifest.json"
VERSION = 1
_FORMAT = "epochal-checkpoint"
_STEP_NAME = re.compile(r"step-(0|[1-9][0-9]{0,17})")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9]+)*")
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class FileFacts:
    """A file of a checkpoint, as it was written."""

    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Best:
    """The best value of the metric so far, and the step that had it."""

    step: int
    metric: float


@dataclass(frozen=True, slots=True)
class Manifest:
    """A checkpoint, without its contents; `step` is the last step that is in it."""

    step: int
    kind: Kind
    saved: float
    files: Mapping[str, FileFacts]
    world_size: int = 1
    epoch: float | None = None
    metric: float | None = None
    mode: Mode = "min"
    best: Best | None = None
    run_id: str | None = None
    attempt: int | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    external: Mapping[str, str] = field(default_factory=dict)
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


def step_of(name: str) -> int | None:
    """The step that a folder's name stands for; None for a folder that is not ours."""
    match = _STEP_NAME.fullmatch(name)
    return None if match is None else int(match[1])


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Make a folder a checkpoint."""
    body = {"format": _FORMAT, "version": VERSION, **asdict(manifest)}
    write_json(folder / MANIFEST, body)


def read_manifest(folder: Path) -> Manifest:
    """What a checkpoint says of itself; a damaged manifest is a `FormatError`."""
    path = folder / MANIFEST
    body = read_json(path)
    if body.pop("format", None) != _FORMAT:
        raise FormatError(f"{path} is not the manifest of a checkpoint.")
    version = body.pop("version", None)
    if version != VERSION:
        raise FormatError(f"{path} has version {version!r}; this Epochal reads version {VERSION}.")
    try:
        return _checked(body)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"{path} is damaged: {error}.") from error


def list_manifests(folder: Path) -> list[Manifest]:
    """Every checkpoint in a folder, by step; folders without a manifest do not exist."""
    return [manifest for _, manifest in scan(folder) if isinstance(manifest, Manifest)]


def scan(folder: Path) -> list[tuple[str, Manifest | FormatError]]:
    """Every folder with a manifest, by step: what it says, or why it cannot be read."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found: list[tuple[str, Manifest | FormatError]] = []
    steps = sorted((step, name) for name in names if (step := step_of(name)) is not None)
    for _, name in steps:
        try:
            found.append((name, read_manifest(folder / name)))
        except FileNotFoundError:
            continue
        except FormatError as error:
            found.append((name, error))
    return found


def problem_of(folder: Path, manifest: Manifest, *, thorough: bool = False) -> str | None:
    """Why a checkpoint cannot be used; None when it can. `thorough` reads every byte."""
    for name, facts in manifest.files.items():
        try:
            size = (folder / name).stat().st_size
            if size != facts.bytes:
                return f"{name} has {size} bytes instead of {facts.bytes}"
            if thorough and sha256_of(folder / name) != facts.sha256:
                return f"{name} does not fit its checksum"
        except FileNotFoundError:
            return f"{name} is missing"
    return None


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file's contents."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def point(folder: Path, pointer: Pointer, manifest: Manifest) -> None:
    """Have `latest` or `best` name a checkpoint."""
    with replaced_file(folder / pointer) as temporary:
        temporary.write_text(f"{manifest.name}\n", encoding="ascii")


def pointed(folder: Path, pointer: Pointer) -> str | None:
    """The name that `latest` or `best` holds; None when there is none, or it is no such name."""
    try:
        name = (folder / pointer).read_text(encoding="ascii", errors="replace").strip()
    except FileNotFoundError:
        return None
    return name if step_of(name) is not None else None


def best_of(manifests: list[Manifest], mode: Mode) -> Manifest | None:
    """The checkpoint with the best metric; of equal ones the earliest."""
    sign = 1.0 if mode == "min" else -1.0
    measured = [
        (sign * m.metric, m.step, m)
        for m in manifests
        if m.metric is not None and math.isfinite(m.metric)
    ]
    return min(measured, key=lambda item: item[:2])[2] if measured else None


def find(folder: Path, which: Pointer | int | str) -> Path:
    """The folder of one checkpoint: `latest`, `best`, a step, or a name like ``step-1000``."""
    manifests = list_manifests(folder)
    if which in get_args(Pointer):
        name = pointed(folder, cast(Pointer, which))
        if name is None and which == "latest" and manifests:
            name = manifests[-1].name
    else:
        name = which = step_name(which) if isinstance(which, int) else which
    if name in {manifest.name for manifest in manifests}:
        return folder / str(name)
    listed = ", ".join(manifest.name for manifest in manifests[-8:]) or "none"
    wanted = f"{which}, which names {name}," if name not in (None, which) else f"{which}"
    raise CheckpointNotFoundError(f"{folder} has no checkpoint {wanted}; there are: {listed}.")


class CheckpointNotFoundError(EpochalError, LookupError):
    """A checkpoint asked for by name or step does not exist."""


def _checked(body: dict[str, Any]) -> Manifest:
    files = {
        name: FileFacts(int(f["bytes"]), str(f["sha256"])) for name, f in body["files"].items()
    }
    for name in files:
        if not _FILE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of a file in it")
    best = body.get("best")
    manifest = Manifest(
        **{
            **body,
            "files": files,
            "best": None if best is None else Best(int(best["step"]), float(best["metric"])),
        }
    )
    step_name(manifest.step)
    if manifest.kind not in get_args(Kind) or manifest.mode not in get_args(Mode):
        raise ValueError(f"{manifest.kind!r} or {manifest.mode!r} is unknown")
    if type(manifest.world_size) is not int or manifest.world_size < 1:
        raise ValueError(f"world_size is {manifest.world_size!r}")
    return manifest
