"""Writes an artificial run that holds every kind of record, with the accidents of a real one.

Pages, exports and readers are tried on it. ``every_kind_scenario.py`` says what happens when.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from epochal.exchange.media.pixels import pixels_of
from epochal.journal.blobs import blob_record, encode_png, store_blob
from epochal.journal.layout import LOOP, PartName, RunFolder, create_run_folder, write_json
from epochal.journal.line import encode, now
from epochal.journal.process import part_header, process_identity
from epochal.journal.writer import JournalWriter
from epochal.records import FORMAT_VERSION, Record
from epochal.run import typed
from epochal.run.accepted import strict_values
from epochal.run.histogram import histogram_record
from epochal.run.provenance import describe_process
from tests.doubles import every_kind_scenario as scenario
from tests.doubles.every_kind_scenario import FIRST, SECOND, Attempt, Step

PROJECT = "demo"
NODE = "demo-node"
NOTES = (
    "A demonstration: every figure in this run is made up. It holds every kind of record, two"
    " ranks, two GPUs, a restart, a NaN, a spike and names that are hard to show."
)


def write_every_kind(directory: str | Path, *, seed: int = 0, ended: float | None = None) -> Path:
    """Write the run below ``directory`` and give its folder.

    ``ended`` is when it is said to have ended, in Unix seconds; now when not given. The same seed
    and the same end give the same records, but for the process that wrote them.
    """
    folder, name = create_run_folder(Path(directory) / PROJECT, "every-kind")
    began = (now() if ended is None else ended) - scenario.DURATION_S
    identity = _identity(name, seed=seed, began=began)
    write_json(folder.identity, identity)
    for attempt in scenario.ATTEMPTS:
        _write_attempt(folder, attempt, identity, seed=seed)
    return folder.path


def _write_attempt(
    folder: RunFolder, attempt: Attempt, identity: dict[str, Any], *, seed: int
) -> None:
    def opened(writer: str, *, rank: int = 0) -> RecordWriter:
        return RecordWriter(folder, writer=writer, attempt=attempt, identity=identity, rank=rank)

    with opened(LOOP) as loop:
        write_rank_zero(loop, attempt, seed=seed)
    with opened("rank-0001", rank=1) as other:
        write_other_rank(other, attempt, rank=1, seed=seed)
    with opened(f"telemetry-{NODE}") as telemetry:
        write_telemetry(telemetry, attempt, seed=seed)
    with opened("findings") as findings:
        write_findings(findings, attempt)


def _identity(name: str, *, seed: int, began: float) -> dict[str, Any]:
    digest = hashlib.sha256(f"{name} {seed} {began:.3f}".encode()).hexdigest()
    return {
        "v": FORMAT_VERSION,
        "id": digest[:12],
        "name": name,
        "project": PROJECT,
        "created": round(began, 3),
        "tags": ["demo", "made up"],
        "notes": NOTES,
        "config": {**scenario.CONFIG, "seed": seed},
        "totals": {"steps": scenario.NUM_STEPS, "epochs": scenario.NUM_EPOCHS},
        "world_size": 2,
        "launch_id": None,
        **process_identity(),
        **describe_process(),
    }


class RecordWriter:
    """One writer in one attempt; a context manager that closes its file."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        writer: str,
        attempt: Attempt,
        identity: dict[str, Any],
        rank: int = 0,
    ) -> None:
        self.folder = folder
        self._began = float(identity["created"])
        self._identity = identity
        self._rank = rank
        self._attempt = attempt
        self._journal = JournalWriter(
            folder,
            writer=writer,
            attempt=attempt.number,
            header=self._header,
            on_fault=_refuse_loss,
        )
        self._journal.open()

    def at(self, seconds: float) -> float:
        """Unix time of a moment of the scenario, to the millisecond."""
        return round(self._began + seconds, 3)

    def write(self, record: Record) -> None:
        """Append one record; its ``t`` is one of :meth:`at`."""
        self._journal.append(encode(record), record["t"])

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def _header(self, part: PartName) -> bytes:
        identity = self._identity
        process = ("host", "boot_id", "pid_namespace", "pid", "pid_start")
        return part_header(
            part,
            identity=identity,
            rank=self._rank,
            t=self.at(self._attempt.begins_s),
            process={key: identity[key] for key in process},
            **({"config": identity["config"]} if part.writer == LOOP else {}),
        )


def _refuse_loss(sentence: str) -> None:
    raise AssertionError(sentence)


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
        for record in scenario.opening_records(begin, seed=seed):
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
        for record in scenario.span_records(at, step):
            writer.write(record)
    if step == scenario.SLOW_STEP and attempt is SECOND:
        writer.write(scenario.stall_span(at))


def _write_measurements(writer: RecordWriter, figures: Step, *, seed: int) -> None:
    at, step = writer.at(figures.seconds), figures.step
    if step % 10 == 9:
        for record in scenario.routing_records(at, step, seed=seed):
            writer.write(record)
    if (step + 1) % scenario.STEPS_PER_EPOCH == 0:
        for record in scenario.loading_records(at, step, seed=seed):
            writer.write(record)
    if (step + 1) % scenario.PHASE_STEPS == 0:
        writer.write(scenario.phases_record(at, figures, seed=seed))


