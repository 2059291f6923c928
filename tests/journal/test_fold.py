"""A fold says the same as reading all of the run again, whatever was logged and in which pieces."""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from epochal.journal.fold import Fold, MustReadAllError, RunMetrics
from epochal.journal.layout import PartName
from epochal.journal.line import encode
from epochal.journal.row import SeriesSummary
from epochal.journal.state import RunState, run_metrics
from epochal.journal.tail import TailedPart

Lines = dict[PartName, list[bytes]]


def _journal(draw: random.Random, *, is_calm: bool) -> Lines:
    """Lines of a run with ranks, attempts, parts and, unless it is calm, everything that is odd."""
    found: Lines = {}
    t, begun = 1_700_000_000.0, 0
    for attempt in range(1, draw.randint(1, 3) + 1):
        starts = begun if is_calm else draw.randint(0, begun)
        writers = ["loop", *draw.sample(["rank-0001", "child-77", "telemetry-a", "findings"], 2)]
        ends: list[int] = []
        for writer in writers:
            lines: list[bytes] = []
            records = list(_records(draw, writer, attempt, starts, t, is_calm=is_calm))
            ends += [r["step"] for r in records if r["log"] == "metrics"]
            for record in records:
                lines.append(encode(record))
                if not is_calm and draw.random() < 0.03:
                    lines.append(draw.choice([b"{\n", b"\n", b'{"log":"metrics","t":"x","m":3}\n']))
            cut = draw.randint(1, len(lines)) if draw.random() < 0.4 else len(lines)
            found[PartName(writer, attempt, 0)] = lines[:cut]
            if cut < len(lines):
                found[PartName(writer, attempt, 1)] = [lines[0], *lines[cut:]]
        begun = max([begun, *(end + 1 for end in ends)])
        t += 1000
    return found


