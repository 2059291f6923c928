"""Parameters and buffers of a model in one file, and back.

A destination or source is a path or any file object. A path ending in ``.gz`` or ``.zst`` is
compressed, one with ``.fdl`` has flodl's layout, everything else is safetensors; reading goes by
the contents. There is no pickle in any of them: loading a file runs nothing that is in it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.layout import read_json, write_json
from epochal.torch.checkpoint.file import (
    CheckpointReader,
    Content,
    Layout,
    Source,
    open_checkpoint,
    stem_of,
    write_checkpoint,
)
from epochal.torch.checkpoint.named_tensors import (
    Hash,
    Named,
    NamedTensors,
    chosen_hash,
    further_names,
    named_tensors,
    shared_names,
)
from epochal.torch.checkpoint.tensor_bytes import DTYPE_NAMES, Entry
from epochal.torch.names import name_finder, spelling
from epochal.torch.structure import unwrapped


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Which tensors a load filled; a tensor with several names goes by its first.

    `loaded` and `missing` (in the model, not in the file: kept as they were) are in the model's
    order, `skipped` (in the file, not in the model: ignored) in the file's.
    """

    loaded: tuple[str, ...]
    skipped: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Whether file and model held exactly the same names."""
        return not self.skipped and not self.missing

    def __str__(self) -> str:
        return (
            f"{len(self.loaded)} loaded, {len(self.skipped)} skipped, {len(self.missing)} missing"
        )


def save_checkpoint(
    destination: Source,
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
    *,
    config: Mapping[str, Any] | None = None,
    layout: Layout | None = None,
    overwrite: bool = True,
) -> None:
    """Save a model, or names and tensors, with their own dtypes; shared tensors once.

    A path is written whole or not at all, and read back before an older file goes. ``config`` is
    written beside it as ``<stem>.config.json``. ``layout`` overrides what the suffix says.
    """
    content = content_of(named, buffers, hash)
    is_path = isinstance(destination, (str, os.PathLike))
    if config is not None and not is_path:
        raise UsageError("config needs a path: a stream has no place beside it.")
    write_checkpoint(destination, content, layout=layout, overwrite=overwrite)
    if config is not None:
        write_json(_config_path(destination), dict(config))


def load_checkpoint(
    source: Source,
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
    *,
    prefix: str | None = None,
    freeze: bool = False,
) -> LoadReport:
    """Fill a model, or named tensors, with what a checkpoint holds under the same names.

    A graph's ``encoder/weight`` and ``nodes.encoder.weight`` are the same name. Raises ValueError,
    and changes nothing, for a damaged file, for another shape under a name, and when no name
    matches at all. So it does when both sides have a structural hash and the two differ;
    ``hash=None`` leaves that comparison out, for transfer learning. With ``prefix`` only what the
    file holds below that name is taken, without it: ``prefix="encoder"`` fills a model's part from
    a file of the whole. ``freeze`` stops the training of every parameter that was loaded.
    """
    with open_checkpoint(source) as reader:
        if prefix is None:
            check_hash(reader, chosen_hash(named, hash))
        targets = named_tensors(named, buffers)
        also = further_names(named, targets)
        staged = stage(reader, targets, prefix=prefix, also=also)
    if targets and not staged.report.loaded:
        raise _nothing_matched(reader.label, staged.report, prefix)
    staged.fill()
    if freeze:
        for name in staged.report.loaded:
            _freeze(staged.targets[name])
    return staged.report


def load_checkpoint_file(
    path: str | os.PathLike[str],
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
    *,
    prefix: str | None = None,
    freeze: bool = False,
) -> LoadReport:
    """Load from a path; everything else as `load_checkpoint`."""
    if not isinstance(path, (str, os.PathLike)):
        raise ValueTypeError(f"path must be a path, got {type(path).__name__}.")
    return load_checkpoint(path, named, buffers, hash, prefix=prefix, freeze=freeze)


def load_subgraph_checkpoint(
    model: nn.Module,
    path: str,
    source: Source,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
    *,
    freeze: bool = False,
) -> LoadReport:
    """Fill the part of a model that a path names from a file of that part.

    The path has dots or slashes; in a graph it is a tag, or the id of a node.
    """
    part = _part(unwrapped(model), path.replace("/", "."))
    return load_checkpoint(source, part, hash=hash, freeze=freeze)


def checkpoint_config(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what `save_checkpoint(config=)` wrote beside a checkpoint; None when it did not."""
    config = _config_path(path)
    return read_json(config) if config.exists() else None


def content_of(named: Named, buffers: NamedTensors | None, given: Hash) -> Content:
    """Everything of a model that goes into a file."""
    tensors = named_tensors(named, buffers)
    return Content(tensors, shared_names(tensors), chosen_hash(named, given))


def check_hash(reader: CheckpointReader, expected: str | None) -> None:
    """Refuse a file of another architecture, where both sides say what they are."""
    if expected is not None and reader.hash is not None and expected != reader.hash:
        raise UsageError(
            f"{reader.label} was saved from another architecture: its structural hash is "
            f"{reader.hash[:8]}, the model's is {expected[:8]}. Pass hash=None to load what fits."
        )


