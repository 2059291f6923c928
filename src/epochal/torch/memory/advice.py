"""What to try when memory is short, from what it is used for.

Every threshold is a share of what the device has: 2 GiB are a quarter of one GPU and a hundredth
of another.
"""

from __future__ import annotations

from epochal.format import format_bytes
from epochal.torch.memory.segments import MemorySegments

# Beyond this, activations are what a smaller batch or recomputing would free most of.
_ACTIVATIONS = 0.4
# Adam keeps two numbers for each weight: with weights and gradients beside it, a quarter is much.
_OPTIMIZER = 0.25
_GRADIENTS = 0.15
_WEIGHTS = 0.4
# What the allocator holds and nothing uses; normal is a few percent.
_RESERVED = 0.1
# A CUDA context takes some 500 MB, communication buffers about as much.
_OTHER = 0.15
_NEARLY_FULL = 0.05
_HALF_EMPTY = 0.5


def memory_advice(memory: MemorySegments, *, is_full: bool = False) -> list[str]:
    """Sentences on what stands out, most useful first; ``is_full`` after an allocation failed."""
    shares = {name: memory.bytes_of(name) / max(1, memory.capacity) for name in _NAMES}
    said = [
        sentence.format(size=format_bytes(memory.bytes_of(name)), share=f"{shares[name]:.0%}")
        for name, limit, sentence in _RULES
        if shares[name] > limit and (memory.gpu is not None or name not in _OF_GPUS)
    ]
    if is_full and not said:
        said.append(
            "Nothing stands out: use a smaller batch with more accumulation steps, shorter "
            "sequences, or activation checkpointing."
        )
    if memory.gpu is not None and not is_full:
        if shares["free"] < _NEARLY_FULL:
            said.append(
                f"Only {format_bytes(memory.bytes_of('free'))} are left at the peak: one longer "
                "batch may be too much."
            )
        elif shares["free"] > _HALF_EMPTY:
            said.append(
                f"{format_bytes(memory.bytes_of('free'))} ({shares['free']:.0%}) are never used: a "
                "larger batch would fit."
            )
    return said


_RULES = (
    (
        "activations",
        _ACTIVATIONS,
        "Activations take {size} ({share}): use a smaller batch with more accumulation steps, "
        "shorter sequences, or activation checkpointing (torch.utils.checkpoint).",
    ),
    (
        "optimizer",
        _OPTIMIZER,
        "The optimizer takes {size} ({share}): shard it (FSDP, ZeRO), keep its state in 8 bits, or "
        "move it to main memory.",
    ),
    (
        "weights",
        _WEIGHTS,
        "The weights take {size} ({share}): keep them in bfloat16, shard them (FSDP), or train "
        "adapters on quantised weights.",
    ),
    (
        "gradients",
        _GRADIENTS,
        "Gradients take {size} ({share}): clear them with zero_grad(set_to_none=True) before the "
        "next forward pass, shard them (FSDP, ZeRO-2), or freeze what need not train.",
    ),
    (
        "reserved",
        _RESERVED,
        "The allocator holds {size} ({share}) that nothing uses, in pieces: set "
        "PYTORCH_ALLOC_CONF=expandable_segments:True (PYTORCH_CUDA_ALLOC_CONF in torch before 2.9),"
        " and let batches vary less in length.",
    ),
    (
        "other",
        _OTHER,
        "{size} ({share}) belong to other processes, libraries or the CUDA context: see nvidia-smi "
        "for who else is on this device.",
    ),
)
_OF_GPUS = frozenset({"reserved", "other"})
_NAMES = (*(name for name, _, _ in _RULES), "free")
