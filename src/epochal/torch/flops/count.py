"""Counts the work of any model by doing one step and adding up its matrix products.

torch's counter does the counting. It takes causal attention for dense, adds what a fused kernel
computes again in its backward pass, and does not know the fused kernel of CPUs. Those formulas are
replaced here, so a count agrees with :mod:`epochal.torch.flops.formulas`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import flop_counter

from epochal.errors import UsageError
from epochal.torch.flops.formulas import Flops, Work
from epochal.torch.graph.clocks import tensors_in

# Where the arguments of each fused attention say whether it is causal; queries, keys and values
# come first, in the backward pass after the gradient.
_CAUSAL_AT: Mapping[str, tuple[int, int]] = {
    "_scaled_dot_product_flash_attention": (4, 11),
    "_scaled_dot_product_efficient_attention": (6, 11),
    "_scaled_dot_product_cudnn_attention": (6, 14),
    "_scaled_dot_product_flash_attention_for_cpu": (4, 7),
}
_LINEAR = ("mm", "addmm", "_scaled_mm")
_BATCHED = ("bmm", "baddbmm")


@dataclass(frozen=True, slots=True)
class CountedFlops:
    """Operations of one step, by part; ``tokens`` is what it was done on."""

    blocks: Work
    lm_head: Work
    attention: Work
    tokens: int

    @property
    def forward(self) -> float:
        """Of the forward pass."""
        return self.blocks.forward + self.lm_head.forward + self.attention.forward

    @property
    def backward(self) -> float:
        """Of the backward pass."""
        return self.blocks.backward + self.lm_head.backward + self.attention.backward

    @property
    def recomputed(self) -> float:
        """Of what gradient checkpointing computes again."""
        return self.blocks.recomputed + self.lm_head.recomputed + self.attention.recomputed

    @property
    def total(self) -> float:
        """Of the whole step."""
        return self.forward + self.backward + self.recomputed

    def per_token(self) -> Flops:
        """The same for one token."""
        return Flops(*(_divided(part, self.tokens) for part in self._parts))

    @property
    def _parts(self) -> tuple[Work, Work, Work]:
        return self.blocks, self.lm_head, self.attention


def count_flops(
    model: nn.Module,
    *inputs: Any,
    loss: Callable[[Any], Tensor] | None = None,
    tokens: int | None = None,
    **named_inputs: Any,
) -> CountedFlops:
    """Do one forward and backward pass on these inputs and count its matrix products.

    Random generators, gradients, buffers and modes are afterwards what they were; hooks of the
    model's modules do run. ``loss`` makes a scalar of the model's answer; without one the answer
    itself, its ``loss``, or the sum of its tensors is taken. ``tokens`` is the number of integers
    in the first input that has any, else the first side of the first tensor. What gradient
    checkpointing computes again is told apart. What torch's counter does not know, such as fused
    recurrent layers, counts nothing.
    """
    given = tensors_in([*inputs, named_inputs])
    if not given:
        raise UsageError("count_flops needs the inputs of one step: at least one tensor.")
    inner = _unwrapped(model)
    tally = _Tally(inner)
    counter = flop_counter.FlopCounterMode(display=False, custom_mapping=tally.formulas())
    tally.tracker = counter.mod_tracker
    trained = [weight for weight in inner.parameters() if weight.requires_grad]
    devices = sorted({t.device.index for t in [*given, *inner.parameters()] if t.is_cuda})
    with torch.random.fork_rng(devices=devices), _kept_buffers(inner), torch.enable_grad(), counter:
        answer = inner(*inputs, **named_inputs)
        goal = _scalar(answer if loss is None else loss(answer))
        tally.direction = "backward"
        if trained and goal.requires_grad:
            # Not backward(): gradients would be added to those there are, and optimizers that act
            # on a gradient's arrival would act.
            _propagate(goal, trained)
    return tally.counted(_num_tokens(given) if tokens is None else tokens)


def _propagate(goal: Tensor, trained: Sequence[Tensor]) -> None:
    try:
        torch.autograd.grad(goal, trained, allow_unused=True)
    except RuntimeError as error:
        if "use_reentrant" not in str(error):
            raise
        raise UsageError(
            "checkpoint(use_reentrant=True) cannot be counted without leaving gradients behind:"
            " use use_reentrant=False, or count with checkpointing off."
        ) from error


class _Tally:
    """Sorts what the counter sees by part and by direction."""

    def __init__(self, model: nn.Module) -> None:
        self.direction = "forward"
        self.tracker: Any = None
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        head = output_layer(model)
        self._head = None if head is None else f".{head[0]}"
        # A batched product of or into one of these is one of experts, not of attention.
        self._stacks = {
            side
            for weight in model.parameters()
            if weight.ndim == 3
            for side in (tuple(weight.shape), (weight.shape[0], weight.shape[2], weight.shape[1]))
        }

    def formulas(self) -> dict[Any, Callable[..., int]]:
        """What the counter is to use for each operation."""
        known = flop_counter.flop_registry
        formulas: dict[Any, Callable[..., int]] = {}
        for packet, formula in known.items():
            formulas[packet] = self._of_raw(formula, str(packet).rpartition(".")[2])
        for name, (ahead, back) in _CAUSAL_AT.items():
            for suffix, at, first in (("", ahead, 0), ("_backward", back, 1)):
                packet = getattr(torch.ops.aten, name + suffix, None)
                if packet is not None:
                    formulas[packet] = self._of_scores(at, first=first)
        grouped = getattr(torch.ops.aten, "_grouped_mm", None)
        if grouped is not None:
            formulas.setdefault(grouped, self._of_groups)
        return formulas

    def counted(self, tokens: int) -> CountedFlops:
        """The sums."""
        if tokens < 1:
            raise UsageError(f"tokens={tokens} must be 1 or more.")
        works = {
            part: Work(*(self._sums[part, pass_] for pass_ in ("forward", "backward", "again")))
            for part in ("blocks", "lm_head", "attention")
        }
        return CountedFlops(**works, tokens=tokens)

    def _add(self, part: str, count: int) -> int:
        # A backward pass records no graph; what checkpointing computes again in it does.
        is_again = self.direction == "backward" and torch.is_grad_enabled()
        self._sums[part, "again" if is_again else self.direction] += count
        return count

    def _of_raw(self, formula: Callable[..., Any], operation: str) -> Callable[..., int]:
        def count(*args: Any, **kwargs: Any) -> int:
            met = [*args, kwargs.get("out_val")]
            shapes = [tuple(tensor.shape) for tensor in met if isinstance(tensor, Tensor)]
            part = self._part(operation, shapes)
            return self._add(part, int(formula(*args, **kwargs)))

        count._get_raw = True  # type: ignore[attr-defined]
        return count

    def _part(self, operation: str, shapes: Sequence[tuple[int, ...]]) -> str:
        if operation in _LINEAR:
            return "lm_head" if self._is_in_head() else "blocks"
        if operation in _BATCHED and not self._stacks & set(shapes):
            return "attention"
        return "attention" if "attention" in operation else "blocks"

    def _is_in_head(self) -> bool:
        # The tracker knows which modules are at work, backward too; names begin with the model's.
        head = self._head
        return head is not None and any(str(at).endswith(head) for at in self.tracker.parents)

    def _of_scores(self, causal_at: int, *, first: int) -> Callable[..., int]:
        def count(*args: Any, **kwargs: Any) -> int:
            kwargs.pop("out_val", None)
            query, key, value = args[first : first + 3]
            named = kwargs.get("is_causal", False)
            is_causal = args[causal_at] if len(args) > causal_at else named
            batch, heads, length, size = query.shape
            dense = 2 * batch * heads * length * key.shape[-2] * (size + value.shape[-1])
            once = dense // 2 if is_causal else dense
            return self._add("attention", once * (2 if first else 1))

        count._get_raw = True  # type: ignore[attr-defined]
        return count

    def _of_groups(self, rows: Any, matrices: Any, *_: Any, **__: Any) -> int:
        """Rows times the matrix of their group, or, for weights' gradients, columns by groups."""
        groups = rows[0] if len(rows) == len(matrices) == 3 else 1
        return self._add("blocks", int(2 * groups * rows[-2] * rows[-1] * matrices[-1]))