@dataclass(slots=True)
class Staged:
    """What a load is about to do; nothing has been changed yet."""

    targets: Mapping[str, Tensor]
    values: dict[str, Tensor] = field(default_factory=dict)
    report: LoadReport = field(default_factory=lambda: LoadReport((), (), ()))

    def fill(self) -> None:
        """Copy the values over, to each tensor's own device and dtype."""
        with torch.no_grad():
            for name in self.report.loaded:
                self.targets[name].copy_(self.values[name])


def stage(
    reader: CheckpointReader,
    targets: Mapping[str, Tensor],
    *,
    prefix: str | None = None,
    also: Mapping[str, str] | None = None,
) -> Staged:
    """Read what a model has a place for, and check that all of it fits.

    ``also`` has further names of the targets, such as those of a graph's ``named_parameters()``.
    """
    find = name_finder(targets, also)
    shared: dict[str, list[str]] = {}
    for alias, name in reader.shared.items():
        shared.setdefault(name, []).append(alias)

    filled: dict[str, str] = {}  # target -> the file's name for it

    def places(entry: Entry) -> dict[str, str]:
        """The targets that an entry fills, each with the file's name for it.

        Of two names in the file that stand for one target the same text counts, else the first.
        """
        names = (_below(name, prefix) for name in (entry.name, *shared.get(entry.name, ())))
        found = {name: find(name) for name in names if name is not None}
        return {
            target: name
            for name, target in found.items()
            if target is not None and (name == target or target not in filled)
        }

    def choose(entry: Entry) -> bool:
        found = places(entry)
        for target in found:
            _check_fit(reader.label, entry, target, targets[target])
        return bool(found)

    staged = Staged(targets)
    skipped = []
    for entry, values in reader.read(choose):
        if values is not None:
            found = places(entry)
            filled |= found
            staged.values.update(dict.fromkeys(found, values))
        elif _below(entry.name, prefix) is not None:
            skipped.append(entry.name)
    loaded, missing = _matched(staged)
    staged.report = LoadReport(tuple(loaded), tuple(skipped), tuple(missing))
    return staged


def _matched(staged: Staged) -> tuple[list[str], list[str]]:
    """The tensors with and without values; one found under a later name gets them by its first."""
    shared = shared_names(staged.targets)
    for later, first in shared.items():
        if first not in staged.values and later in staged.values:
            staged.values[first] = staged.values[later]
    own = [name for name in staged.targets if name not in shared]
    return (
        [name for name in own if name in staged.values],
        [name for name in own if name not in staged.values],
    )


def _nothing_matched(label: str, report: LoadReport, prefix: str | None) -> UsageError:
    """The error for a load that would change nothing; it shows names of both sides."""
    if prefix is not None and not report.skipped:
        return UsageError(f"prefix={prefix!r}: {label} holds nothing below it.")
    if not report.skipped:
        return UsageError(f"{label} holds no tensors: there is nothing to load.")
    wanted, held = report.missing[0], report.skipped[0]
    for name in report.missing:
        near = difflib.get_close_matches(name, report.skipped, n=1)
        if near:
            wanted, held = name, near[0]
            break
    below = "" if prefix is None else f" below {prefix!r}"
    return UsageError(
        f"nothing was loaded from {label}: none of its {len(report.skipped)} names{below} is one "
        f"of the model's {len(report.missing)}. The file has {held!r} where the model has "
        f"{wanted!r}; load with prefix=, or rename with migrate_checkpoint."
    )


def _check_fit(label: str, entry: Entry, name: str, target: Tensor) -> None:
    if entry.shape != tuple(target.shape):
        raise UsageError(
            f"{name!r} is {list(entry.shape)} in {label} and {list(target.shape)} in the model."
        )
    if _kind(entry.dtype) != _kind(target.dtype):
        raise UsageError(
            f"{name!r} holds {DTYPE_NAMES[entry.dtype]} in {label} and {target.dtype} in the "
            "model: numbers of another kind are not converted."
        )


def _kind(dtype: torch.dtype) -> str:
    if dtype.is_complex:
        return "complex"
    return "floating" if dtype.is_floating_point else "whole"


def _below(name: str, prefix: str | None) -> str | None:
    """A name without a prefix; None for one that is not below it."""
    if prefix is None:
        return name
    start = prefix.rstrip("./")
    for text, above in ((name, start), (spelling(name), spelling(start))):
        if text.startswith((f"{above}.", f"{above}/")):
            return text[len(above) + 1 :]
    return None


def _part(model: nn.Module, path: str) -> nn.Module:
    parts: dict[str, nn.Module] = dict(model.named_modules())
    nodes = getattr(model, "nodes", None)
    if isinstance(nodes, nn.Module):
        parts |= dict(nodes.named_modules())
    if not path or path not in parts:
        near = difflib.get_close_matches(path, filter(None, parts), n=3)
        hint = f"; did you mean {' or '.join(repr(name) for name in near)}" if near else ""
        raise UsageError(f"path {path!r} names no part of the model{hint}.")
    return parts[path]


def _freeze(tensor: Tensor) -> None:
    if tensor.requires_grad:
        tensor.requires_grad_(False)
        tensor.grad = None


def _config_path(path: str | os.PathLike[str]) -> Path:
    return Path(path).with_name(f"{stem_of(path)}.config.json")
