"""Parameters and buffers of a model in one file, and back; and a copy of them in main memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from epochal.errors import UsageError
from epochal.torch.checkpoint.file import Content, Layout, Source, read_checkpoint, write_checkpoint
from epochal.torch.measure import HostCopy, copied_to_host
from epochal.torch.structure import name_finder, structural_hash, unwrapped

NamedTensors: TypeAlias = Mapping[str, Tensor] | Iterable[tuple[str, Tensor]]
Named: TypeAlias = nn.Module | NamedTensors
# "auto" is the model's own hash, None is none: nothing is stored, nothing is compared.
Hash: TypeAlias = str | Literal["auto"] | None

_HASH_DIGITS = 64


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
    layout: Layout | None = None,
) -> None:
    """Save a model, or names and tensors, with their own dtypes; shared tensors once.

    A path is written completely or not at all. ``layout`` overrides what its suffix says.

    Args:
        destination: The path of the file, or an open file.
        named: A model, or pairs of names and tensors.
        buffers: More pairs of names and tensors, such as buffers.
        hash: A structural hash; by default that of the model, None for none.
        layout: How the file is arranged.
    """
    write_checkpoint(destination, content_of(named, buffers, hash), layout=layout)


def load_checkpoint(
    source: Source,
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
) -> LoadReport:
    """Fill a model, or named tensors, with what a checkpoint holds under the same names.

    A graph's ``encoder/weight`` and ``nodes.encoder.weight`` are the same name. Raises ValueError,
    and changes nothing, for a damaged file, for another shape under a name, and when no name
    matches at all. It does so too when both sides have a structural hash and the two differ;
    ``hash=None`` leaves that comparison out, for transfer learning.

    Args:
        source: The path of the file, or an open file.
        named: A model, or pairs of names and tensors.
        buffers: More pairs of names and tensors, such as buffers.
        hash: A structural hash; None compares none.
    """
    load = Load(source, named, buffers, hash)
    if load.targets and not load.report.loaded:
        held = repr(load.report.skipped[0]) if load.report.skipped else "no tensors"
        raise UsageError(
            f"nothing was loaded from {load.label}: the file and the model have no name in common. "
            f"The file has {held} and the model has {load.report.missing[0]!r}."
        )
    load.fill()
    return load.report


def load_checkpoint_file(
    path: str | os.PathLike[str],
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (the seed's own name)
) -> LoadReport:
    """Load from a path; everything else as `load_checkpoint`.

    Args:
        path: The file to read.
        named: A model, or pairs of names and tensors.
        buffers: More pairs of names and tensors, such as buffers.
        hash: A structural hash; by default that of the model, None for none.
    """
    return load_checkpoint(path, named, buffers, hash)


@dataclass(frozen=True, slots=True)
class ModelSnapshot:
    """Copies of a model's parameters and buffers in main memory, with its structural hash.

    May be handed to another thread. Made by `snapshot_cpu`.
    """

    hash: str | None
    shared: Mapping[str, str]
    _copies: HostCopy

    def tensors(self) -> dict[str, Tensor]:
        """Return the copies by name, shared ones once; waits for those still on their way."""
        return self._copies.ready()

    def save_file(self, path: str | os.PathLike[str]) -> None:
        """Write the file that `save_checkpoint` would have written at that moment.

        Args:
            path: The file to write.
        """
        write_checkpoint(path, Content(self.tensors(), self.shared, self.hash))


def snapshot_cpu(
    named: Named,
    buffers: NamedTensors | None = None,
    hash: Hash = "auto",  # noqa: A002 (as in save_checkpoint)
) -> ModelSnapshot:
    """Copy a model to main memory and go on training.

    On the CPU this is a true copy. From a GPU the copies go into pinned memory behind the work
    already queued, and the call returns without waiting for them.

    Args:
        named: A model, or pairs of names and tensors.
        buffers: More pairs of names and tensors, such as buffers.
        hash: A structural hash; by default that of the model, None for none.
    """
    content = content_of(named, buffers, hash)
    return ModelSnapshot(content.hash, content.shared, copied_to_host(content.stored()))


def content_of(named: Named, buffers: NamedTensors | None = None, given: Hash = "auto") -> Content:
    """Everything of a model that goes into a file."""
    tensors = _named_tensors(named, buffers)
    return Content(tensors, _shared_names(tensors), chosen_hash(named, given))


def chosen_hash(named: Named, given: Hash) -> str | None:
    """The hash to store or compare: the model's own, the one given, or none."""
    if given is None:
        return None
    if given == "auto":
        return structural_hash(unwrapped(named)) if isinstance(named, nn.Module) else None
    if len(given) != _HASH_DIGITS or not set(given) <= set("0123456789abcdef"):
        raise UsageError(f"hash must be {_HASH_DIGITS} hex digits, 'auto' or None, got {given!r}.")
    return given


