"""FLOPs of a training step, and the speed that the hardware allows (the *speed of light*).

The work per token is counted by torch's flop counter on one step. A product of a token with a
weight is two operations forward, and four backward. Only matrix products are counted: the rest is a
few per mille of the work.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import flop_counter

from epochal.errors import UsageError
from epochal.torch.checks import check_module, check_whole
from epochal.torch.structure import tensors_in, unwrapped

DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")
_LONG_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}
# Eight-bit and four-bit recipes keep scores and output layer in 16 bits.
_KEEPS_HALF = ("fp8", "fp4")
# A slice of a GPU has fewer multiprocessors; a few disabled ones more or less are the same part.
_SAME_PART = 0.03


@dataclass(frozen=True, slots=True)
class Work:
    """Operations per token of one part; ``recomputed`` are those of a forward pass done again."""

    forward: float = 0.0
    backward: float = 0.0
    recomputed: float = 0.0

    @property
    def total(self) -> float:
        """Everything that the hardware computes."""
        return self.forward + self.backward + self.recomputed


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations per token of a model's blocks, its output layer, and its attention scores."""

    blocks: Work
    lm_head: Work
    attention: Work

    @property
    def parts(self) -> tuple[Work, Work, Work]:
        """The three parts in the order of the record."""
        return self.blocks, self.lm_head, self.attention

    @property
    def total(self) -> float:
        """Everything that the hardware computes."""
        return sum(part.total for part in self.parts)

    @property
    def useful(self) -> float:
        """What the model needs, without recomputation; MFU counts this."""
        return sum(part.forward + part.backward for part in self.parts)


@dataclass(frozen=True, slots=True)
class Peak:
    """What one device can do at most, dense, in TFLOP/s by dtype.

    ``clock_mhz`` is the clock at which it is reached; ``note`` says what was assumed.
    """

    device: str
    tflops: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    clock_mhz: float | None = None
    note: str | None = None

    def of(self, dtype: str) -> float | None:
        """Return the rate of a dtype; 32-bit products run as TF32 on devices that have it."""
        if dtype == "fp32":
            return self.tflops.get("tf32", self.tflops.get("fp32"))
        return self.tflops.get(dtype)


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """Work per token and what the devices could do; ``tps`` is tokens per second of all of them.

    ``tps`` counts everything that is computed, each part at its own dtype's rate. ``useful_tps`` is
    that of MFU: the model's own work without recomputation, at the main dtype's rate. Both are None
    for an unknown device.
    """

    flops: Flops
    dtypes: tuple[str, str, str]
    device: str
    world_size: int = 1
    peak: Peak | None = None
    tps: float | None = None
    useful_tps: float | None = None

    @property
    def note(self) -> str | None:
        """What was assumed, or why the speed is not known."""
        if self.peak is None:
            return "The peak speed of this device is unknown."
        missing = [dtype for dtype in self.dtypes if self.peak.of(dtype) is None]
        if missing:
            return f"The {missing[0]} speed of this device is unknown: choose another dtype."
        return self.peak.note

    def fields(self) -> dict[str, Any]:
        """Return the fields of the ``sol`` record."""
        blocks, head, attention = self.dtypes
        peak = self.peak
        facts: dict[str, Any] = {
            "blocks": self.flops.blocks.total,
            "lm_head": self.flops.lm_head.total,
            "attention": self.flops.attention.total,
            "tps": self.tps,
            "dtype": blocks,
            "lm_head_dtype": head if head != blocks else None,
            "attention_dtype": attention if attention != blocks else None,
            "useful_tps": self.useful_tps,
            "device": self.device,
            "world_size": self.world_size,
        }
        if peak is not None:
            rates = {f"{name}_peak": peak.tflops[name] for name in DTYPES if name in peak.tflops}
            facts |= rates | {"peak_clock": peak.clock_mhz, "source": peak.source}
        facts["note"] = self.note
        return {name: value for name, value in facts.items() if value is not None}


