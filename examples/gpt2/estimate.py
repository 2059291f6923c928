"""Estimates what a run will take, from a few measured steps: time, tokens, disk and memory."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator

from epochal.records.format import format_bytes, format_count, format_duration
from epochal.torch import clip_grad_norm, cuda_peak_reserved_bytes
from flags import Flags
from training import Training

_WARM_UP, _MEASURED = 2, 5
# Bytes on disk, measured on a run of 95,365 steps and on runs of 10 and 200 steps.
FILE_BYTES, TENSOR_BYTES = 25_000, 1_200
STEP_BYTES, EVAL_BYTES, HISTOGRAM_BYTES = 33, 200, 112
STEP_BOARD_BYTES, HISTOGRAM_BOARD_BYTES = 310, 1_200
# The weights and the two averages of AdamW, in float32.
_BYTES_PER_PARAMETER = 12


def estimate(training: Training) -> Iterator[str]:
    """Measure a few passes on every rank and yield the lines of the estimate."""
    flags, world_size = training.flags, training.process.world_size
    pass_s, update_s, eval_s, peak_bytes = _measure(training)
    step_s = training.accumulation * pass_s + update_s
    num_evals = num_evaluations(flags)
    training_s, evaluating_s = flags.last_step * step_s, num_evals * eval_s
    yield f"{format_count(training.model.num_parameters)} parameters on {training.process.device}"
    yield (
        f"step      {format_duration(step_s)} ({training.accumulation} passes of "
        f"{format_duration(pass_s)}), {format_count(flags.total_batch_size / step_s)} tokens/s"
    )
    yield (
        f"time      {format_duration(training_s + evaluating_s)}: {flags.last_step} steps "
        f"{format_duration(training_s)}, {num_evals} evaluations {format_duration(evaluating_s)}"
    )
    others = [number for number in (2, 4, 8) if number > world_size]
    times = [f"{n} ranks {format_duration(training_s * world_size / n)}" for n in others]
    if times:
        yield f"          training at best on {', '.join(times)}"
    yield f"tokens    {format_count(flags.last_step * flags.total_batch_size)}"
    num_tensors = sum(1 for _ in training.model.parameters())
    record, board = record_bytes(flags, num_tensors=num_tensors)
    events = f", {format_bytes(board)} of TensorBoard events"
    size = training.model.num_parameters * _BYTES_PER_PARAMETER
    rolling = min(flags.keep_checkpoints, -(-flags.last_step // flags.checkpoint_freq))
    count = rolling + flags.last_step // flags.steps_per_epoch + 1  # rolling, epochs, best
    yield (
        f"disk      {format_bytes(record)} of records"
        f"{events if 'tensorboard' in flags.trackers else ''}, "
        f"{format_bytes(count * size)} of checkpoints ({count} of {format_bytes(size)})"
    )
    yield f"memory    {format_bytes(peak_bytes)} at most for each rank"


def num_evaluations(flags: Flags) -> int:
    """The start, every eval_freq steps, and the end."""
    return 1 + -(-flags.last_step // flags.eval_freq)


def record_bytes(flags: Flags, *, num_tensors: int) -> tuple[int, int]:
    """Return the size of the run's sealed records and of its TensorBoard event file."""
    watched = -(-flags.last_step // flags.histogram_freq) if flags.histogram_freq else 0
    tensors, histograms = num_tensors if watched else 0, 2 * num_tensors * watched
    evaluations = num_evaluations(flags) * EVAL_BYTES
    record = FILE_BYTES + tensors * TENSOR_BYTES + evaluations
    record += flags.last_step * STEP_BYTES + histograms * HISTOGRAM_BYTES
    board = flags.last_step * STEP_BOARD_BYTES + evaluations + histograms * HISTOGRAM_BOARD_BYTES
    return record, board


def _measure(training: Training) -> tuple[float, float, float, int]:
    """Return the seconds of a pass, an update and an evaluation, and the peak memory."""

    def one_pass() -> None:
        batch = training.batches.next()
        with training.process.autocast():
            loss = training.trained(batch.inputs, batch.targets)
        loss.backward()

    def one_update() -> None:
        clip_grad_norm(training.model, training.flags.grad_clip)
        training.optimizer.step()

    for group in training.optimizer.param_groups:
        group["lr"] = 0.0
    passes = [_seconds(training, one_pass) for _ in range(_WARM_UP + _MEASURED)]
    updates = [_seconds(training, one_update) for _ in range(_WARM_UP + 1)]
    eval_s = _seconds(training, training.evaluation.validation_loss)
    if training.process.device.type == "cuda":
        peak = cuda_peak_reserved_bytes()
    else:
        unit = 1 if sys.platform == "darwin" else 1024
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return statistics.median(passes[_WARM_UP:]), updates[-1], eval_s, peak


def _seconds(training: Training, work: Callable[[], object]) -> float:
    training.process.synchronize()
    started = time.perf_counter()
    work()
    training.process.synchronize()
    return time.perf_counter() - started
