"""Journal lines to one series and to a sealed part, and the first chart of a long sealed run.

Generic is `msgspec.json.Decoder.decode_lines` over the same chunks of the same files, its results
dropped, with the garbage collector off. All times are CPU time, from a cold process after imports;
a round has one after the other.
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
from benchmarks.run_folders import seal, settle, write_run
from benchmarks.stage import Answer, Stage, say

NAME = "columns"
# Steps and metrics of the runs that are read unsealed, and of the parts that are sealed.
UNSEALED = ((300_000, 3), (1_000_000, 10))
SEALING = ((150_000, 3), (150_000, 10))
LARGE_STEPS, LARGE_METRICS = 10_000_000, 3
PIXELS = 1200
CHUNK_BYTES = 512 * 1024
TURNS = 3


def run(stage: Stage) -> Outcome:
    scale = 10 if stage.quick else 1
    unsealed = {case: _rounds(stage, "series", case, scale) for case in UNSEALED}
    sealing = {case: _rounds(stage, "sealing", case, scale) for case in SEALING}
    large = _rounds(stage, "chart", (LARGE_STEPS, LARGE_METRICS), scale * scale)
    small, wide = unsealed.values()
    few, many = sealing.values()
    tables = (
        Table(
            "unsealed, one exact series",
            ("MB per CPU-s", "x generic", "peak, MB", "imports, MB", "second series, s"),
            {
                _title(case): tuple(
                    found.get(key)
                    for key in ("mb_per_s", "ratio", "peak_mb", "base_mb", "second_s")
                )
                for case, found in unsealed.items()
            },
            {},
            ratios=False,
        ),
        Table(
            "sealing, verified",
            ("M points per CPU-s", "x generic"),
            {
                _title(case): (found.get("points"), found.get("ratio"))
                for case, found in sealing.items()
            },
            {},
            ratios=False,
        ),
    )
    holds = (
        Hold("300k x 3 unsealed, one series", 10, small.get("ms_per_mb"), "ms/MB"),
        Hold("1M x 10 unsealed, one series", 1.2, wide.get("ratio"), "x generic"),
        Hold("its memory", 150, _whole(stage, wide, "peak_mb"), "MB"),
        Hold("sealing, 3 scalars", 1 / 1.2, few.get("s_per_m"), "s/M points"),
        Hold("sealing, 10 scalars", 1 / 3.3, many.get("s_per_m"), "s/M points"),
        Hold("10M steps sealed, first chart", 0.2, _whole(stage, large, "chart_s"), "s"),
        Hold("its bytes read", 20, _whole(stage, large, "read_mb"), "MB"),
    )
    note = (
        "Journals with 5 % evaluations, 2 % events and telemetry. Sealing reads, writes, reads back"
        f" and compares. The chart has {PIXELS:,} pixels."
        + (" Runs are a tenth as long." if stage.quick else "")
    )
    return Outcome("Columns", note, tables, holds)


def work(contender: Contender, directory: Path, *, phase: str, **case: Any) -> Answer:
    del contender
    phases: dict[str, Callable[..., Answer]] = {
        "prepare": _prepare,
        "series": _series,
        "sealing": _sealing,
        "chart": _chart,
    }
    return phases[phase](directory, **case)


def _title(case: tuple[int, int]) -> str:
    return f"{case[0]:,} steps x {case[1]}"


def _whole(stage: Stage, found: Answer, key: str) -> float | None:
    """A figure that a shorter run does not have."""
    return None if stage.quick else found.get(key)


def _rounds(stage: Stage, phase: str, case: tuple[int, int], scale: int) -> Answer:
    """The medians of several rounds."""
    steps, metrics = case[0] // scale, case[1]
    data = stage.scratch / f"columns-{phase}-{metrics}"
    say(f"columns · {phase} · writing {steps:,} steps of {metrics}")
    prepared = {"steps": steps, "metrics": metrics, "is_sealed": phase == "chart"}
    answers: list[Answer] = []
    if _play(stage, data, phase="prepare", **prepared) is not None:
        for turn in range(1 if stage.quick else 5):
            say(f"columns · {phase} · {steps:,} steps of {metrics} · round {turn + 1}")
            answer = _play(stage, data, phase=phase)
            answers += [answer] if answer is not None else []
    shutil.rmtree(data)
    return {key: median(answer[key] for answer in answers) for key in answers[0]} if answers else {}


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


def _prepare(directory: Path, *, steps: int, metrics: int, is_sealed: bool) -> Answer:
    write_run(directory / "runs", "one", steps=steps, metrics=metrics)
    settle(directory)  # a part written to just now is not sealed
    if is_sealed:
        seal(directory / "runs")
        settle(directory)
    return {}


def _series(directory: Path) -> Answer:
    from epochal.store.local.catalog import folder_store

    base_mb = _peak_mb()
    with folder_store(directory / "runs", cache=directory / "cache") as store:

        def ask(name: str) -> float:
            return _cpu_s(lambda: store.runs()[0].series(name))

        first_s = ask("loss")
        peak_mb = _peak_mb()
        second_s = ask("metric_0")
    shutil.rmtree(directory / "cache", ignore_errors=True)
    parts = _parts(directory)
    size_mb = sum(part.stat().st_size for part in parts) / 1e6
    return {
        "mb_per_s": size_mb / first_s,
        "ms_per_mb": first_s / size_mb * 1000,
        "ratio": first_s / _generic_s(parts),
        "peak_mb": peak_mb,
        "base_mb": base_mb,
        "second_s": second_s,
    }


def _sealing(directory: Path) -> Answer:
    from epochal.journal.layout import PartName, RunFolder
    from epochal.journal.segments.seal import seal_part

    folder, name = RunFolder(directory / "runs" / "bench" / "one"), PartName("loop", 1, 0)
    path = folder.part_path(name)

    def seal_once() -> None:
        with tempfile.TemporaryDirectory(dir=directory) as target:
            seal_part(folder, name, into=Path(target))

    seal_once()  # pyarrow makes its pools
    spent_s = median(_cpu_s(seal_once) for _ in range(TURNS))
    with path.open("rb") as file:
        points = sum(_num_metrics(line) for line in file)
    return {
        "points": points / spent_s / 1e6,
        "s_per_m": spent_s / points * 1e6,
        "ratio": spent_s / _generic_s([path]),
    }


def _num_metrics(line: bytes) -> int:
    """How many metrics a step has."""
    import msgspec

    if not line.startswith(b'{"log":"metrics"'):
        return 0
    return len(msgspec.json.decode(line)["m"])


def _chart(directory: Path) -> Answer:
    import epochal.journal.segments.read  # noqa: F401
    from epochal.store.local.catalog import folder_store

    with folder_store(directory / "runs", cache=directory / "cache") as store:
        before = _read_bytes()
        chart_s = _cpu_s(lambda: store.runs()[0].downsample("loss", PIXELS))
        read_mb = (_read_bytes() - before) / 1e6
    shutil.rmtree(directory / "cache", ignore_errors=True)
    return {"chart_s": chart_s, "read_mb": read_mb}


def _parts(directory: Path) -> list[Path]:
    return sorted(directory.glob("runs/*/*/journal/*.jsonl"))


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _read_bytes() -> int:
    """How many bytes this process has read, those from the page cache included."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def _cpu_s(call: Callable[[], object]) -> float:
    begun = time.process_time()
    call()
    return time.process_time() - begun


def _generic_s(parts: list[Path]) -> float:
    import msgspec

    decode = msgspec.json.Decoder().decode_lines

    def decode_all() -> None:
        for part in parts:
            with part.open("rb", buffering=0) as file:
                rest = b""
                while chunk := file.read(CHUNK_BYTES):
                    text = rest + chunk
                    end = text.rfind(b"\n") + 1
                    decode(text[:end])
                    rest = text[end:]

    gc.disable()
    spent_s = _cpu_s(decode_all)
    gc.enable()
    return spent_s