def _step(at: float, figures: Step) -> Record:
    fields = {
        "epoch": figures.epoch,
        "step_tokens": scenario.BATCH_TOKENS // 2,
        "duration_ms": figures.duration_ms,
        "norm": figures.norm,
        "loss": figures.loss,
        "lr": figures.lr,
        "norm_clipped": min(1.0, figures.norm),
        "tokens_per_second": None,
        "kd_loss": 0.1 * scenario.expected_loss(figures.step),
        "sol": round(41.0 * 1900.0 / figures.duration_ms, 2),
        "phase": scenario.phase(figures.step),
        "moe_aux_loss": 0.012,
        "moe_z_loss": 0.0011,
    }
    return typed.record("step", at, strict_values(), fields, step=figures.step)


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
    fields = {
        "epoch": figures.epoch,
        "eval_tokens": 40 * 2048,
        "duration_ms": 812.5,
        "loss": loss,
        "tokens_per_second": None,
        "m": {"eval/accuracy": 1.0 - loss / 12.0},
    }
    yield typed.record("eval", at, strict_values(), fields, step=step)
    for name, width in (("weights/blocks.0", 0.02 + step / 20_000), ("gradients/blocks.0", 1e-3)):
        values = width * rng.standard_normal(2000)
        yield histogram_record(at, name=name, values=values, step=step, bins=64)
    maxes = {"blocks.0.attention": 3.5 + step / 100, "blocks.11.mlp": 12.25 + step / 50}
    yield {"log": "abs-maxes", "t": at, "step": step, "values": maxes}
    yield {"log": "text", "t": at, "step": step, "name": "sample", "text": _sample(step)}
    pixels = rng.integers(0, 256, size=(24, 32, 3), dtype=np.uint8)
    data = encode_png(pixels_of(pixels))
    record = blob_record("noise", data, t=at, step=step, media_type="image/png")
    store_blob(writer.folder, record["file"], data)
    yield {**record, "caption": 'made up, "noise"'}
    yield {**record, "log": "file", "name": "noise.png"}


def _sample(step: int) -> str:
    return f'made up at step {step}: "quoted", <i>not slanted</i>,\nsecond line — größer 🚂\n'


def _epoch(at: float, step: int) -> Record:
    loss = scenario.expected_loss(step)
    fields = {
        "total": scenario.NUM_EPOCHS,
        "duration_s": scenario.STEPS_PER_EPOCH * scenario.SECONDS_PER_STEP,
        "m": {"loss": loss, "val_loss": loss + 0.1},
    }
    epoch = (step + 1) // scenario.STEPS_PER_EPOCH
    record = typed.record("epoch", at, strict_values(), fields, epoch=epoch)
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


EVERY_S = 5.0
_GIB = 2**30


def write_telemetry(writer: RecordWriter, attempt: Attempt, *, seed: int) -> None:
    """Everything the node's telemetry writes in one attempt."""
    rng = np.random.default_rng((seed, attempt.number, 2))
    seen = _seen(writer, attempt, seed=seed)
    for seconds in np.arange(attempt.begins_s, attempt.ends_s, EVERY_S):
        at = writer.at(float(seconds))
        while seen and seen[0]["t"] <= at:
            writer.write(seen.pop(0))
        step = attempt.first + int((seconds - attempt.begins_s) / scenario.SECONDS_PER_STEP)
        writer.write(_host(at, rng))
        for gpu in range(scenario.NUM_GPUS):
            is_hot = gpu == scenario.HOT_GPU and attempt.number == 1 and step in scenario.HOT_STEPS
            writer.write(_gpu(at, gpu, is_hot=is_hot, rng=rng))


def _seen(writer: RecordWriter, attempt: Attempt, *, seed: int) -> list[Record]:
    """What the companion notes when it happens, in the order of time."""
    if attempt is not FIRST:
        alive: Record = {"log": "heartbeat", "t": writer.at(attempt.begins_s)}
        return [alive, scenario.timeline_record(attempt, began=writer.at(0.0), seed=seed)]
    changes = (("thermal cap", "no cap"), ("no cap", "thermal cap"))
    began: Record = {"log": "event", "name": "phase", "t": writer.at(attempt.seconds_at(40))}
    found = [{**began, "step": 40, "phase": scenario.phase(40), "was": scenario.phase(0)}]
    for step, (word, was) in zip(
        (scenario.HOT_STEPS[0], scenario.HOT_STEPS[-1]), changes, strict=True
    ):
        at = writer.at(attempt.seconds_at(step))
        event: Record = {"log": "event", "t": at, "name": "gpu-throttle", "id": scenario.HOT_GPU}
        found.append({**event, "throttle": word, "was": was})
    return found


def _host(at: float, rng: np.random.Generator) -> Record:
    return {
        "log": "system",
        "t": at,
        "cpu_pct": round(float(rng.uniform(25, 40)), 1),
        "ram_used": 48 * _GIB + int(rng.integers(_GIB)),
        "ram_total": 256 * _GIB,
        "rss": 9 * _GIB,
        "children_rss": 4 * _GIB,
    }