def speed_of_light(
    model: nn.Module,
    inputs: Sequence[Any] | Mapping[str, Any],
    *,
    dtype: object = "bf16",
    world_size: int = 1,
    device: Any = None,
    lm_head_dtype: object = None,
    attention_dtype: object = None,
) -> SpeedOfLight:
    """Return how many tokens per second ``world_size`` devices could train on at most.

    Pass the result to ``run.log_sol_estimate``.

    Args:
        model: The model that is trained.
        inputs: The batch of one step, whose work is counted: a tuple of what the model is called
            with, or a mapping of named inputs.
        dtype: The number format of the matrix products.
        world_size: The number of devices.
        device: The GPU, by default that of the model.
        lm_head_dtype: The number format of the output layer.
        attention_dtype: The number format of the attention products.
    """
    check_module(model)
    check_whole(world_size, name="world_size", least=1)
    main = dtype_name(dtype)
    small = "bf16" if main in _KEEPS_HALF else main
    dtypes = (main, dtype_name(lm_head_dtype or small), dtype_name(attention_dtype or small))
    if isinstance(inputs, Mapping):
        flops = count_flops(model, **inputs)
    elif isinstance(inputs, (tuple, list)):
        flops = count_flops(model, *inputs)
    else:
        raise UsageError(
            f"inputs= is a {type(inputs).__name__}: use a tuple of what the model is called with,"
            " as in inputs=(batch,), or a mapping of its named inputs."
        )
    chosen = _chosen_device(model, device)
    peak = _device_peak(chosen)
    return SpeedOfLight(
        flops=flops,
        dtypes=dtypes,
        device=torch.cuda.get_device_name(chosen) if chosen.type == "cuda" else chosen.type.upper(),
        world_size=world_size,
        peak=peak,
        tps=_tps([part.total for part in flops.parts], dtypes, peak, world_size),
        useful_tps=_tps([flops.useful], dtypes[:1], peak, world_size),
    )


def _tps(
    parts: Sequence[float], dtypes: Sequence[str], peak: Peak | None, world_size: int
) -> float | None:
    seconds = 0.0
    for work, dtype in zip(parts, dtypes, strict=True):
        rate = None if peak is None else peak.of(dtype)
        if rate is None:
            return None
        seconds += work / (rate * 1e12)
    return world_size / seconds if seconds > 0 else None


# -- counted on one step --------------------------------------------------------------------------

# Where the arguments of each fused attention say whether it is causal, forward and backward. torch
# counts causal attention as dense, and does not know the kernel of CPUs.
_CAUSAL_AT = {
    "_scaled_dot_product_flash_attention": (4, 11),
    "_scaled_dot_product_efficient_attention": (6, 11),
    "_scaled_dot_product_cudnn_attention": (6, 14),
    "_scaled_dot_product_flash_attention_for_cpu": (4, 7),
}


def count_flops(model: nn.Module, *inputs: Any, **named_inputs: Any) -> Flops:
    """Do one forward and backward pass on these inputs and count its operations per token.

    Random generators, gradients, buffers and modes are afterwards what they were; hooks of the
    model's modules do run. The loss is the model's output itself, its ``loss``, or the sum of its
    tensors. Tokens are the integers of the first input that has any, else the samples.
    Recomputation by gradient checkpointing is counted separately.
    """
    given = tensors_in([*inputs, named_inputs])
    if not given:
        raise UsageError("inputs= needs the inputs of one step: at least one tensor.")
    inner = unwrapped(model)
    tally = _Tally(inner)
    trained = [weight for weight in inner.parameters() if weight.requires_grad]
    devices = sorted({t.device.index for t in [*given, *inner.parameters()] if t.is_cuda})
    with (
        torch.random.fork_rng(devices=devices),
        _kept_buffers(inner),
        torch.enable_grad(),
        tally.counter,
    ):
        goal = _loss(inner(*inputs, **named_inputs))
        tally.direction = "backward"
        if trained and goal.requires_grad:
            # Not backward(): gradients would be added to those there are.
            torch.autograd.grad(goal, trained, allow_unused=True)
    whole = next((t for t in given if not t.is_floating_point() and t.ndim), None)
    samples = int(given[0].shape[0]) if given[0].ndim else 1
    return tally.per_token(samples if whole is None else whole.numel())


