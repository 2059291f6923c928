"""Nested Python values as JSON beside named tensors, and back: what a state_dict() returns.

Kept exactly: None, bool, int, float (every bit of a finite one), str, bytes, complex, lists,
tuples, sets, dicts with keys of these kinds, Counter, deque, torch dtypes and devices, tensors and
numpy arrays. Anything else is refused by its place: it would take code to bring it back.
"""

from __future__ import annotations

import base64
import json
import math
import sys
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from epochal.errors import FormatError, ValueTypeError

_PLAIN = (bool, int, str)


def packed(value: Any, *, name: str) -> tuple[str, dict[str, Tensor]]:
    """A value as a JSON text, and the tensors it refers to by their place in it."""
    tensors: dict[str, Tensor] = {}
    tree = _Packer(tensors).pack(value, name)
    return json.dumps(tree, separators=(",", ":"), allow_nan=False), tensors


def unpacked(text: str, tensors: Mapping[str, Tensor], *, label: str) -> Any:
    """The value that `packed` was given; tensors are in main memory."""
    try:
        return _unpack(json.loads(text), tensors)
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise FormatError(f"{label} holds a state that cannot be read: {error!r}.") from error


class _Packer:
    def __init__(self, tensors: dict[str, Tensor]) -> None:
        self._tensors = tensors

    def pack(self, value: Any, place: str) -> Any:
        if value is None or type(value) in _PLAIN:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$float": repr(value)}
        if isinstance(value, Tensor):
            return {"$tensor": self._kept(value.detach(), place)}
        if isinstance(value, Mapping):
            return self._mapping(value, place)
        if isinstance(value, (list, tuple, set, frozenset, deque)):
            return self._sequence(value, place)
        return self._rare(value, place)

    def _mapping(self, value: Mapping[Any, Any], place: str) -> Any:
        if type(value) is not Counter and all(
            type(key) is str and not key.startswith("$") for key in value
        ):
            return {key: self.pack(item, f"{place}.{key}") for key, item in value.items()}
        pairs = [
            [self.pack(key, place), self.pack(item, f"{place}.{key}")]
            for key, item in value.items()
        ]
        return {"$counter" if type(value) is Counter else "$dict": pairs}

    def _sequence(self, value: Any, place: str) -> Any:
        items = [self.pack(item, f"{place}.{index}") for index, item in enumerate(value)]
        if isinstance(value, list):
            return items
        if isinstance(value, tuple):
            return {"$tuple": items}
        if isinstance(value, deque):
            return {"$deque": [items, value.maxlen]}
        return {"$set" if isinstance(value, set) else "$frozenset": items}

    def _rare(self, value: Any, place: str) -> Any:
        if isinstance(value, bytes):
            return {"$bytes": base64.b64encode(value).decode("ascii")}
        if isinstance(value, complex):
            return {"$complex": [self.pack(value.real, place), self.pack(value.imag, place)]}
        if isinstance(value, torch.dtype):
            return {"$dtype": str(value).removeprefix("torch.")}
        if isinstance(value, torch.device):
            return {"$device": str(value)}
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
            return self._numpy(numpy, value, place)
        raise ValueTypeError(
            f"{place} is {type(value).__name__}, which a checkpoint cannot hold: keep numbers, "
            "texts, tensors, and lists and dicts of them."
        )

    def _numpy(self, numpy: Any, value: Any, place: str) -> Any:
        kind = "$scalar" if isinstance(value, numpy.generic) else "$array"
        try:
            tensor = torch.from_numpy(numpy.array(value, order="C"))
        except TypeError as error:
            raise ValueTypeError(f"{place} holds {value.dtype}: {error}.") from error
        return {kind: self._kept(tensor, place)}

    def _kept(self, tensor: Tensor, place: str) -> str:
        # The place alone may repeat: the keys 1 and "1" of a dict are written alike.
        name = place
        while name in self._tensors:
            name += "'"
        self._tensors[name] = tensor
        return name


def _unpack(tree: Any, tensors: Mapping[str, Tensor]) -> Any:
    if isinstance(tree, list):
        return [_unpack(item, tensors) for item in tree]
    if not isinstance(tree, dict):
        return tree
    tag = next(iter(tree), "")
    if not tag.startswith("$"):
        return {key: _unpack(item, tensors) for key, item in tree.items()}
    if tag in ("$tensor", "$array", "$scalar"):
        return _tensor(tag, tensors[tree[tag]])
    return _MAKERS[tag](_unpack(tree[tag], tensors))


def _tensor(tag: str, tensor: Tensor) -> Any:
    if tag == "$tensor":
        return tensor
    array = tensor.numpy()
    return array if tag == "$array" else array[()]


def _dtype(name: str) -> torch.dtype:
    found = getattr(torch, name)
    if not isinstance(found, torch.dtype):
        raise TypeError(f"{name!r} is no dtype")
    return found


_MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "$float": float,
    "$dict": dict,
    "$counter": lambda pairs: Counter(dict(pairs)),
    "$tuple": tuple,
    "$deque": lambda pair: deque(pair[0], pair[1]),
    "$set": set,
    "$frozenset": frozenset,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$complex": lambda pair: complex(pair[0], pair[1]),
    "$dtype": _dtype,
    "$device": torch.device,
}