def _gpu(at: float, gpu: int, *, is_hot: bool, rng: np.random.Generator) -> Record:
    used = 61 * _GIB // 2 + gpu * _GIB
    fields = {
        "clock": 1215 if is_hot else 1905 + int(rng.integers(0, 5)) * 15,
        "max_clock": 1980,
        # A passively cooled board: one of the two tells no fan speed at all.
        "fan": 0 if gpu == 0 else None,
        "power": 430_000 if is_hot else 610_000 + int(rng.integers(40_000)),
        "power_limit": 700_000,
        "temperature": 91 if is_hot else 58 + 4 * gpu + int(rng.integers(3)),
        "temp_slowdown": 87,
        "gpu_util": round(float(rng.uniform(88, 99)), 1),
        "mem_util": round(float(rng.uniform(40, 55)), 1),
        "dram_free": scenario.GPU_BYTES - used,
        "dram_used": used,
        "pcie_rx": int(rng.integers(2_000_000_000)),
        "pcie_tx": int(rng.integers(900_000_000)),
        "throttle": "thermal cap" if is_hot else "",
    }
    return typed.record("gpu", at, strict_values(), fields, id=gpu)


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding as its records hold it; ``steps`` are the first and the last it is about."""

    rule: str
    severity: str
    sentence: str
    series: str
    steps: tuple[int, int]
    evidence: dict[str, Any]
    advice: str

    @property
    def id(self) -> str:
        """The same for the same rule, series and opening step."""
        text = f"{self.rule}\n{self.series}\n{self.steps[0]}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_NAN = Finding(
    rule="nonfinite",
    severity="error",
    sentence=f"train/loss was NaN at step {scenario.NAN_STEP}; the gradient norm was infinite.",
    series="train/loss",
    steps=(scenario.NAN_STEP, scenario.NAN_STEP),
    evidence={"loss": "nan", "norm": "inf", "lr": scenario.learning_rate(scenario.NAN_STEP)},
    advice="Skip steps whose norm is not finite, and look at the batch of that step.",
)
_HOT = Finding(
    rule="gpu-throttling",
    severity="warning",
    sentence=f"GPU {scenario.HOT_GPU} slowed itself down for heat: 91 °C, 1215 of 1980 MHz.",
    series=f"gpu/{scenario.HOT_GPU}/temperature",
    steps=(scenario.HOT_STEPS[0], scenario.HOT_STEPS[-1]),
    evidence={"temperature": 91, "temp_slowdown": 87, "clock": 1215, "max_clock": 1980},
    advice="Check the airflow of that slot, or lower its power limit.",
)
_SPIKE = Finding(
    rule="loss-spike",
    severity="warning",
    sentence=f"train/loss jumped by {scenario.SPIKE_RISE} at step {scenario.SPIKE_STEP}"
    " and came back.",
    series="train/loss",
    steps=(scenario.SPIKE_STEP, scenario.SPIKE_STEP),
    evidence={
        "loss": scenario.expected_loss(scenario.SPIKE_STEP) + scenario.SPIKE_RISE,
        "usual_loss": scenario.expected_loss(scenario.SPIKE_STEP),
        "norm": scenario.SPIKE_NORM,
        "usual_norm": 0.85,
    },
    advice="Clip gradients at a lower norm, or lower the learning rate a little.",
)
_FLAT = Finding(
    rule="plateau",
    severity="info",
    sentence="train/loss has improved by less than 2 % over the last 60 steps.",
    series="train/loss",
    steps=(340, 399),
    evidence={"improvement": 0.0116, "window": 60},
    advice="The schedule is near its end; a longer one may still help.",
)
# (attempt, finding, step at which it is seen, step at which it is closed or None)
_SEEN: tuple[tuple[Attempt, Finding, int, int | None], ...] = (
    (FIRST, _NAN, scenario.NAN_STEP, scenario.NAN_STEP + 10),
    (FIRST, _HOT, scenario.HOT_STEPS[0] + 3, None),
    (SECOND, _SPIKE, scenario.SPIKE_STEP, scenario.SPIKE_STEP + 10),
    (SECOND, _FLAT, scenario.NUM_STEPS - 1, None),
)


def write_findings(writer: RecordWriter, attempt: Attempt) -> None:
    """The findings of one attempt up to its end; one that ended is written again, closed."""
    for step, finding, state in sorted(_states(attempt), key=lambda seen: seen[0]):
        at = writer.at(attempt.seconds_at(step))
        fields = asdict(finding)
        fields["steps"] = list(finding.steps)
        writer.write({"log": "finding", "t": at, "id": finding.id, **fields, "state": state})
    # A file that was finished says that there was nothing else to find.
    writer.write({"log": "finish", "t": writer.at(attempt.ends_s), "status": "finished"})


def _states(attempt: Attempt) -> Iterator[tuple[int, Finding, str]]:
    for when, finding, opened, closed in _SEEN:
        if when is attempt:
            yield opened, finding, "open"
            if closed is not None:
                yield closed, finding, "closed"
