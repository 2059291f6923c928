"""The speed of light of a training: how fast the hardware could do its work with nothing lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from epochal.errors import UsageError
from epochal.torch.flops import calibration
from epochal.torch.flops.calibration import Calibration
from epochal.torch.flops.count import count_flops, output_layer
from epochal.torch.flops.formulas import Flops, Recompute, Trained, flops_per_token
from epochal.torch.flops.peak_table import DTYPES
from epochal.torch.flops.peaks import Peak, chosen_device, device_peak, device_title, dtype_name
from epochal.torch.flops.transformer_shape import is_shaped

# Eight-bit and four-bit recipes keep scores and output layer in 16 bits.
_KEEPS_HALF = ("fp8", "fp4")
_ADAPTER = "lora_"


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """Work per token and what the devices could do; ``tps`` is tokens per second of all of them.

    ``tps`` counts all the work that is done, each part at its own dtype's rate. ``useful_tps`` is
    that of MFU: the model's own work without what is computed again, at the main dtype's rate. Both
    are None where the device is not known.
    """

    flops: Flops
    dtypes: tuple[str, str, str]
    device: str
    world_size: int = 1
    peak: Peak | None = None
    measured: Calibration | None = None
    tps: float | None = None
    useful_tps: float | None = None

    @property
    def dtype(self) -> str:
        """The main dtype, that of the blocks."""
        return self.dtypes[0]

    @property
    def note(self) -> str | None:
        """What was assumed, or how to know more where the speed is not known."""
        if self.peak is None:
            return "nobody tells what this device can do: calibrate=True measures it"
        missing = [dtype for dtype in self.dtypes if self.peak.of(dtype) is None]
        if missing:
            return f"no rate of {missing[0]} is known for this device: choose another dtype"
        return self.peak.note

    def sol(self, tokens: float, duration_ms: float) -> float | None:
        """Percent of the speed of light of a step; None where it cannot be known."""
        return _percent(tokens, duration_ms, self.tps)

    def mfu(self, tokens: float, duration_ms: float) -> float | None:
        """Model FLOP utilisation of a step, in percent; None where it cannot be known."""
        return _percent(tokens, duration_ms, self.useful_tps)

    def fields(self) -> dict[str, Any]:
        """The fields of the ``sol`` record."""
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
        if self.measured is not None:
            facts["measured_peak"] = self.measured.tflops
        return {name: value for name, value in facts.items() if value is not None}


def speed_of_light(
    model_or_config: Any,
    *,
    sequence_length: int | None = None,
    dtype: object = "bf16",
    world_size: int = 1,
    calibrate: bool = False,
    device: Any = None,
    inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    trained: Trained | None = None,
    recompute: Recompute = "none",
    lm_head_dtype: object = None,
    attention_dtype: object = None,
) -> SpeedOfLight:
    """How many tokens per second ``world_size`` devices could train on at most.

    Takes a decoder transformer's configuration (a mapping or an object), or a model that carries
    one as ``config``. Any other model needs ``inputs=``, the batch of one step, whose work is
    counted: a tuple of what the model is called with, or a mapping of names to it. Which weights
    are trained is seen on a model and told by ``trained`` for a configuration. ``calibrate=True``
    measures the device as well; a CPU, and a GPU nobody has figures of, are known only so. Prints
    nothing; hand the answer to ``run.log_sol_estimate``.
    """
    if world_size < 1:
        raise UsageError(f"world_size={world_size} must be 1 or more.")
    main = dtype_name(dtype)
    small = "bf16" if main in _KEEPS_HALF else main
    dtypes = (main, dtype_name(lm_head_dtype or small), dtype_name(attention_dtype or small))
    flops = _flops(model_or_config, sequence_length, inputs, trained, recompute)
    chosen = chosen_device(device or _device_of(model_or_config))
    peak = device_peak(chosen)
    measured = calibration.calibrate(main, device=chosen) if calibrate else None
    if peak is None and measured is not None:
        peak = _measured_peak(measured, dtypes, chosen)
    return SpeedOfLight(
        flops=flops,
        dtypes=dtypes,
        device=device_title(chosen),
        world_size=world_size,
        peak=peak,
        measured=measured,
        tps=_tps([part.total for part in flops.parts], dtypes, peak, world_size),
        useful_tps=_tps([flops.useful], dtypes[:1], peak, world_size),
    )


def _measured_peak(main: Calibration, dtypes: Sequence[str], device: torch.device) -> Peak:
    """What a device that no paper tells of was measured to do."""
    rates = {main.dtype: main.tflops}
    for dtype in set(dtypes) - rates.keys():
        rates[dtype] = calibration.calibrate(dtype, device=device).tflops
    return Peak(main.device, rates, "measured here")


def _flops(
    model_or_config: Any,
    sequence_length: int | None,
    inputs: Sequence[Any] | Mapping[str, Any] | None,
    trained: Trained | None,
    recompute: Recompute,
) -> Flops:
    is_model = isinstance(model_or_config, nn.Module)
    if inputs is not None:
        if not is_model:
            raise UsageError("inputs= are for a model; a configuration needs sequence_length=.")
        if isinstance(inputs, Mapping):
            return count_flops(model_or_config, **inputs).per_token()
        if isinstance(inputs, (str, bytes)) or not isinstance(inputs, Sequence):
            raise UsageError(
                f"inputs= is a {type(inputs).__name__}: use a tuple of what the model is called"
                " with, as in inputs=(batch,), or a mapping of its named inputs."
            )
        return count_flops(model_or_config, *inputs).per_token()
    config = getattr(model_or_config, "config", None) if is_model else model_or_config
    if config is None or (is_model and not is_shaped(config)):
        raise UsageError(
            "this model carries no transformer's config: give inputs=, the batch of one step, or"
            " the configuration itself."
        )
    if sequence_length is None:
        raise UsageError("sequence_length= is needed: how many tokens one sequence has.")
    if trained is None and is_model:
        trained = trained_of(model_or_config)
    return flops_per_token(
        config, sequence_length=sequence_length, trained=trained, recompute=recompute
    )


def trained_of(model: nn.Module) -> Trained:
    """Which weights of a transformer get gradients, as its parameters say.

    Matrices outside embeddings and output layer are the blocks'; names with ``lora_`` adapters.
    """
    outer = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    found = output_layer(model)
    head = None if found is None else found[1].weight
    matrices = [(n, p) for n, p in model.named_parameters() if p.ndim >= 2]
    inner = [(n, p) for n, p in matrices if id(p) not in outer and p is not head]
    blocks = [p for n, p in inner if _ADAPTER not in n]
    total = sum(p.numel() for p in blocks)
    return Trained(
        blocks=_num_trained(blocks) / total if total else 1.0,
        lm_head=head is not None and head.requires_grad,
        embeddings=any(p.requires_grad for _, p in matrices if id(p) in outer),
        adapters=_num_trained(p for n, p in inner if _ADAPTER in n),
        passed=_share_passed(model, head),
    )


def _share_passed(model: nn.Module, head: torch.Tensor | None) -> float | None:
    """The share of the layers from the first trained weight on; None where no layers are found.

    Weights stand in the order of the forward pass: one before the layers is below them.
    """
    layers = _layers(model)
    if layers is None:
        return None
    number = {id(p): index for index, layer in enumerate(layers) for p in layer.parameters()}
    is_above = False
    first = len(layers)
    for weight in model.parameters():
        is_above = is_above or id(weight) in number
        if weight.requires_grad and weight is not head:
            first = min(first, number.get(id(weight), first if is_above else 0))
    is_tied = any(m.weight is head for m in model.modules() if isinstance(m, nn.Embedding))
    if is_tied and head is not None and head.requires_grad:
        first = 0
    return 1 - first / len(layers)


def _layers(model: nn.Module) -> Sequence[nn.Module] | None:
    """The layers of the row of equal modules with the most weights: a decoder's blocks."""
    rows = [
        list(module)
        for module in model.modules()
        if isinstance(module, (nn.ModuleList, nn.Sequential))
        and len({type(layer) for layer in module}) == 1
    ]
    sizes = [sum(p.numel() for layer in row for p in layer.parameters()) for row in rows]
    # Of equal ones the first, which is the outer one.
    best = max(range(len(rows)), key=lambda index: sizes[index], default=None)
    return None if best is None or not sizes[best] else rows[best]


def _num_trained(weights: Iterable[nn.Parameter]) -> int:
    return sum(weight.numel() for weight in weights if weight.requires_grad)


def _device_of(model: Any) -> Any:
    """The GPU a model is on; None for one on the CPU, which may yet be moved."""
    if not isinstance(model, nn.Module):
        return None
    return next((p.device for p in model.parameters() if p.is_cuda), None)


def _tps(
    parts: Sequence[float], dtypes: Sequence[str], peak: Peak | None, world_size: int
) -> float | None:
    rates = [None if peak is None else peak.of(dtype) for dtype in dtypes]
    seconds = 0.0
    for work, rate in zip(parts, rates, strict=True):
        if rate is None:
            return None
        seconds += work / (rate * 1e12)
    return world_size / seconds if seconds > 0 else None


def _percent(tokens: float, duration_ms: float, tps: float | None) -> float | None:
    if tps is None or not duration_ms > 0:
        return None
    return 100.0 * tokens / (tps * duration_ms / 1000.0)
