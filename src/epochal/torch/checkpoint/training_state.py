"""Everything a training goes on from: the objects, their states as JSON and tensors, and back.

A state is what `state_dict()` returns. Kept exactly: None, bool, int, float (every bit of a finite
one), str, bytes, lists, tuples, dicts with keys of these kinds, Counter, tensors and numpy arrays.
Anything else is refused by its place: it would take code to bring it back.
"""

from __future__ import annotations

import base64
import json
import math
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

import torch
from torch import Tensor, nn

from epochal.errors import FormatError, UsageError, ValueTypeError
from epochal.torch.checkpoint.file import Content, read_checkpoint
from epochal.torch.checks import check, check_module
from epochal.torch.rng import Rng
from epochal.torch.structure import unwrapped


@runtime_checkable
class Stateful(Protocol):
    """Anything that tells its state and takes it back, as torch's own objects do."""

    def state_dict(self) -> Any:
        """Return the state: numbers, texts, tensors, and lists and dicts of them."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Go on from a state."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The objects that make up a training; nothing is copied until it is saved.

    Every rank keeps its own ``data`` and ``rng``, and its own state of the global generators.
    Everything else is the same on all ranks and kept once.

    Args:
        model: The model.
        optimizer: The optimizer.
        scheduler: A schedule of torch or of Epochal.
        scaler: The loss scaler.
        data: Where the training is in its data.
        rng: Generators of your own: one, or several by name.
        others: Anything else by name, such as a second optimizer or averaged weights.
    """

    model: nn.Module
    optimizer: Stateful | None = None
    scheduler: Stateful | None = None
    scaler: Stateful | None = None
    data: Stateful | None = None
    rng: Any = None
    others: Mapping[str, Stateful] | None = None

    def __post_init__(self) -> None:
        check_module(self.model)
        for name, part in (*self.shared_parts().items(), ("data", self.data)):
            is_stateful = part is None or isinstance(part, Stateful)
            check(is_stateful, part, "an object with state_dict() and load_state_dict()", name=name)
        named_generators(self.rng)

    def shared_parts(self) -> dict[str, Stateful]:
        """What all ranks have in common, besides the model, by name."""
        given = {
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            **{f"others.{name}": part for name, part in (self.others or {}).items()},
        }
        return {name: part for name, part in given.items() if part is not None}

    def shared_state(self) -> dict[str, Any]:
        """The state of what all ranks have in common; the model's tensors are not in it."""
        state = {name: part.state_dict() for name, part in self.shared_parts().items()}
        observed = getattr(unwrapped(self.model), "observation_state", None)
        return {**state, "observation": observed()} if callable(observed) else state

    def own_state(self) -> dict[str, Any]:
        """The state of what each rank has for itself."""
        data = None if self.data is None else {"state": self.data.state_dict()}
        return {"data": data, "rng": generators_state(named_generators(self.rng))}

    def check_shared(self, state: Mapping[str, Any]) -> None:
        """Refuse a saved state that lacks a part which is here.

        Args:
            state: The saved state.
        """
        absent = sorted(set(self.shared_parts()) - set(state))
        if absent:
            raise UsageError(
                f"the checkpoint has no state for {', '.join(absent)}: leave it out to go on "
                "without."
            )

    def restore_shared(self, state: Mapping[str, Any]) -> list[str]:
        """Put back what all ranks have in common; returns the saved parts that are not here.

        Args:
            state: The saved state.
        """
        parts = self.shared_parts()
        for name, part in parts.items():
            part.load_state_dict(state[name])
        left = [name for name in state if name not in parts]
        restore = getattr(unwrapped(self.model), "restore_observation", None)
        if "observation" in state and callable(restore):
            restore(state["observation"])
            left.remove("observation")
        return left

    def restore_own(self, state: Mapping[str, Any]) -> list[str]:
        """Put back a rank's own part, generators last: loading data may draw from them.

        Args:
            state: The saved state of this rank.
        """
        left = []
        if self.data is not None:
            if state["data"] is None:
                raise UsageError("the checkpoint has no state for data: leave it out.")
            self.data.load_state_dict(state["data"]["state"])
        elif state["data"] is not None:
            left.append("data")
        return left + restore_generators(state["rng"], named_generators(self.rng))


def generators_state(own: Mapping[str, Any]) -> dict[str, Any]:
    """Python's, numpy's and torch's global generators, all GPUs', and the caller's own by name.

    Numpy's is kept where numpy is loaded, the GPUs' where CUDA is started.
    """
    state: dict[str, Any] = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "own": {name: _access(generator, name)[0]() for name, generator in own.items()},
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    cuda: Any = torch.cuda
    if cuda.is_available() and cuda.is_initialized():
        state["cuda"] = cuda.get_rng_state_all()
    return state


