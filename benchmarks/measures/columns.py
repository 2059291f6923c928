"""Journal lines to columns, to a sealed part and to one series, beside the bare decoding of JSON.

Bare is `msgspec.json.Decoder.decode` of each line of the same file, its result dropped, with the
garbage collector off. All figures are CPU time; a round has one after the other.
"""

from __future__ import annotations

import gc
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.run_folders import settle, write_run
from benchmarks.stage import Answer, Stage, say

NAME = "columns"
STEPS = 150_000
LARGE_STEPS, LARGE_METRICS = 10_000_000, 3
PIXELS = 1200
TURNS = 3


def run(stage: Stage) -> Outcome:
    steps = STEPS // 10 if stage.quick else STEPS
    found = {metrics: _rounds(stage, steps, metrics) for metrics in (10, 3)}
    large = _large(stage)
    rows = {
        f"{metrics} scalars a line": tuple(
            _middle(answers, key) for key in ("bare_us", "columns", "sealing", "points")
        )
        for metrics, answers in found.items()
    }
    columns = ("bare, µs a line", "to columns, x bare", "sealing, x bare", "M points/CPU-s sealed")
    tables = (Table("CPU beside the bare decode", columns, rows, {}, ratios=False),)
    holds = [
        hold
        for metrics, answers in found.items()
        for hold in (
            # The other way round: at least 0.6 of the bare decode's speed.
            Hold(
                f"journal to columns, {metrics} scalars", 1 / 0.6, _middle(answers, "columns"), "x"
            ),
            Hold(f"sealing, verified, {metrics} scalars", 3, _middle(answers, "sealing"), "x"),
        )
    ]
    is_whole = not stage.quick
    holds += [
        Hold("10M steps unsealed, one series", 1.6, large.get("ratio"), "x bare"),
        Hold("its memory", 450, large.get("peak_mb") if is_whole else None, "MB"),
        Hold("a second series", 0.3, large.get("second_s"), "s"),
    ]
    note = (
        f"Files of {steps:,} steps, with 5 % evaluations and 2 % events, {len(found[10])} rounds of"
        f" {TURNS} turns. Sealing reads, writes, reads back and compares. The series of the large"
        f" run is exact, at {PIXELS:,} pixels, from a cold process after imports:"
        f" {_figures(large)}."
    )
    return Outcome("Columns", note, tables, tuple(holds))


def work(contender: Contender, directory: Path, *, phase: str, **case: Any) -> Answer:
    del contender
    phases: dict[str, Callable[..., Answer]] = {
        "prepare": _prepare,
        "turns": _turns,
        "bare": _bare_run,
        "series": _series,
    }
    return phases[phase](directory, **case)


def _middle(answers: list[Answer], key: str) -> float | None:
    return median(answer[key] for answer in answers) if answers else None


def _figures(large: Answer) -> str:
    if not large:
        return "not measured"
    return (
        f"{large['steps']:,} steps, {large['series_s']:.1f} s of CPU against {large['bare_s']:.1f},"
        f" {large['peak_mb']:.0f} MB, the second series {large['second_s']:.2f} s"
    )


def _rounds(stage: Stage, steps: int, metrics: int) -> list[Answer]:
    data = stage.scratch / f"columns-{metrics}"
    answers = []
    case = {"steps": steps, "metrics": metrics}
    if _play(stage, data, phase="prepare", **case) is not None:
        for turn in range(1 if stage.quick else 5):
            say(f"columns · {metrics} scalars · round {turn + 1}")
            answer = _play(stage, data, phase="turns", **case)
            answers += [answer] if answer is not None else []
    shutil.rmtree(data)
    return answers