class _Tally:
    """Sorts what torch's counter sees by part and by direction.

    Scores that are computed without a fused attention count as blocks.
    """

    def __init__(self, model: nn.Module) -> None:
        self.direction = "forward"
        self._sums: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._head = output_layer(model)
        formulas: dict[Any, Callable[..., int]] = {
            packet: self._of_operation(formula, str(packet).rpartition(".")[2])
            for packet, formula in flop_counter.flop_registry.items()
        }
        for name, places in _CAUSAL_AT.items():
            for suffix, causal_at, first in zip(("", "_backward"), places, (0, 1), strict=True):
                packet = getattr(torch.ops.aten, name + suffix, None)
                if packet is not None:
                    formulas[packet] = self._of_scores(causal_at, first)
        self.counter = flop_counter.FlopCounterMode(display=False, custom_mapping=formulas)

    def per_token(self, tokens: int) -> Flops:
        """Return the sums, divided by the number of tokens."""
        ways = ("forward", "backward", "recomputed")
        parts = ("blocks", "lm_head", "attention")
        return Flops(*(Work(*(self._sums[part, way] / tokens for way in ways)) for part in parts))

    def _add(self, part: str, count: int) -> int:
        # A backward pass records no graph; what checkpointing computes again in it does.
        is_again = self.direction == "backward" and torch.is_grad_enabled()
        self._sums[part, "recomputed" if is_again else self.direction] += count
        return count

    def _of_operation(self, formula: Callable[..., Any], operation: str) -> Callable[..., int]:
        def count(*args: Any, **kwargs: Any) -> int:
            # The tracker knows which modules are at work; their names begin with the model's.
            at_work = self.counter.mod_tracker.parents
            is_head = self._head and any(str(one).endswith(self._head) for one in at_work)
            part = "lm_head" if is_head else "blocks"
            if "attention" in operation:
                part = "attention"
            return self._add(part, int(formula(*args, **kwargs)))

        count._get_raw = True  # type: ignore[attr-defined]
        return count

    def _of_scores(self, causal_at: int, first: int) -> Callable[..., int]:
        def count(*args: Any, **kwargs: Any) -> int:
            query, key, value = args[first : first + 3]
            is_causal = args[causal_at] if len(args) > causal_at else kwargs.get("is_causal", False)
            batch, heads, length, size = query.shape
            dense = 2 * batch * heads * length * key.shape[-2] * (size + value.shape[-1])
            return self._add("attention", (dense // 2 if is_causal else dense) * (1 + first))

        count._get_raw = True  # type: ignore[attr-defined]
        return count


def output_layer(model: nn.Module) -> str | None:
    """Return the name of the output layer with a leading dot; None without a vocabulary.

    It is the last linear layer with an output for every word of an embedding.
    """
    sizes = {one.num_embeddings for one in model.modules() if isinstance(one, nn.Embedding)}
    wide = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and module.out_features in sizes
    ]
    return f".{wide[-1]}" if wide else None


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


def _loss(output: Any) -> Tensor:
    own_loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    values = tensors_in(own_loss if isinstance(own_loss, Tensor) else output)
    values = [tensor for tensor in values if tensor.is_floating_point()]
    if not values:
        raise UsageError("the model's output holds no tensor that could be trained on.")
    return torch.stack([tensor.float().sum() for tensor in values]).sum()


# -- devices --------------------------------------------------------------------------------------


def dtype_name(dtype: object) -> str:
    """Return the short name of a dtype: "bf16" for "bfloat16" and for ``torch.bfloat16``."""
    name = str(dtype).removeprefix("torch.").lower()
    short = _LONG_NAMES.get(name, name)
    if short not in DTYPES:
        raise UsageError(f"dtype={dtype!r} is not known: use one of {', '.join(DTYPES)}.")
    return short


def peak_of(name: str, *, sm_count: int | None = None) -> Peak | None:
    """Return what a GPU of this name can do; None for an unknown one.

    A slice of a GPU is scaled by its multiprocessors, which the note says.
    """
    words = re.sub(r"[-_\s]+", " ", name.lower()).strip()
    plain = re.sub(r"^(nvidia |tesla |amd )+", "", re.sub(r" mig \S+$", "", words))
    row = next((row for row in peak_table() if re.fullmatch(row["name"], plain)), None)
    if row is None:
        return None
    share, note = 1.0, None
    whole = int(row["sm_count"] or 0)
    if whole and sm_count and abs(sm_count / whole - 1) > _SAME_PART:
        share, note = sm_count / whole, f"{sm_count} of {whole} multiprocessors"
    rates = {dtype: float(row[dtype]) * share for dtype in DTYPES if row[dtype]}
    clock = float(row["clock_mhz"]) if row["clock_mhz"] else None
    return Peak(name, rates, row["source"], clock, note)


@cache
def peak_table() -> list[dict[str, str]]:
    """Return the rows of ``peaks.csv``: dense matrix products in TFLOP/s, from the makers' papers.

    Papers often print only the figure with 2:4 sparsity, which training does not use; every number
    here is the dense one. ``name`` is a pattern on the driver's name. Half precision accumulates in
    32 bits, which GeForce cards do at half the rate. Each of the two dies of an MI250X is a device.
    """
    with Path(__file__).with_name("peaks.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _chosen_device(model: nn.Module, device: Any) -> torch.device:
    """Return the given device, else the model's GPU, else the current GPU, else the CPU."""
    if device is None:
        device = next((one.device for one in model.parameters() if one.is_cuda), None)
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen == torch.device("cuda"):
        return torch.device("cuda", torch.cuda.current_device())
    return chosen


def _device_peak(device: torch.device) -> Peak | None:
    if device.type != "cuda":
        return None
    facts = torch.cuda.get_device_properties(device)
    return peak_of(facts.name, sm_count=facts.multi_processor_count)
