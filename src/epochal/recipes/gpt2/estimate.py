"""What a run will take, from a few measured steps: time, tokens, disk and memory."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from epochal.format import format_bytes, format_count, format_duration
from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.setup import Training
from epochal.torch.clip import clip_grad_norm
from epochal.torch.memory.allocator import cuda_peak_reserved_bytes
from epochal.torch.memory.leaks import rss_kb

_WARM_UP, _MEASURED = 2, 5
# Bytes on disk, measured on the whole 95,365-step run (benchmarks/gpt2_disk.txt) and on runs of 10
# and 200 steps: a sealed file begins with what it holds, some columns for each watched tensor.
FILE_BYTES, TENSOR_BYTES = 25_000, 1_200
STEP_BYTES, EVAL_BYTES, HISTOGRAM_BYTES = 33, 200, 112
STEP_BOARD_BYTES, HISTOGRAM_BOARD_BYTES = 310, 1_200
# Weights, and the two averages AdamW keeps of each, in float32.
_BYTES_PER_PARAMETER = 12


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of the parts of a training, and the bytes it held at most."""

    pass_s: float
    update_s: float
    evaluation_s: float
    peak_bytes: int


def estimate(training: Training) -> Iterator[str]:
    """Measure a few passes on every rank, and say what the whole run comes to; nothing is kept."""
    flags, measured = training.flags, measure(training)
    step_s = training.accumulation * measured.pass_s + measured.update_s
    num_evaluations = evaluations_of(flags)
    training_s = flags.last_step * step_s
    judging_s = num_evaluations * measured.evaluation_s
    whole_s = training_s + judging_s
    tokens = flags.last_step * flags.total_batch_size
    yield f"{format_count(training.model.num_parameters)} parameters on {training.place.device}"
    yield (
        f"step      {format_duration(step_s)} ({training.accumulation} passes of "
        f"{format_duration(measured.pass_s)}), "
        f"{format_count(flags.total_batch_size / step_s)} tokens/s"
    )
    yield (
        f"time      {format_duration(whole_s)}: {flags.last_step} steps "
        f"{format_duration(training_s)}, {num_evaluations} evaluations "
        f"{format_duration(judging_s)}"
    )
    world_size = training.place.world_size
    larger = [number for number in (2, 4, 8) if number > world_size]
    times = [format_duration(training_s * world_size / number) for number in larger]
    at_best = [f"{number} ranks {text}" for number, text in zip(larger, times, strict=True)]
    if at_best:
        yield f"          training at best on {', '.join(at_best)}"
    yield f"tokens    {format_count(tokens)}"
    yield from _disk_lines(training)
    yield f"memory    {format_bytes(measured.peak_bytes)} at most, of each rank"


def measure(training: Training) -> Measured:
    """Time passes, an update and one batch of validation."""
    passes = [_timed(training, _one_pass) for _ in range(_WARM_UP + _MEASURED)]
    updates = [_timed(training, _one_update) for _ in range(_WARM_UP + 1)]
    begun = time.perf_counter()
    training.evaluation.validation_loss()
    training.place.synchronize()
    judging_s = time.perf_counter() - begun
    is_cuda = training.place.device.type == "cuda"
    peak = cuda_peak_reserved_bytes() if is_cuda else rss_kb() * 1024
    return Measured(statistics.median(passes[_WARM_UP:]), updates[-1], judging_s, peak)


def evaluations_of(flags: Flags) -> int:
    """How often the model is judged: at the start, every eval_freq steps, and at the end."""
    return 1 + -(-flags.last_step // flags.eval_freq)


def record_bytes(flags: Flags, *, num_tensors: int) -> tuple[int, int]:
    """The run's record on disk, sealed and without telemetry, and its TensorBoard event file."""
    tensors = num_tensors if flags.histogram_freq else 0
    watched = -(-flags.last_step // flags.histogram_freq) if flags.histogram_freq else 0
    histograms = 2 * num_tensors * watched
    evaluations = evaluations_of(flags) * EVAL_BYTES
    steps = flags.last_step
    return (
        FILE_BYTES
        + tensors * TENSOR_BYTES
        + steps * STEP_BYTES
        + evaluations
        + histograms * HISTOGRAM_BYTES,
        steps * STEP_BOARD_BYTES + evaluations + histograms * HISTOGRAM_BOARD_BYTES,
    )


def _disk_lines(training: Training) -> Iterator[str]:
    flags = training.flags
    num_tensors = sum(1 for _ in training.model.parameters())
    record, board = record_bytes(flags, num_tensors=num_tensors)
    forwarded = (
        f", {format_bytes(board)} of TensorBoard events" if "tensorboard" in flags.trackers else ""
    )
    size = training.model.num_parameters * _BYTES_PER_PARAMETER
    rolling = min(flags.keep_checkpoints, -(-flags.last_step // flags.checkpoint_freq))
    epochs = flags.last_step // flags.steps_per_epoch
    # Best may be one that would have gone.
    count = rolling + epochs + 1
    yield (
        f"disk      {format_bytes(record)} of records{forwarded}, "
        f"{format_bytes(count * size)} of checkpoints ({count} of {format_bytes(size)})"
    )


def _timed(training: Training, work: Callable[[Training], None]) -> float:
    training.place.synchronize()
    begun = time.perf_counter()
    work(training)
    training.place.synchronize()
    return time.perf_counter() - begun


def _one_pass(training: Training) -> None:
    batch = training.batches.next()
    with training.place.autocast():
        loss = training.trained(batch.inputs, batch.targets)
    loss.backward()


def _one_update(training: Training) -> None:
    clip_grad_norm(training.model, training.flags.grad_clip)
    # A rate of 0: what is measured is the work, and the weights may still be used.
    for group in training.optimizer.param_groups:
        group["lr"] = 0.0
    training.optimizer.step()
    for parameter in training.model.parameters():
        parameter.grad = torch.zeros_like(parameter)