def _records(
    draw: random.Random, writer: str, attempt: int, step: int, t: float, *, is_calm: bool
) -> Iterator[dict[str, Any]]:
    yield {"log": "run", "t": t, "v": 1, "pid": 1, "config": {"lr": attempt}, "name": "r"}
    if writer == "findings":
        for number in range(draw.randint(0, 3)):
            told = {"state": draw.choice(["open", "closed"]), "sentence": "x", "rule": "nan"}
            severity = draw.choice(["error", "warning", "info"])
            yield {"log": "finding", "t": t, "id": f"f{number}", "severity": severity, **told}
        return
    if writer == "telemetry-a":
        for number in range(draw.randint(0, 5)):
            yield {"log": "system", "t": t + number, "cpu": draw.uniform(0, 100)}
        if draw.random() < 0.3:
            yield {"log": "event", "t": t, "name": "vanished", "sentence": "gone"}
        return
    if attempt > 1 and writer == "loop" and draw.random() < 0.7:
        yield {"log": "resume", "t": t, "step": step}
    for _ in range(draw.randint(0, 25)):
        t += 1
        step += 1 if is_calm else draw.choice([1, 1, 1, 1, 0, 3, -2])
        step = max(step, 0)
        names = ["loss", "acc"] if is_calm else draw.sample(["loss", "acc", "big", "odd"], 2)
        values = [draw.choice([draw.gauss(0, 1), 1.0, 2, math.nan, math.inf]) for _ in names]
        yield {"log": "metrics", "t": t, "step": step, "m": dict(zip(names, values, strict=True))}
        if draw.random() < 0.1:
            yield {"log": "eval", "t": t, "step": step, "loss": draw.random()}
        if writer == "loop" and step % 5 == 0 if is_calm else draw.random() < 0.1:
            yield {"log": "epoch", "t": t, "epoch": step // 5, "total": 9, "m": {"f": step}}
        if draw.random() < 0.1:
            yield {"log": "option", "t": t, "name": "lr", "value": step}
        if draw.random() < 0.1:
            yield {"log": "summary", "t": t, "name": draw.choice("ab"), "value": step}
        if draw.random() < 0.05:
            yield {"log": "summary", "t": t, "name": "a", "deleted": True}
        if draw.random() < 0.05:
            yield {"log": "define", "t": t, "name": "acc", "goal": "max"}
    if draw.random() < 0.5:
        yield {"log": "finish", "t": t, "status": "finished"}


def _recomputed(folder: Path) -> RunMetrics:
    parts = []
    for path in sorted(folder.iterdir()):
        writer, attempt, number, _ = path.name.split(".")
        part = TailedPart(path, PartName(writer, int(attempt), int(number)))
        part.poll()
        parts.append(part)
    return run_metrics(RunState(parts))


def _numbers(one: SeriesSummary) -> dict[str, Any]:
    found = msgspec.structs.asdict(one)
    return {**found, "mean": None if one.mean is None else pytest.approx(one.mean, abs=1e-9)}


def _check(folded: RunMetrics, whole: RunMetrics) -> int:
    """Compare; returns how many series the fold does not know."""
    assert msgspec.to_builtins(folded.writers) == msgspec.to_builtins(whole.writers)
    assert (folded.marks, folded.kinds) == (whole.marks, whole.kinds)
    by_key = {(one.name, one.axis, one.rank): one for one in folded.metrics}
    assert by_key.keys() == {(one.name, one.axis, one.rank) for one in whole.metrics}
    for one in whole.metrics:
        found = by_key[one.name, one.axis, one.rank]
        if found.is_known:
            assert msgspec.structs.asdict(found) == _numbers(one)
    return sum(not one.is_known for one in folded.metrics)


def _folded_in_pieces(
    lines: Lines, folder: Path, draw: random.Random, *, is_stored: bool
) -> RunMetrics:
    """Append the lines by and by, and fold what there is; ``is_stored``: go on from its file."""
    fold, left = Fold(), {name: list(some) for name, some in lines.items()}
    paths: dict[PartName, Path] = {}
    for attempt in sorted({name.attempt for name in lines}):
        while names := sorted(n for n, some in left.items() if some and n.attempt == attempt):
            first = {name[:2]: name for name in reversed(names)}  # a part follows the one before
            name = draw.choice(list(first.values()))
            taken = draw.randint(1, len(left[name]))
            paths[name] = folder / f"{name.stem}.jsonl"
            with paths[name].open("ab") as file:
                file.write(b"".join(left[name][:taken]))
            left[name] = left[name][taken:]
            if draw.random() < 0.5:
                fold.read(paths)
            if is_stored and draw.random() < 0.2:
                stored = msgspec.json.encode(fold.known())
                fold = Fold(msgspec.json.decode(stored, type=RunMetrics))
    fold.read(paths)
    return msgspec.json.decode(msgspec.json.encode(fold.known()), type=RunMetrics)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), is_calm=st.booleans())
@example(seed=1, is_calm=True)
def test_folding_in_pieces_says_the_same_as_reading_all_again(seed: int, is_calm: bool) -> None:
    draw = random.Random(seed)
    lines = _journal(draw, is_calm=is_calm)
    with tempfile.TemporaryDirectory() as folder:
        folded = _folded_in_pieces(lines, Path(folder), draw, is_stored=not is_calm)
        whole = _recomputed(Path(folder))
        whole = msgspec.json.decode(msgspec.json.encode(whole), type=RunMetrics)
        num_unknown = _check(folded, whole)
    if is_calm and "child-77" not in {name.writer for name in lines}:
        assert num_unknown == 0  # nothing came again, and each attempt went on where one ended


def test_a_part_that_became_shorter_must_be_read_again(tmp_path: Path) -> None:
    name, path = PartName("loop", 1, 0), tmp_path / "loop.0001.0000.jsonl"
    path.write_bytes(encode({"log": "metrics", "t": 1.0, "step": 1, "m": {"a": 1.0}}) * 2)
    fold = Fold()
    assert fold.read({name: path}) == 2
    path.write_bytes(encode({"log": "metrics", "t": 1.0, "step": 1, "m": {"a": 1.0}}))
    with pytest.raises(MustReadAllError):
        fold.read({name: path})


def test_what_was_sealed_before_it_was_folded_must_be_read_again(tmp_path: Path) -> None:
    with pytest.raises(MustReadAllError):
        Fold().read({}, [PartName("loop", 1, 0)])
