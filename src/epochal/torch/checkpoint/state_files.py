"""The files of one checkpoint: taken from a training, written, put in their place, read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from epochal.atomic_file import sync_folder
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import read_json, write_json
from epochal.journal.process import liveness, process_identity
from epochal.torch.checkpoint.file import Content, open_checkpoint, write_checkpoint
from epochal.torch.checkpoint.loss_picture import LossHistory, draw_losses
from epochal.torch.checkpoint.manifest import (
    Best,
    FileFacts,
    Manifest,
    best_of,
    list_manifests,
    point,
    problem_of,
    sha256_of,
    write_manifest,
)
from epochal.torch.checkpoint.model_file import content_of
from epochal.torch.checkpoint.state_tree import packed, unpacked
from epochal.torch.checkpoint.training_state import TrainingState
from epochal.torch.host_copy import HostCopy, copied_to_host

MODEL = "model.safetensors"
SHARED = "shared.safetensors"
PICTURE = "loss.svg"
_WRITER = ".writer.json"


@dataclass(frozen=True, slots=True)
class StateFiles:
    """What one rank writes; with `copied` it is apart from the training already."""

    contents: Mapping[str, Content]
    copies: Mapping[str, HostCopy]
    picture: str | None = None

    @classmethod
    def of(
        cls, state: TrainingState, *, rank: int, losses: LossHistory | None, copied: bool
    ) -> StateFiles:
        """Take a rank's part of a training: what all have in common is rank 0's to write."""
        contents = {rank_file(rank): _tree_content(state.own_state(), name="rank")}
        picture = None
        if rank == 0:
            shared = state.shared_state()
            if losses is not None and losses.buckets():
                shared["losses"] = losses.state_dict()
                picture = draw_losses(losses.buckets(), title="loss")
            contents[MODEL] = content_of(state.model, None, "auto")
            contents[SHARED] = _tree_content(shared, name="state")
        if not copied:
            return cls(contents, {}, picture)
        copies = {name: copied_to_host(_own(content)) for name, content in contents.items()}
        bare = {name: replace(content, tensors={}) for name, content in contents.items()}
        return cls(bare, copies, picture)

    def write(self, folder: Path) -> dict[str, FileFacts]:
        """Write the files and tell what they are."""
        facts = {}
        for name, content in self.contents.items():
            copy = self.copies.get(name)
            whole = content if copy is None else replace(content, tensors=copy.ready())
            written = write_checkpoint(folder / name, whole)
            facts[name] = FileFacts(written.size_bytes, written.sha256)
        if self.picture is not None:
            path = folder / PICTURE
            path.write_text(self.picture, encoding="utf-8")
            facts[PICTURE] = FileFacts(path.stat().st_size, sha256_of(path))
        return facts


def rank_file(rank: int) -> str:
    """The file of what one rank has for itself."""
    return f"rank-{rank:04d}.safetensors"


def prepare(final: Path, *, overwrite: bool) -> Path:
    """Make the folder that becomes a checkpoint when all of it is written."""
    if final.exists() and not overwrite:
        raise UsageError(f"{final} exists already: pass overwrite=True to replace it.")
    temporary = final.with_name(f".{final.name}.{os.getpid()}.tmp")
    temporary.parent.mkdir(parents=True, exist_ok=True)
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
    whole = replace(
        manifest,
        files=dict(sorted(files.items())),
        best=None if best is None or best.metric is None else Best(best.step, best.metric),
    )
    problem = problem_of(temporary, whole)
    if problem is not None:
        raise FormatError(f"{final} was not written whole: {problem}.")
    write_manifest(temporary, whole)
    sync_folder(temporary)
    _put_in_place(temporary, final)
    (final / _WRITER).unlink()
    point(folder, "latest", whole)
    if best is not None:
        point(folder, "best", best)
    sync_folder(folder)
    return whole


def verify(path: Path, manifest: Manifest, names: Sequence[str]) -> None:
    """Compare files with their checksums, every byte."""
    absent = [name for name in names if name not in manifest.files]
    only = {name: facts for name, facts in manifest.files.items() if name in names}
    problem = f"it has no {absent[0]}" if absent else None
    problem = problem or problem_of(path, replace(manifest, files=only), thorough=True)
    if problem is not None:
        others = [m.name for m in list_manifests(path.parent) if m.step != manifest.step]
        hint = f" Others in this folder: {', '.join(others[-3:])}." if others else ""
        raise FormatError(f"{path} is damaged: {problem}.{hint}")


def read_tree(path: Path) -> Any:
    """The state in a file whose checksum was compared already."""
    with open_checkpoint(path, verify=False) as reader:
        entries = list(reader.read(lambda entry: True))
        if reader.tree is None:
            raise FormatError(f"{path} holds no state.")
        tensors = {entry.name: tensor for entry, tensor in entries if tensor is not None}
        return unpacked(reader.tree, tensors, label=str(path))


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
    shutil.rmtree(old)


def _own(content: Content) -> dict[str, Any]:
    return {name: t for name, t in content.tensors.items() if name not in content.shared}


def _tree_content(value: Any, *, name: str) -> Content:
    tree, tensors = packed(value, name=name)
    return Content(tensors, {}, None, tree)