def _large(stage: Stage) -> Answer:
    steps = LARGE_STEPS // 50 if stage.quick else LARGE_STEPS
    data = stage.scratch / "columns-large"
    say(f"columns · writing {steps:,} steps")
    prepared = _play(stage, data, phase="prepare", steps=steps, metrics=LARGE_METRICS)
    found: list[Answer] = []
    for turn in range(1 if stage.quick or prepared is None else 3):
        say(f"columns · {steps:,} steps · round {turn + 1}")
        bare = _play(stage, data, phase="bare") or {}
        answer = _play(stage, data, phase="series") or {}
        if bare and answer:
            found.append(bare | answer | {"ratio": answer["series_s"] / bare["bare_s"]})
    shutil.rmtree(data)
    keys = found[0] if found else ()
    return {"steps": steps, **{key: _middle(found, key) for key in keys}} if found else {}


def _play(stage: Stage, data: Path, **parameters: Any) -> Answer | None:
    data.mkdir(exist_ok=True)
    (ours,) = (entrant for entrant in stage.present() if entrant.name == OURS)
    play = stage.play(ours, NAME, parameters, data=data, limit_s=900)
    shutil.rmtree(play.folder)
    if play.failure:
        say(f"columns · failed: {play.failure}")
        return None
    return play.answer


# -- in the worker --------------------------------------------------------------------------------


def _prepare(directory: Path, *, steps: int, metrics: int) -> Answer:
    write_run(directory / "runs", "one", steps=steps, metrics=metrics)
    settle(directory)
    return {}


def _turns(directory: Path, *, steps: int, metrics: int) -> Answer:
    from epochal.journal.layout import PartName, RunFolder
    from epochal.journal.segments.seal import seal_part

    folder, name = RunFolder(directory / "runs" / "bench" / "one"), PartName("loop", 1, 0)
    path = folder.part_path(name)
    lines = path.read_bytes().count(b"\n")

    def sealing() -> None:
        with tempfile.TemporaryDirectory(dir=directory) as target:
            seal_part(folder, name, into=Path(target))

    sealing()  # pyarrow makes its pools
    spent = dict.fromkeys(("bare", "columns", "sealing"), 0.0)
    for _ in range(TURNS):
        spent["bare"] += _cpu_s(lambda: _bare(path))
        spent["columns"] += _cpu_s(lambda: _columns(path))
        spent["sealing"] += _cpu_s(sealing)
    return {
        "bare_us": spent["bare"] / TURNS / lines * 1e6,
        "columns": spent["columns"] / spent["bare"],
        "sealing": spent["sealing"] / spent["bare"],
        "points": steps * metrics * TURNS / spent["sealing"] / 1e6,
    }


def _bare_run(directory: Path) -> Answer:
    parts = sorted(directory.glob("runs/*/*/journal/loop.*.jsonl"))

    def all_parts() -> None:
        for path in parts:
            _bare(path)

    return {"bare_s": _cpu_s(all_parts)}


def _series(directory: Path) -> Answer:
    import epochal.journal.segments.read  # noqa: F401
    from epochal.store.local.catalog import folder_store

    with folder_store(directory / "runs", cache=directory / "cache") as store:

        def ask(name: str) -> float:
            return _cpu_s(lambda: store.runs()[0].series(name).buckets(PIXELS))

        first_s = ask("loss")
        peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        second_s = ask("metric_0")
    shutil.rmtree(directory / "cache", ignore_errors=True)
    return {"series_s": first_s, "second_s": second_s, "peak_mb": peak_kb / 1024}


def _cpu_s(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _bare(path: Path) -> None:
    import msgspec

    decode = msgspec.json.Decoder().decode
    gc.disable()
    with path.open("rb") as file:
        for line in file:
            decode(line)
    gc.enable()


def _columns(path: Path) -> None:
    from epochal.journal.rows import LineDecoder

    decoder, ordinal, rest = LineDecoder(), 0, b""
    with path.open("rb", buffering=0) as file:
        while chunk := file.read(1 << 20):
            text = rest + chunk
            end = text.rfind(b"\n") + 1
            ordinal += decoder.decode(text[:end], first=ordinal).num_records
            rest = text[end:]
