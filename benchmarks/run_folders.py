"""Run folders written without a training: a million steps in seconds, with a training's own clock.

Journals contain what those of real trainings contain: 5 % of the lines of the loop are evaluations
and 2 % are events, and the companion's journal has telemetry every ten seconds.

    python -m benchmarks.run_folders FOLDER --count 20000 --metrics 200 --config-keys 40
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from epochal.journal.layout import RunFolder

PART_BYTES = 64 * 1024 * 1024
AGE_S = 7200.0
BEGIN, STEP_S, TELEMETRY_S = 1.7e9, 0.331, 10.0
# With these, 4.9 % of the lines are evaluations and 2.0 % are events; short runs have one of each.
EVAL_EVERY, EVENT_EVERY, FIRST_EVAL, FIRST_EVENT = 19, 47, 8, 3
PROJECT = "bench"
# So many texts of records many runs have in turn.
BODIES = 16


def write_run(root: Path, name: str, *, steps: int, metrics: int, spike: int | None = None) -> Path:
    """A finished run below `root`; with `spike`, one step at which the loss is 1000."""
    from epochal.journal.layout import RunFolder

    source = random.Random(name)
    config = {"lr": source.random(), "model": {"depth": source.randrange(48)}}
    identity = {"v": 1, "id": name, "name": name, "project": PROJECT, "created": BEGIN}
    # A pool: drawing ten million numbers would take longer than everything that is measured.
    pool = _pool(source, metrics, 4096)
    folder = RunFolder(root / PROJECT / name)
    folder.journal.mkdir(parents=True)
    _write(folder, {**identity, "config": config}, _loop(pool, steps, spike), _telemetry(steps))
    return folder.path


def write_many(
    root: Path,
    *,
    count: int,
    steps: int,
    metrics: int,
    config_keys: int = 3,
    summarize: Callable[[RunFolder], object] | None = None,
) -> None:
    """Finished runs below `root`, old enough for an index: ``BODIES`` texts of records in turn.

    ``run.json`` is that of a real run, but for id, name, times and configuration. ``summarize``
    writes what else a finished run carries; it is called once for each folder.
    """
    from epochal.journal.layout import RunFolder

    source = random.Random(count)
    template = _identity()
    bodies = [
        b"".join(_loop(_pool(source, metrics, steps), steps)) for _ in range(min(count, BODIES))
    ]
    telemetry = b"".join(_telemetry(steps))
    then = time.time() - AGE_S
    for number, body in zip(range(count), cycle(bodies), strict=False):
        name = f"run-{number:05d}"
        config = {"lr": source.random(), "seed": number, "model": {"depth": source.randrange(48)}}
        for key in range(config_keys - len(config)):
            values = (source.random(), source.randrange(9), f"choice-{source.randrange(5)}", True)
            config[f"option_{key}"] = values[key % 4]
        own = {"id": name, "name": name, "created": BEGIN + number, "config": config}
        folder = RunFolder(root / PROJECT / name)
        folder.journal.mkdir(parents=True)
        _write(folder, {**template, **own}, (body,), (telemetry,))
        if summarize is not None:
            summarize(folder)
        for path in (*folder.path.glob("*/*"), *folder.path.iterdir(), folder.path):
            os.utime(path, (then, then))


def _identity() -> dict[str, Any]:
    """What ``run.json`` of a real run says."""
    import epochal
    from epochal.journal.layout import read_json

    with tempfile.TemporaryDirectory() as folder:
        with epochal.init(PROJECT, dir=folder, console=False, companion=False) as run:
            path = run.dir / "run.json"
        return read_json(path)


def _pool(source: random.Random, metrics: int, size: int) -> list[dict[str, float]]:
    names = ["loss", *(f"metric_{number}" for number in range(metrics - 1))]
    return [{key: source.random() for key in names} for _ in range(size)]


def _write(
    folder: RunFolder, identity: Mapping[str, Any], loop: Iterable[bytes], other: Iterable[bytes]
) -> None:
    from epochal.journal.layout import LOOP, TELEMETRY, json_bytes

    folder.identity.write_bytes(json_bytes(identity) + b"\n")
    _write_parts(folder, LOOP, identity, loop)
    _write_parts(folder, f"{TELEMETRY}bench", identity, other)


def _write_parts(
    folder: RunFolder, writer: str, identity: Mapping[str, Any], lines: Iterable[bytes]
) -> None:
    from epochal.journal.layout import LOOP, PartName
    from epochal.journal.process import part_header

    part, size, file = PartName(writer, 1, 0), 0, None
    config = {"config": identity["config"]} if writer == LOOP else {}
    for line in lines:
        if file is None or size + len(line) > PART_BYTES:
            if file is not None:
                file.close()
                part = part._replace(part=part.part + 1)
            file, size = folder.part_path(part).open("wb"), 0
            size += file.write(part_header(part, identity=identity, rank=0, t=BEGIN, **config))
            config = {}
        size += file.write(line)
    if file is not None:
        file.close()


def _loop(
    pool: Sequence[Mapping[str, float]], steps: int, spike: int | None = None
) -> Iterator[bytes]:
    """The lines of a training loop: metrics of each step, evaluations, events and the end."""
    from epochal.journal.line import encode

    t = BEGIN
    for step in range(steps):
        t = round(t + STEP_S, 3)
        values = pool[step % len(pool)]
        values = {**values, "loss": 1000.0} if step == spike else values
        yield encode({"log": "metrics", "t": t, "step": step, "m": values})
        if step % EVAL_EVERY == FIRST_EVAL:
            loss = {"loss": values["loss"], "duration_ms": 731.5}
            yield encode({"log": "eval", "t": t, "step": step, **loss, "m": {"accuracy": 0.5}})
        if step % EVENT_EVERY == FIRST_EVENT:
            saved = {"name": "checkpoint", "path": f"checkpoints/step-{step}"}
            yield encode({"log": "event", "t": t, "step": step, **saved})
    yield encode({"log": "finish", "t": round(t + 0.1, 3), "status": "finished"})


def _telemetry(steps: int) -> Iterator[bytes]:
    """The lines of a companion beside a training of so many steps on one GPU."""
    from epochal.journal.line import encode

    own = {"interval_s": TELEMETRY_S, "process_cpu_pct": 101.5, "rss": 3 << 30, "threads": 24}
    system = {**own, "cpu_pct": 14.0, "ram_used": 19 << 30, "ram_total": 64 << 30}
    gpu = {"interval_s": TELEMETRY_S, "id": 0, "clock": 1980, "power": 612_000, "temperature": 61}
    gpu |= {"gpu_util": 99.0, "dram_used": 41 << 30, "dram_total": 139 << 30}
    for number in range(int(steps * STEP_S / TELEMETRY_S) + 1):
        t, change = round(BEGIN + number * TELEMETRY_S, 3), number % 97
        now, later = {"rss": own["rss"] + change}, {"power": gpu["power"] + change}
        yield encode({"log": "system", "t": t, **system, **now, "min": now, "max": now})
        yield encode({"log": "gpu", "t": t, **gpu, **later, "min": later, "max": later})
    end = {"status": "finished", "reason": "the run has ended"}
    yield encode({"log": "finish", "t": round(BEGIN + steps * STEP_S + 0.2, 3), **end})


def seal(root: Path) -> None:
    """Seal every part below a folder."""
    from epochal.journal.layout import run_folders
    from epochal.journal.segments.seal import seal_part

    for folder in run_folders(root):
        for name in folder.parts():
            seal_part(folder, name)


def settle(root: Path) -> None:
    """Make all files older: what was written a moment ago is not yet remembered by an index."""
    then = time.time() - AGE_S
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name, default in (("count", 20_000), ("steps", 10), ("metrics", 3), ("config-keys", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    asked = vars(parser.parse_args())
    write_many(asked.pop("folder"), **asked)


if __name__ == "__main__":
    main()
