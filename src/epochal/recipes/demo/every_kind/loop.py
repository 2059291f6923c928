"""What the ranks of the made-up run write while they train."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from epochal.recipes.demo.every_kind import scenario, timing
from epochal.recipes.demo.every_kind.loading import loading_records
from epochal.recipes.demo.every_kind.opening import opening_records
from epochal.recipes.demo.every_kind.record_writer import RecordWriter
from epochal.recipes.demo.every_kind.routing import routing_records
from epochal.recipes.demo.every_kind.scenario import Attempt, Step
from epochal.records import Record
from epochal.run import samples, typed
from epochal.run.accepted import strict_values

# Names that break a reader which builds paths, HTML, regular expressions or formats from them.
ODD_NAMES = (
    'layer "0"/attention.weight',
    "it's/a back\\slash",
    "größe/mäßig 你好 🚂",
    "<b>bold</b>&amp;",
    "a/b/c/d/e",
    "100% {braces} %s $PATH",
    "two\nlines\tand a tab",
    " spaces around ",
    "x" * 300,
)


def write_rank_zero(writer: RecordWriter, attempt: Attempt, *, seed: int) -> None:
    """Everything rank 0 writes in one attempt, up to its end."""
    begin = writer.at(attempt.begins_s)
    if attempt.number == 1:
        for record in opening_records(begin, seed=seed):
            writer.write(record)
    else:
        writer.write(
            {"log": "resume", "t": begin, "attempt": attempt.number, "step": attempt.first}
        )
    rng = np.random.default_rng((seed, attempt.number))
    for figures in scenario.make_steps(attempt, rank=0, seed=seed):
        _write_spans(writer, attempt, figures)
        _write_step(writer, attempt, figures, rng)
        _write_measurements(writer, figures, seed=seed)
    if attempt.end == scenario.NUM_STEPS:
        at = writer.at(attempt.ends_s)
        writer.write({"log": "summary", "t": at, "name": "verdict", "value": "worth a longer run"})
        end = {"log": "finish", "t": at, "status": "finished"}
        writer.write({**end, "last_step": attempt.end - 1})


def write_other_rank(writer: RecordWriter, attempt: Attempt, *, rank: int, seed: int) -> None:
    """The steps of another rank: its own loss and time, and the wait for the data."""
    rng = np.random.default_rng((seed, attempt.number, rank, 1))
    for figures in scenario.make_steps(attempt, rank=rank, seed=seed):
        at = writer.at(figures.seconds)
        writer.write(_step(at, figures))
        wait_ms = float(rng.uniform(1, 9))
        writer.write(
            {"log": "metrics", "t": at, "step": figures.step, "m": {"data/wait_ms": wait_ms}}
        )
    if attempt.end == scenario.NUM_STEPS:
        writer.write({"log": "finish", "t": writer.at(attempt.ends_s), "status": "finished"})


def _write_step(
    writer: RecordWriter, attempt: Attempt, figures: Step, rng: np.random.Generator
) -> None:
    at, step = writer.at(figures.seconds), figures.step
    writer.write(_step(at, figures))
    if step % 5 == 0:
        writer.write({"log": "metrics", "t": at, "step": step, "m": _free_metrics(step, rng)})
    if step % 50 == 49:
        for record in _occasional(writer, at, figures, rng):
            writer.write(record)
    if (step + 1) % scenario.STEPS_PER_EPOCH == 0:
        writer.write(_epoch(at, step))
        checkpoint = {"log": "event", "t": at, "name": "checkpoint", "step": step}
        writer.write({**checkpoint, "path": f"checkpoints/{step + 1}.safetensors"})
    if step == attempt.first + 40:
        # Logged late: steps may come in any order.
        writer.write({"log": "metrics", "t": at, "step": step - 3, "m": {"data/wait_ms": 2.5}})


def _write_spans(writer: RecordWriter, attempt: Attempt, figures: Step) -> None:
    """What took long within a step has ended before the step has."""
    at, step = writer.at(figures.seconds), figures.step
    if (step + 1) % scenario.STEPS_PER_EPOCH == 0:
        for record in timing.span_records(at, step):
            writer.write(record)
    if step == scenario.SLOW_STEP and attempt is scenario.SECOND:
        writer.write(timing.stall_span(at))


def _write_measurements(writer: RecordWriter, figures: Step, *, seed: int) -> None:
    at, step = writer.at(figures.seconds), figures.step
    if step % 10 == 9:
        for record in routing_records(at, step, seed=seed):
            writer.write(record)
    if (step + 1) % scenario.STEPS_PER_EPOCH == 0:
        for record in loading_records(at, step, seed=seed):
            writer.write(record)
    if (step + 1) % timing.PHASE_STEPS == 0:
        writer.write(timing.phases_record(at, figures, seed=seed))


def _step(at: float, figures: Step) -> Record:
    return typed.step_record(
        at,
        strict_values(),
        figures.step,
        figures.epoch,
        scenario.BATCH_TOKENS // 2,
        figures.duration_ms,
        figures.norm,
        figures.loss,
        figures.lr,
        norm_clipped=min(1.0, figures.norm),
        kd_loss=0.1 * scenario.expected_loss(figures.step),
        sol=round(41.0 * 1900.0 / figures.duration_ms, 2),
        phase=scenario.phase(figures.step),
        moe={"aux_loss": 0.012, "z_loss": 0.0011},
    )


def _free_metrics(step: int, rng: np.random.Generator) -> dict[str, float]:
    metrics = {
        "data/wait_ms": float(rng.uniform(1, 9)),
        "data/tokens_seen": float((step + 1) * scenario.BATCH_TOKENS),
        **{name: float(place + rng.random()) for place, name in enumerate(ODD_NAMES)},
    }
    if step >= scenario.LATE_METRIC_FROM:
        metrics["late/score"] = 100.0 * (1.0 - math.exp(-step / 300.0))
    if step == scenario.NAN_STEP:
        metrics["data/wait_ms"] = -math.inf
    return metrics


def _occasional(
    writer: RecordWriter, at: float, figures: Step, rng: np.random.Generator
) -> Iterator[Record]:
    step = figures.step
    loss = scenario.expected_loss(step) + 0.1
    yield typed.eval_record(
        at,
        strict_values(),
        step,
        figures.epoch,
        40 * 2048,
        812.5,
        loss,
        metrics={"eval/accuracy": 1.0 - loss / 12.0},
    )
    for name, width in (("weights/blocks.0", 0.02 + step / 20_000), ("gradients/blocks.0", 1e-3)):
        values = width * rng.standard_normal(2000)
        yield samples.histogram_record(at, name=name, values=values, step=step, bins=64)
    maxes = {"blocks.0.attention": 3.5 + step / 100, "blocks.11.mlp": 12.25 + step / 50}
    yield {"log": "abs-maxes", "t": at, "step": step, "values": maxes}
    yield typed.text_record(at, name="sample", text=_sample(step), step=step)
    pixels = rng.integers(0, 256, size=(24, 32, 3), dtype=np.uint8)
    yield samples.image_record(
        at, folder=writer.folder, name="noise", image=pixels, step=step, caption='made up, "noise"'
    )


def _sample(step: int) -> str:
    return f'made up at step {step}: "quoted", <i>not slanted</i>,\nsecond line — größer 🚂\n'


def _epoch(at: float, step: int) -> Record:
    loss = scenario.expected_loss(step)
    record = typed.epoch_record(
        at,
        strict_values(),
        (step + 1) // scenario.STEPS_PER_EPOCH,
        scenario.STEPS_PER_EPOCH * scenario.SECONDS_PER_STEP,
        {"loss": loss, "val_loss": loss + 0.1},
        total=scenario.NUM_EPOCHS,
    )
    record["resources"] = {
        "cpu_pct": 31.5,
        "ram_used": 48 * 2**30,
        "ram_total": 256 * 2**30,
        "gpu_pct": 93.0,
        "vram_active_bytes": 44 * 2**30,
        "vram_allocated_bytes": 61 * 2**30,
        "vram_total": 160 * 2**30,
        "vram_spill": 0,
    }
    record["gpus"] = [
        {"rank": rank, "device": rank, "batches": 50, "share": 0.5, "throughput": 16.4 - rank}
        for rank in range(2)
    ]
    return record
