"""A bucket of runs as a hub publishes it, without the hub: thousands of runs in a minute.

Sealed parts and summaries are made by the code of Epochal. The runs of each project repeat the
shapes that other programs have to get right; see ``SHAPES``.
"""

from __future__ import annotations

import hashlib
import math
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from epochal.journal.layout import LOOP, PartName, RunFolder, json_bytes
from epochal.journal.line import encode
from epochal.journal.process import part_header
from epochal.journal.segments.seal import seal_part
from epochal.journal.summaries import write_summaries
from epochal.records import Record
from epochal.store.bucket import Bucket, open_bucket
from epochal.store.published import (
    PublishedBucket,
    PublishedPart,
    PublishedParts,
    PublishedRun,
    object_key,
    write_bucket,
    write_index,
    write_parts,
)

METRIC = "eval/loss"
NUM_PROJECTS, RATES, NUM_STEPS, RESUMED_AT = 20, (0.1, 0.01, 0.001), 80, 70
BEGIN = 1.7e9
# Abandoned points have this value, so a program that counts them finds a better run.
ABANDONED = -1.0
Records = list[Record]


def loss(number: int, step: int) -> float:
    return 1.0 + (number * 37 % 1009) / 1009 + 1.0 / (step + 1)


def metrics(number: int, steps: range, **others: Any) -> Records:
    return [_point(step, {METRIC: loss(number, step), **others}) for step in steps]


def _point(step: int, values: dict[str, Any]) -> Record:
    nonfinite = {
        name: str(value) for name, value in values.items() if not math.isfinite(float(value))
    }
    stored = {name: None if name in nonfinite else value for name, value in values.items()}
    record = {"log": "metrics", "t": BEGIN + step, "step": step, "m": stored}
    return record | ({"nonfinite": nonfinite} if nonfinite else {})


def _short(number: int) -> list[Records]:
    return [metrics(number, range(3))]


def _long(number: int) -> list[Records]:
    return [metrics(number, range(NUM_STEPS), acc=0.5)]


def _long_with_nan(number: int) -> list[Records]:
    steps = _long(number)[0]
    return [[*steps[:50], _point(50, {METRIC: math.nan, "acc": 0.5}), *steps[51:]]]


def _short_with_infinity(number: int) -> list[Records]:
    first, _, last = metrics(number, range(3), acc=1)
    return [[first, _point(1, {METRIC: -math.inf, "acc": 1}), last]]


def _resumed(number: int, num_steps: int, at: int) -> list[Records]:
    abandoned = [_point(step, {METRIC: ABANDONED}) for step in range(at, num_steps)]
    again: Record = {"log": "resume", "t": BEGIN, "step": at}
    later = metrics(number, range(at, num_steps + 2))
    return [[*metrics(number, range(at)), *abandoned], [again, *later]]


def _short_resumed(number: int) -> list[Records]:
    return _resumed(number, 3, 1)


def _long_resumed(number: int) -> list[Records]:
    return _resumed(number, 2 * NUM_STEPS, RESUMED_AT)


def _whole_numbers(number: int) -> list[Records]:
    mixed = [_point(step, {METRIC: 5 if step % 2 else 4.5}) for step in range(2 * NUM_STEPS)]
    return [mixed]


def _repeated(number: int) -> list[Records]:
    return [[_point(2, {METRIC: ABANDONED}), *metrics(number, range(3))]]


def _without(number: int) -> list[Records]:
    return [[_point(step, {"acc": 0.25}) for step in range(3)]]


# The last of them is live in the first project: its second part is not sealed.
SHAPES: tuple[Callable[[int], list[Records]], ...] = (
    _short, _long, _long_with_nan, _short_with_infinity, _short_resumed, _long_resumed,
    _whole_numbers, _repeated, _without, _short,
)  # fmt: skip
LIVE = len(SHAPES) - 1
# The shapes with values that are not finite.
BROKEN = (_long_with_nan, _short_with_infinity)


def fill_bucket(address: str, num_runs: int) -> None:
    """Publish finished runs, and run ``LIVE``, which is not finished."""
    bucket = open_bucket(address)
    by_project: dict[str, list[PublishedRun]] = {}
    # Threads: most of the time is spent waiting for the disk.
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(16) as pool:
        write = partial(_write_run, bucket, Path(scratch))
        # The first alone: a process crashed in which threads decoded their first footers at once.
        written = [write(0), *pool.map(write, range(1, num_runs))]
        for project, published in written:
            by_project.setdefault(project, []).append(published)
    for project, runs in by_project.items():
        write_index(bucket, project, runs)
    numbers = {project: len(runs) for project, runs in by_project.items()}
    write_bucket(bucket, PublishedBucket(projects=numbers, database="d", changed=1))


def _write_run(bucket: Bucket, scratch: Path, number: int) -> tuple[str, PublishedRun]:
    folder = RunFolder(scratch / str(number))
    project = f"sweep-{number // len(SHAPES) % NUM_PROJECTS:02d}"
    lr = RATES[number % len(RATES)]
    name = f"run-{number:05d}"
    identity = {"v": 1, "id": name, "name": name, "project": project, "created": BEGIN + number}
    identity["config"] = {"lr": lr, "seed": number}
    for path in (folder.journal, folder.segments):
        path.mkdir(parents=True)
    folder.identity.write_bytes(json_bytes(identity))
    parts = dict(_sealed(bucket, folder, f"{project}/{name}", identity, number))
    write_summaries(folder)
    summary = folder.summary.read_bytes()
    write_parts(bucket, f"{project}/{name}", PublishedParts(id=name, changed=1, parts=parts))
    bucket.put(f"{project}/{name}/run.json", json_bytes(identity), replace=True)
    return project, PublishedRun(
        id=name,
        slug=name,
        changed=1,
        received=BEGIN,
        identity=msgspec.Raw(json_bytes({k: identity[k] for k in ("id", "name", "project")})),
        labels=msgspec.Raw(b"{}"),
        summary=msgspec.Raw(summary),
    )


def _sealed(
    bucket: Bucket, folder: RunFolder, place: str, identity: dict[str, Any], number: int
) -> Iterator[tuple[str, PublishedPart]]:
    is_live = number == LIVE
    attempts = SHAPES[number % len(SHAPES)](number)
    for attempt, records in enumerate(attempts, 1):
        part = PartName(LOOP, attempt, 0)
        more = {"config": identity["config"]} if attempt == 1 else {}
        head = part_header(part, identity=identity, rank=0, t=BEGIN, process={}, **more)
        end: Record = {"log": "finish", "t": BEGIN + 1000, "status": "finished"}
        lines = [*map(encode, records), *([] if is_live else [encode(end)])]
        folder.part_path(part).write_bytes(b"".join([head, *lines]))
        segment = seal_part(folder, part, into=folder.segments)
        segment.close()
        content = folder.sealed_path(part).read_bytes()
        folder.part_path(part).unlink()
        digest = hashlib.sha256(content).hexdigest()
        key = object_key(place, "segments", f"{part.stem}.parquet", digest)
        bucket.put(key, content)
        num_records = segment.num_records
        yield (
            part.stem,
            PublishedPart(
                records=num_records,
                sealed=num_records,
                object=key,
                size=len(content),
                sha256=digest,
            ),
        )
    if is_live:
        yield f"{LOOP}.0001.0001", PublishedPart(records=7)
