"""Carries a checkpoint over to a model whose names have changed."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from epochal.torch.checkpoint.file import Content, Source, open_checkpoint, write_checkpoint
from epochal.torch.checkpoint.named_tensors import (
    Named,
    NamedTensors,
    chosen_hash,
    further_names,
    named_tensors,
    shared_names,
)
from epochal.torch.names import name_finder


@dataclass(frozen=True, slots=True)
class MigrateReport:
    """Where each tensor of a checkpoint went; all in stable order.

    `unchanged` kept name and shape; `remapped` are pairs of the old and the new name; `dropped`
    are in the file only, `missing` in the model only.
    """

    unchanged: tuple[str, ...]
    remapped: tuple[tuple[str, str], ...]
    dropped: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every tensor of the file and of the model found its counterpart."""
        return not self.dropped and not self.missing


def migrate_checkpoint(
    source: Source, destination: Source, named: Named, buffers: NamedTensors | None = None
) -> MigrateReport:
    """Write a checkpoint anew under a model's names, and say what became of each tensor.

    The same name and shape go together first, whichever spelling a graph's names have. What is left
    is paired in order by shape and dtype, which is a guess: read the report. Source and destination
    may be the same path.
    """
    with open_checkpoint(source) as reader:
        held = {entry.name: tensor for entry, tensor in reader.read(lambda entry: True)}
    targets = named_tensors(named, buffers)
    shared = shared_names(targets)
    own = {name: tensor for name, tensor in targets.items() if name not in shared}
    values = {name: tensor for name, tensor in held.items() if tensor is not None}
    unchanged = [n for n, t in own.items() if n in values and values[n].shape == t.shape]
    old = {name: tensor for name, tensor in values.items() if name not in unchanged}
    new = {name: tensor for name, tensor in own.items() if name not in unchanged}
    remapped = _respelled(old, new, further_names(named, own))
    for before, after in remapped:
        del old[before], new[after]
    remapped += _paired(old, new)
    origin = {**{name: name for name in unchanged}, **{new: old for old, new in remapped}}
    migrated = {name: values[origin[name]] for name in own if name in origin}
    kept_shared = {later: first for later, first in shared.items() if first in migrated}
    write_checkpoint(destination, Content(migrated, kept_shared, chosen_hash(named, "auto")))
    return MigrateReport(
        tuple(unchanged),
        tuple(remapped),
        tuple(name for name in values if name not in origin.values()),
        tuple(name for name in own if name not in origin),
    )


def _respelled(
    old: dict[str, Tensor], new: dict[str, Tensor], also: dict[str, str]
) -> list[tuple[str, str]]:
    """Pairs of names that are spellings of each other, of the same shape."""
    find = name_finder(new, {text: name for text, name in also.items() if name in new})
    found: dict[str, str] = {}
    for name, tensor in old.items():
        target = find(name)
        if target is not None and tensor.shape == new[target].shape:
            found.setdefault(target, name)
    return [(before, after) for after, before in found.items()]


def _paired(old: dict[str, Tensor], new: dict[str, Tensor]) -> list[tuple[str, str]]:
    free = dict(old)
    pairs = []
    for name, target in new.items():
        for candidate, tensor in free.items():
            if tensor.shape == target.shape and tensor.dtype == target.dtype:
                pairs.append((candidate, name))
                del free[candidate]
                break
    return pairs
