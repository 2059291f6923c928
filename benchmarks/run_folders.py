"""Run folders written without a run: a million steps in seconds, with a training's own clock."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

PART_BYTES = 64 * 1024 * 1024
AGE_S = 7200.0


def write_run(root: Path, name: str, *, steps: int, metrics: int, spike: int | None = None) -> Path:
    """A finished run below `root`; with `spike`, one step at which the loss is 1000."""
    from epochal.journal.layout import write_json
    from epochal.journal.line import encode_json

    folder = root / "bench" / name
    (folder / "journal").mkdir(parents=True)
    source = random.Random(name)
    identity = {"v": 1, "id": name, "name": name, "project": "bench", "created": 1.7e9}
    config = {"lr": source.random(), "model": {"depth": source.randrange(48)}}
    write_json(folder / "run.json", {**identity, "config": config})
    names = ["loss", *(f"metric_{number}" for number in range(metrics - 1))]
    # A pool: drawing ten million numbers would take longer than everything that is measured.
    pool = [{key: source.random() for key in names} for _ in range(4096)]
    t, part, size, file = 1.7e9, 0, PART_BYTES, None
    for step in range(steps + 1):
        t = round(t + 0.331, 3)
        if step == steps:
            record = {"log": "finish", "t": t, "status": "finished"}
        else:
            values = pool[step & 4095]
            values = {**values, "loss": 1000.0} if step == spike else values
            record = {"log": "metrics", "t": t, "step": step, "m": values}
        line = encode_json(record) + b"\n"
        if file is None or size + len(line) > PART_BYTES:
            if file is not None:
                file.close()
            file = (folder / "journal" / f"loop.0001.{part:04d}.jsonl").open("wb")
            header = {
                "log": "run",
                "t": t,
                **identity,
                "writer": "loop",
                "attempt": 1,
                "part": part,
            }
            size, part = file.write(encode_json(header) + b"\n"), part + 1
        size += file.write(line)
    assert file is not None
    file.close()
    return folder


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


def write_many(root: Path, *, count: int, steps: int, metrics: int) -> None:
    """Finished runs below `root`, old enough for an index: sixteen texts of records in turn."""
    from epochal.journal.line import encode_json

    source = random.Random(count)
    names = ["loss", *(f"metric_{number}" for number in range(metrics - 1))]
    bodies = []
    for _ in range(16):
        lines, t = [], 1.7e9
        for step in range(steps):
            t = round(t + 0.331, 3)
            values = {name: source.random() for name in names}
            lines.append(encode_json({"log": "metrics", "t": t, "step": step, "m": values}))
        lines.append(encode_json({"log": "finish", "t": round(t + 0.1, 3), "status": "finished"}))
        bodies.append(b"\n".join(lines) + b"\n")
    then = time.time() - AGE_S
    for number in range(count):
        name = f"run-{number:05d}"
        folder = root / "bench" / name
        (folder / "journal").mkdir(parents=True)
        identity = {"v": 1, "id": name, "name": name, "project": "bench", "created": 1.7e9 + number}
        config = {"lr": source.random(), "seed": number, "model": {"depth": source.randrange(48)}}
        header = {"log": "run", "t": 1.7e9, **identity, "writer": "loop", "attempt": 1, "part": 0}
        files = {
            "run.json": encode_json({**identity, "config": config}),
            "journal/loop.0001.0000.jsonl": encode_json(header) + b"\n" + bodies[number % 16],
        }
        for file, text in files.items():
            (folder / file).write_bytes(text)
            os.utime(folder / file, (then, then))
        for path in (folder / "journal", folder):
            os.utime(path, (then, then))