def restore_generators(state: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Go on where `generators_state` was taken; returns what could not be restored here."""
    if set(state["own"]) != set(own):
        raise UsageError(
            f"rng must hold {sorted(state['own']) or 'nothing'}, as it did when the checkpoint "
            f"was saved, got {sorted(own) or 'nothing'}."
        )
    for name, generator in own.items():
        _access(generator, name)[1](state["own"][name])
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    saved = state.get("cuda", [])
    here = torch.cuda.device_count() if saved and torch.cuda.is_available() else 0
    for index, gpu in enumerate(saved[:here]):
        torch.cuda.set_rng_state(gpu, index)
    return [f"generator of GPU {index}" for index in range(here, len(saved))]


def named_generators(rng: Any) -> dict[str, Any]:
    """The caller's own generators by name, given as one or as a mapping."""
    if rng is None:
        return {}
    named = dict(rng) if isinstance(rng, Mapping) else {"rng": rng}
    for name, generator in named.items():
        _access(generator, name)
    return named


def _access(generator: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], object]]:
    """How the state of a generator is read, and how it is set."""
    if isinstance(generator, Rng):
        return generator.state, generator.set_state
    if isinstance(generator, random.Random):
        return generator.getstate, generator.setstate
    if isinstance(generator, torch.Generator):
        return generator.get_state, generator.set_state
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        bits = generator.bit_generator
        return lambda: bits.state, lambda state: setattr(bits, "state", state)
    raise ValueTypeError(
        f"{name} must be an epochal Rng, a random.Random, a torch or a numpy Generator, "
        f"got {type(generator).__name__}."
    )


def packed(value: Any, *, name: str) -> Content:
    """A state as a JSON text, and the tensors it refers to by their place in it."""
    tensors: dict[str, Tensor] = {}
    tree = json.dumps(_pack(value, name, tensors), separators=(",", ":"), allow_nan=False)
    return Content(tensors, tree=tree)


def read_state(path: Path) -> Any:
    """The state that `packed` was given, from a file; tensors are in main memory."""
    content = read_checkpoint(path)
    try:
        return _unpack(json.loads(content.tree or ""), content.tensors)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise FormatError(f"{path} holds no state that can be read: {error!r}.") from error


def _pack(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, Tensor):
        return {"$tensor": _kept(value.detach(), place, tensors)}
    if isinstance(value, Mapping):
        is_counter = type(value) is Counter
        if not is_counter and all(type(k) is str and not k.startswith("$") for k in value):
            return {key: _pack(item, f"{place}.{key}", tensors) for key, item in value.items()}
        pairs = [
            [_pack(key, place, tensors), _pack(item, f"{place}.{key}", tensors)]
            for key, item in value.items()
        ]
        return {"$counter" if is_counter else "$dict": pairs}
    if isinstance(value, (list, tuple)):
        items = [_pack(item, f"{place}.{index}", tensors) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    return _pack_rare(value, place, tensors)


def _pack_rare(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        kind = "$scalar" if isinstance(value, numpy.generic) else "$array"
        try:
            tensor = torch.from_numpy(numpy.array(value, order="C"))
        except TypeError as error:
            raise ValueTypeError(f"{place} holds {value.dtype}: {error}.") from error
        return {kind: _kept(tensor, place, tensors)}
    raise ValueTypeError(
        f"{place} is {type(value).__name__}, which a checkpoint cannot hold: keep numbers, "
        "texts, tensors, and lists and dicts of them."
    )


def _kept(tensor: Tensor, place: str, tensors: dict[str, Tensor]) -> str:
    # The place alone may repeat: the keys 1 and "1" of a dict are written alike.
    while place in tensors:
        place += "'"
    tensors[place] = tensor
    return place


def _unpack(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next(iter(tree), "")
    if not tag.startswith("$"):
        return {key: _unpack(item, tensors) for key, item in tree.items()}
    if tag in ("$tensor", "$array", "$scalar"):
        tensor = tensors[tree[tag]].clone()  # apart from the file, which may be deleted
        array = tensor if tag == "$tensor" else cast(Any, tensor.numpy())
        return array[()] if tag == "$scalar" else array
    return _MAKERS[tag](_unpack(tree[tag], tensors))


_MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "$float": float,
    "$dict": dict,
    "$counter": lambda pairs: Counter(dict(pairs)),
    "$tuple": tuple,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
}
