"""The state of a model as it is: taken before the questions, compared and put back after them."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from epochal.base.guard import attempt

# Handled apart from the plain attributes of a module.
_DICTIONARIES = ("_modules", "_parameters", "_buffers")
# Containers of a module are compared down to this depth, and up to this length.
_DEEPEST, _LONGEST = 4, 10_000


def seed_all(seed: int) -> None:
    """Seed every generator that a loss may draw from.

    ``torch.manual_seed`` would also seed a GPU that is not in use yet, when it is used later.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    np.random.seed(seed)


class RandomState:
    """The state of the random generators of this process."""

    def __init__(self) -> None:
        is_on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if is_on_gpu else None
        self._python = random.getstate()
        self._numpy = np.random.get_state()

    def restore(self) -> None:
        """Have every generator draw what it would have drawn."""
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        random.setstate(self._python)
        np.random.set_state(self._numpy)


class ModelState:
    """Everything of a model that a forward pass, a backward pass or a step may change.

    Values are kept in the memory of the host. A copy of a model can share the ``values`` of the
    original's state, because it starts with the same ones.
    """

    def __init__(self, model: nn.Module, values: list[Tensor] | None = None) -> None:
        self._model = model
        self._modules = list(model.named_modules())
        self._tensors = list(_named_tensors(model))
        self.values = values or [_copied(tensor) for _, tensor in self._tensors]
        self._flags = [tensor.requires_grad for _, tensor in self._tensors]
        self._grads = [
            (t.grad, None if t.grad is None else _copied(t.grad)) for _, t in self._leaves()
        ]
        self._dictionaries = [
            {key: dict(vars(module)[key]) for key in _DICTIONARIES} for _, module in self._modules
        ]
        self._attributes = [_attributes(module) for _, module in self._modules]

    def restore(self) -> list[str]:
        """Put back what has changed, and return its names."""
        changed = [*self._restore_attributes(), *self._restore_values(), *self._restore_grads()]
        return sorted(set(changed))

    def _leaves(self) -> list[tuple[str, Tensor]]:
        return [(name, tensor) for name, tensor in self._tensors if tensor.is_leaf]

    @torch.no_grad()
    def _restore_values(self) -> Iterator[str]:
        for (name, tensor), value, flag in zip(
            self._tensors, self.values, self._flags, strict=True
        ):
            if not _is_same(tensor, value):
                if tensor.shape != value.shape or tensor.dtype != value.dtype:
                    tensor.data = value.to(tensor.device, copy=True)
                else:
                    tensor.copy_(value)
                yield name
            if tensor.requires_grad != flag and tensor.is_leaf:
                tensor.requires_grad_(flag)
                yield f"{name}.requires_grad"

    @torch.no_grad()
    def _restore_grads(self) -> Iterator[str]:
        for (name, tensor), (grad, value) in zip(self._leaves(), self._grads, strict=True):
            if tensor.grad is not grad:
                tensor.grad = grad
                yield f"{name}.grad"
            if grad is not None and value is not None and not _is_same(grad, value):
                grad.copy_(value)
                yield f"{name}.grad"

    def _restore_attributes(self) -> Iterator[str]:
        every = zip(self._modules, self._dictionaries, self._attributes, strict=True)
        for (name, module), dictionaries, attributes in every:
            for key, items in dictionaries.items():
                mine = vars(module)[key]
                if list(mine) != list(items) or any(mine[k] is not items[k] for k in items):
                    mine.clear()
                    mine.update(items)
                    yield _joined(name, key)
            mine = vars(module)
            for key in [k for k in mine if k not in attributes and k not in _DICTIONARIES]:
                del mine[key]
                yield _joined(name, key)
            for key, (value, content) in attributes.items():
                if key not in mine or mine[key] is not value:
                    mine[key] = value
                    yield _joined(name, key)
                if _restore_content(value, content):
                    yield _joined(name, key)


def _named_tensors(model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    yield from model.named_parameters()
    yield from model.named_buffers()


def _joined(module: str, key: str) -> str:
    return f"{module}.{key}" if module else key


@torch.no_grad()
def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _is_same(tensor: Tensor, value: Tensor) -> bool:
    """Return True if the bits are the same: NaN, which no number is equal to, stays NaN."""
    if tensor.shape != value.shape or tensor.dtype != value.dtype:
        return False
    given = value.to(tensor.device)
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return attempt(torch.equal, tensor.detach(), given)[0] is not False
    if not tensor.numel():
        return True
    return torch.equal(_bits(tensor.detach()), _bits(given))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().reshape(-1).view(torch.uint8)


# -- plain attributes -----------------------------------------------------------------------------


def _attributes(module: nn.Module) -> dict[str, tuple[Any, Any]]:
    """Each attribute with a copy of its content, where that is plain."""
    return {
        key: (value, _content(value))
        for key, value in vars(module).items()
        if key not in _DICTIONARIES
    }


class _Item(NamedTuple):
    """An object inside a container, and a copy of its own content."""

    value: Any
    content: Any


class _Kind(NamedTuple):
    """Objects that change in place: how their content is read, compared and put back."""

    type: type
    read: Callable[[Any], Any]
    is_same: Callable[[Any, Any], bool]
    write: Callable[[Any, Any], object]


_KINDS = (
    _Kind(Tensor, lambda value: _copied(value), lambda a, b: _is_same(a, b), Tensor.copy_),
    _Kind(
        torch.Generator,
        torch.Generator.get_state,
        lambda value, content: torch.equal(value.get_state(), content),
        torch.Generator.set_state,
    ),
    _Kind(
        np.random.Generator,
        lambda value: value.bit_generator.state,
        lambda value, content: bool(value.bit_generator.state == content),
        lambda value, content: setattr(value.bit_generator, "state", content),
    ),
)


def _content(value: Any, depth: int = 0) -> Any:
    """A copy of what an object holds, if it is a container or can change in place; else None."""
    if isinstance(value, (dict, list, deque)):
        if depth > _DEEPEST or len(value) > _LONGEST:
            return None
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: _Item(item, _content(item, depth + 1)) for key, item in items}
    kind = _kind_of(value)
    return None if kind is None else kind.read(value)


def _kind_of(value: Any) -> _Kind | None:
    if isinstance(value, nn.Parameter):
        return None  # compared with the parameters, or another model's
    return next((kind for kind in _KINDS if isinstance(value, kind.type)), None)


@torch.no_grad()
def _restore_content(value: Any, content: Any) -> bool:
    """Put the content back; return True if it had changed."""
    if content is None:
        return False
    kind = _kind_of(value)
    if kind is not None:
        is_same = kind.is_same(value, content)
        if not is_same:
            kind.write(value, content)
        return not is_same
    now = dict(value if isinstance(value, dict) else enumerate(value))
    is_changed = list(now) != list(content) or any(
        now[key] is not item.value for key, item in content.items()
    )
    if is_changed:
        value.clear()
        values = {key: item.value for key, item in content.items()}
        value.update(values) if isinstance(value, dict) else value.extend(values.values())
    return any([is_changed, *(_restore_content(*item) for item in content.values())])