@contextmanager
def _kept_buffers(model: nn.Module) -> Iterator[None]:
    """Leave every buffer, and which tensor it is, as it was."""
    kept = [
        (module, name, buffer, None if buffer is None else buffer.detach().clone())
        for module in model.modules()
        for name, buffer in module._buffers.items()
    ]
    try:
        yield
    finally:
        with torch.no_grad():
            for module, name, buffer, values in kept:
                if buffer is not None and values is not None:
                    buffer.copy_(values)
                module._buffers[name] = buffer


def _scalar(answer: Any) -> Tensor:
    own_loss = answer.get("loss") if isinstance(answer, Mapping) else getattr(answer, "loss", None)
    if isinstance(own_loss, Tensor):
        answer = own_loss
    values = [tensor for tensor in tensors_in(answer) if tensor.is_floating_point()]
    if not values:
        raise UsageError("the model's answer holds no tensor to train on: give loss=.")
    if len(values) == 1 and values[0].numel() == 1:
        return values[0].reshape(())
    return torch.stack([tensor.float().sum() for tensor in values]).sum()


def _num_tokens(given: Sequence[Tensor]) -> int:
    whole = next((t for t in given if not t.is_floating_point() and t.ndim), None)
    if whole is not None:
        return whole.numel()
    return int(given[0].shape[0]) if given[0].ndim else 1


def _unwrapped(model: nn.Module) -> nn.Module:
    """The model inside those that compile it or share its gradients out, which would act."""
    while True:
        if isinstance(model, nn.parallel.DistributedDataParallel):
            model = model.module
        elif isinstance(inner := getattr(model, "_orig_mod", None), nn.Module):
            model = inner
        else:
            return model


def _divided(work: Work, tokens: int) -> Work:
    return Work(work.forward / tokens, work.backward / tokens, work.recomputed / tokens)


def output_layer(model: nn.Module) -> tuple[str, nn.Linear] | None:
    """The output layer and its name; None for a model that has no vocabulary.

    It is the one that the model names, else one that shares an embedding's weight. Otherwise it is
    the last linear layer with an output for every word; an inner layer may have as many by chance.
    """
    linear = {name: m for name, m in model.named_modules() if isinstance(m, nn.Linear)}
    named = getattr(model, "get_output_embeddings", None)
    told = named() if callable(named) else None
    embeddings = [m for m in model.modules() if isinstance(m, nn.Embedding)]
    sizes = {embedding.num_embeddings for embedding in embeddings}
    tied = {id(embedding.weight) for embedding in embeddings}
    wide = [(name, m) for name, m in linear.items() if m.out_features in sizes]
    for name, layer in wide:
        if layer is told or id(layer.weight) in tied:
            return name, layer
    return wide[-1] if wide else None
