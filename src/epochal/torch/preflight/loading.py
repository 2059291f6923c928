"""The question to the loader: do batches repeat, and how long does a step wait for them?"""

from __future__ import annotations

import hashlib
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import Answer, CannotTellError, failed, passed
from epochal.torch.preflight.subject import Subject
from epochal.torch.structure import tensors_in

_MOST_BATCHES = 16
# So much of each batch is hashed.
_MOST_BYTES = 65_536
_SHARE_OF_TIME = 0.25
# A step that waits for more than this share, and for so long, is held up by its data.
_WAITING, _LONG_S = 0.5, 0.05


def ask_loader(subject: Subject) -> Answer:
    """Do batches repeat, and what share of a step is spent waiting for data?"""
    loader = subject.loader
    if loader is None:
        raise CannotTellError("no loader was given: pass loader=")
    if iter_is_consumed(loader):
        raise CannotTellError("the loader is an iterator: reading it would use up its batches")
    with _kept(loader):
        hashes, sizes, waits = _read(loader, _SHARE_OF_TIME * max(subject.seconds_left, 0.0))
    if len(hashes) < 2:
        raise CannotTellError(f"the loader gave {len(hashes)} batches in this time")
    first = {one: hashes.index(one) for one in hashes}
    again = [index for index, one in enumerate(hashes) if first[one] != index]
    wait_s = statistics.median(waits[1:])
    facts = {"batches": len(hashes), "repeated": len(again), "wait_s": wait_s}
    if again and max(sizes) > 1:
        same = first[hashes[again[0]]] + 1
        reason = f"batch {again[0] + 1} has the content of batch {same}"
        return failed(f"{reason}; {len(again)} of {len(hashes)} batches repeat", **facts)
    step_s, _ = attempt(_seconds_of_step, subject)
    if step_s is None:
        return passed(f"{len(hashes)} batches differ; without a loss no step is timed", **facts)
    is_parallel = getattr(loader, "num_workers", 0) > 0
    waiting = max(wait_s - step_s, 0.0) if is_parallel else wait_s
    share = waiting / max(waiting + step_s, 1e-9)
    facts |= {"step_s": step_s, "share": share}
    times = f"{1000 * wait_s:.3g} ms for a batch, {1000 * step_s:.3g} ms for its passes"
    if share > _WAITING and waiting > _LONG_S:
        return failed(
            f"a step waits for data for {100 * share:.0f} % of its time: {times}", **facts
        )
    return passed(f"{len(hashes)} batches differ; {100 * share:.0f} % waiting: {times}", **facts)


def iter_is_consumed(loader: Any) -> bool:
    """Whether reading a loader takes its batches away from the training."""
    return hasattr(loader, "__next__") or getattr(loader, "_iterator", None) is not None


@contextmanager
def _kept(loader: Any) -> Iterator[None]:
    """Put back the generators of a loader, and end workers that would wait for the next epoch."""
    parts = (loader, getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None))
    generators = [getattr(one, "generator", None) for one in parts]
    states = [(g, g.get_state()) for g in generators if isinstance(g, torch.Generator)]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)
        if getattr(loader, "_iterator", None) is not None:
            loader._iterator = None


def _read(loader: Any, seconds: float) -> tuple[list[bytes], list[int], list[float]]:
    hashes: list[bytes] = []
    sizes: list[int] = []
    waits: list[float] = []
    ends_at = time.monotonic() + seconds
    batches = iter(loader)
    while len(hashes) < _MOST_BATCHES and time.monotonic() < ends_at:
        began = time.monotonic()
        batch = next(batches, None)
        if batch is None:
            break
        waits.append(time.monotonic() - began)
        tensors = tensors_in(dict(batch) if hasattr(batch, "items") else batch)
        if not tensors:
            raise CannotTellError("the batches of the loader have no tensors")
        hashes.append(_hash(tensors))
        sizes.append(max(one.shape[0] if one.dim() else 1 for one in tensors))
    return hashes, sizes, waits


def _hash(tensors: list[Tensor]) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    left = _MOST_BYTES
    for tensor in tensors:
        count = max(1, left // max(tensor.element_size(), 1))
        row = tensor.detach().reshape(-1)[:count].cpu().contiguous()
        digest.update(row.view(torch.uint8).numpy().tobytes())
        left = max(0, left - row.numel() * row.element_size())
    return digest.digest()


def _seconds_of_step(subject: Subject) -> float:
    """The time of a forward and a backward pass; of the forward pass, if there is no loss."""
    times = []
    for _ in range(2):
        began = time.monotonic()
        with subject.changing():
            loss = subject.loss()
            if loss.requires_grad and subject.is_copy:
                loss.backward()  # type: ignore[no-untyped-call]
            float(loss.detach())  # waits for a GPU
            times.append(time.monotonic() - began)
    return min(times)