class Load:
    """What a load is about to do: everything is checked, and nothing has been changed yet."""

    def __init__(
        self,
        source: Source,
        named: Named,
        buffers: NamedTensors | None = None,
        given: Hash = "auto",
    ) -> None:
        self.label = str(source) if isinstance(source, (str, os.PathLike)) else "the stream"
        content = read_checkpoint(source)
        self._check_hash(content.hash, chosen_hash(named, given))
        self.targets = _named_tensors(named, buffers)
        self._values: dict[str, Tensor] = {}
        skipped = self._match(
            content, name_finder(self.targets, _further_names(named, self.targets))
        )
        shared = _shared_names(self.targets)
        for later, first in shared.items():  # found under a later name: filled under its first
            if later in self._values:
                self._values.setdefault(first, self._values[later])
        own = [name for name in self.targets if name not in shared]
        self.report = LoadReport(
            tuple(name for name in own if name in self._values),
            tuple(skipped),
            tuple(name for name in own if name not in self._values),
        )

    def fill(self) -> None:
        """Copy the values over, to each tensor's own device and dtype."""
        with torch.no_grad():
            for name in self.report.loaded:
                self.targets[name].copy_(self._values[name])

    def _check_hash(self, saved: str | None, expected: str | None) -> None:
        if expected is not None and saved is not None and expected != saved:
            raise UsageError(
                f"{self.label} was saved from another architecture: its structural hash is "
                f"{saved[:8]}, the model's is {expected[:8]}. Pass hash=None to load what fits."
            )

    def _match(self, content: Content, find: Any) -> list[str]:
        """Choose the values of each target; returns the names in the file that have no target.

        Of two names in the file that stand for one target the same text counts, else the first.
        """
        skipped = []
        for name, tensor in content.tensors.items():
            aliases = [alias for alias, first in content.shared.items() if first == name]
            found = {text: find(text) for text in (name, *aliases)}
            if all(target is None for target in found.values()):
                skipped.append(name)
            for text, target in found.items():
                if target is not None:
                    self._check_fit(target, tensor)
                    if text == target or target not in self._values:
                        self._values[target] = tensor
        return skipped

    def _check_fit(self, name: str, tensor: Tensor) -> None:
        target = self.targets[name]
        if tensor.shape != target.shape:
            raise UsageError(
                f"{name!r} is {list(tensor.shape)} in {self.label} and {list(target.shape)} in the "
                "model."
            )
        same_kind = tensor.is_floating_point() == target.is_floating_point()
        if not same_kind or tensor.is_complex() != target.is_complex():
            raise UsageError(
                f"{name!r} holds {tensor.dtype} in {self.label} and {target.dtype} in the model: "
                "numbers of another kind are not converted."
            )


def _named_tensors(named: Named, buffers: NamedTensors | None) -> dict[str, Tensor]:
    """Parameters and buffers by name, in the model's order; every name, also of shared tensors.

    Buffers that the model itself does not keep (`persistent=False`) are left out.
    """
    if isinstance(named, nn.Module):
        if buffers is not None:
            raise UsageError("buffers must be left out when a whole model is given.")
        tensors = _of_model(unwrapped(named))
    else:
        tensors, more = dict(named), dict(buffers or {})
        if both := tensors.keys() & more.keys():
            raise UsageError(f"{min(both)!r} is both in named and in buffers.")
        tensors |= more
    for name, tensor in tensors.items():
        if tensor.is_meta or is_lazy(tensor):
            raise UsageError(f"{name!r} has no values yet: a checkpoint cannot hold or fill it.")
        if hasattr(tensor, "full_tensor"):
            raise UsageError(f"{name!r} is sharded over processes: gather it first.")
        if tensor.layout != torch.strided:
            raise UsageError(f"{name!r} is {tensor.layout}: only dense tensors can be kept.")
    return tensors


def _of_model(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model; a graph gives names by tag, which outlive changes inside it."""
    passing = {
        id(module._buffers[name])
        for module in model.modules()
        for name in module._non_persistent_buffers_set
    }
    own: Any = getattr(model, "qualified_parameters", None)
    if callable(own):
        params, buffers = dict(own()), dict(model.qualified_buffers())  # type: ignore[operator]
    else:
        params = dict(model.named_parameters(remove_duplicate=False))
        buffers = dict(model.named_buffers(remove_duplicate=False))
    return params | {name: kept for name, kept in buffers.items() if id(kept) not in passing}


def _shared_names(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name of a tensor that has an earlier name: that earlier name."""
    first: dict[tuple[object, ...], str] = {}
    shared: dict[str, str] = {}
    for name, tensor in tensors.items():
        place: tuple[object, ...] = (id(tensor),)
        if tensor.numel():
            layout = (tensor.dtype, tuple(tensor.shape), tensor.stride())
            place = (tensor.device, tensor.data_ptr(), *layout)
        known = first.setdefault(place, name)
        if known != name:
            shared[name] = known
    return shared


def _further_names(named: Named, tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Names of a graph's tensors in ``named_parameters()``: each with the graph's own name."""
    if not isinstance(named, nn.Module):
        return {}
    own = {id(tensor): name for name, tensor in tensors.items()}
    model = unwrapped(named)
    listed = (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    )
    return {name: own[id(tensor)] for name, tensor in listed if id(tensor) in own}
