"""Reading a TensorBoard event file of a million scalars, every point, beside TensorBoard itself."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.contenders import OURS
from benchmarks.environments import clean_environment
from benchmarks.outcome import Hold, Outcome, Table, ratio
from benchmarks.stage import Stage, say

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAME = "event_files"
TAGS = 10
FIRST_STEP = 20_000  # three bytes as a varint, up to two million: events of one length
THEIRS = "EventAccumulator"
SHOULD_BE = 6
MEASURED = """
import json, sys, time
begun, cpu = time.perf_counter(), time.process_time()
{read}
print(json.dumps([count, total, time.perf_counter() - begun, time.process_time() - cpu]))
"""
OUR_READING = """
from epochal.exchange.imports.registry import open_foreign
(run,) = open_foreign(sys.argv[1]).runs()
records = [record for batch in run.read_new() for record in batch.records]
assert not run.problems, run.problems
values = [value for record in records for value in record["m"].values()]
count, total = len(values), sum(values)
"""
THEIR_READING = """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
points = [event.value for tag in events.Tags()["scalars"] for event in events.Scalars(tag)]
count, total = len(points), sum(points)
"""


def run(stage: Stage) -> Outcome:
    points = 100_000 if stage.quick else 1_000_000
    folder = stage.scratch / "logs"
    folder.mkdir()
    file = folder / "events.out.tfevents.1700000000.host"
    write_events(file, points)
    theirs = next((e for e in stage.present() if e.name == "torch SummaryWriter"), None)
    answers = {OURS: [_read(sys.executable, OUR_READING, folder) for _ in range(3)]}
    if theirs is not None:
        answers[THEIRS] = [_read(str(theirs.python), THEIR_READING, folder)]
    found = {(count, round(total, 6)) for rounds in answers.values() for count, total, *_ in rounds}
    assert len(found) == 1, f"not the same points: {found}"
    rows = {name: _figures(rounds) for name, rounds in answers.items()}
    size_mb = file.stat().st_size / 1e6
    file.unlink()
    hold = Hold(
        f"a million scalars of an event file, of {THEIRS}'s CPU",
        1 / SHOULD_BE,
        ratio(rows[OURS][0], rows[THEIRS][0]) if THEIRS in rows else None,
        why_not="TensorBoard is not installed",
    )
    table = Table("seconds", ("CPU", "wall"), rows, {})
    note = (
        f"{points:,} scalars under {TAGS} tags, {size_mb:.0f} MB as torch writes them, imports of"
        " the libraries included. Both keep every point; both verify the checksum of each record."
    )
    return Outcome("Event files", note, (table,), (hold,))


def write_events(path: Path, points: int) -> None:
    """An event file as torch writes it, all at once: events of one length, built as a table."""
    import numpy as np

    from epochal.exchange.event_file import masked, of_rows

    def column(value: int | NDArray[np.integer], size: int) -> NDArray[np.uint8]:
        whole = np.broadcast_to(np.asarray(value, dtype="<u8"), points)
        return whole.copy().view(np.uint8).reshape(points, 8)[:, :size]

    def text(letters: bytes) -> NDArray[np.uint8]:
        return np.tile(np.frombuffer(letters, dtype=np.uint8), (points, 1))

    number = np.arange(points, dtype=np.uint64)
    steps = FIRST_STEP + number // TAGS
    varint = (steps & 0x7F) | 0x80 | ((steps >> 7 & 0x7F | 0x80) << 8) | (steps >> 14 << 16)
    times = (1.7e9 + number * 1e-3).view(np.uint64)
    values = (1.0 / (1.0 + number)).astype("<f4").view("<u4")
    tag = b"metrics/scalar_"
    head = struct.pack("<BBBBBB", 0x2A, len(tag) + 10, 0x0A, len(tag) + 8, 0x0A, len(tag) + 1)
    data = np.hstack(
        [
            text(b"\x09"),
            column(times, 8),
            text(b"\x10"),
            column(varint, 3),
            text(head + tag),
            column(ord("0") + number % TAGS, 1),
            text(b"\x15"),
            column(values, 4),
        ]
    )
    length = column(data.shape[1], 8)
    checks = (masked(of_rows(rows)).astype(np.uint64) for rows in (length, data))
    length_check, data_check = (column(check, 4) for check in checks)
    path.write_bytes(np.hstack([length, length_check, data, data_check]).tobytes())


def _read(python: str, reading: str, folder: Path) -> tuple[float, float, float, float]:
    say(f"{NAME} · {python}")
    done = subprocess.run(
        [python, "-c", MEASURED.format(read=reading), str(folder)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        check=True,
    )
    count, total, wall, cpu = json.loads(done.stdout.splitlines()[-1])
    return count, total, wall, cpu


def _figures(answers: list[tuple[float, float, float, float]]) -> tuple[float, float]:
    return median(answer[3] for answer in answers), median(answer[2] for answer in answers)
