"""Tables of runs for other programs: the examples of the docs answer as the commands do."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import epochal
from tests.doubles.published import ABANDONED, BROKEN, LIVE, METRIC, RATES, SHAPES, fill_bucket
from tests.servers.s3 import S3Server
from tests.store.journals import Journal
from tests.test_docs import python_blocks

NUM_RUNS = 200
AT = 2
Answers = Mapping[str, Any]


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("bucket")
    fill_bucket(str(path), NUM_RUNS)
    return str(path)


def answers_of(engine: str, frame: epochal.Frame) -> Answers:
    """What an example of the docs answers, as mappings."""
    blocks = python_blocks("docs/how-to/other-engines.md")
    names: dict[str, Any] = {"epochal": epochal, "json": json, "at": AT, "frame": frame}
    names |= {"runs": frame.runs, "parts": frame.parts}
    (block,) = (block for block in blocks if engine in block)
    exec(block, names)
    return {
        "best": {row[:2]: row[2] for row in names["best"].itertuples(index=False)},
        "spread": {row[:2]: row[2:] for row in names["spread"].itertuples(index=False)},
        "broken": {row[0]: row[1] for row in names["broken"].itertuples(index=False)},
    }


def command(*words: str, bucket: str) -> Any:
    line = [sys.executable, "-m", "epochal", *words, "--dir", bucket, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    return json.loads(done.stdout)


def best_of_commands(bucket: str) -> dict[tuple[str, float], float]:
    """The best value for each project and learning rate, from the list of runs."""
    found: defaultdict[tuple[str, float], list[float]] = defaultdict(list)
    for row in command("ls", "--columns", f"best.{METRIC},config.lr", bucket=bucket):
        if row[f"best.{METRIC}"] is not None:
            found[row["project"], row["config.lr"]].append(row[f"best.{METRIC}"])
    return {key: min(values) for key, values in found.items()}


@pytest.mark.parametrize("engine", ["import duckdb", "to_pandas()"])
def test_an_engine_answers_as_the_commands_do(engine: str, bucket: str) -> None:
    answers = answers_of(engine, epochal.frame(bucket))
    assert answers["best"] == best_of_commands(bucket)
    words = ("--group-by", "lr", "-m", METRIC, "--at", str(AT), "--unfinished")
    (compared,) = command("compare", "sweep-00", *words, bucket=bucket)["tables"]
    assert len(compared["rows"]) == len(RATES)
    for row in compared["rows"]:
        count, *numbers = answers["spread"]["sweep-00", row["values"][0]]
        assert count == row["n"]
        assert numbers == pytest.approx([row["mean"], row["std"]], abs=1e-12)
    num_broken = sum(SHAPES[n % len(SHAPES)] in BROKEN for n in range(NUM_RUNS))
    assert len(answers["broken"]) == num_broken
    for number in (2, 13, 4, 6):
        name = f"run-{number:05d}"
        series = command("series", name, METRIC, "--points", "200", bucket=bucket)
        lost = [s for s, v in zip(series["steps"], series["values"], strict=True) if v is None]
        assert lost == [answers["broken"][name]] if name in answers["broken"] else not lost
        assert series["nonfinite"] == len(lost)


def test_points_are_the_series_of_the_run(bucket: str) -> None:
    frame = epochal.frame(bucket, 'project == "sweep-00"')
    assert frame.runs.num_rows == len(SHAPES)
    known: defaultdict[str, list[tuple[int, float, float]]] = defaultdict(list)
    for point in epochal.points(frame.parts, METRIC).to_pylist():
        known[point["run"]].append((point["step"], point["time"], point["value"]))
    with epochal.open(bucket) as runs:
        for run in runs.runs(f'project == "sweep-00" and exists({METRIC})'):
            series = run.series(METRIC)
            columns = (column.tolist() for column in (series.steps, series.times, series.values))
            assert str(known.pop(run.info.id)) == str(list(zip(*columns, strict=True)))
    assert not known


def test_abandoned_points_are_in_the_files_and_do_not_count(bucket: str) -> None:
    frame = epochal.frame(bucket)
    cuts = {row["before_step"] for row in frame.parts.to_pylist()}
    assert cuts == {None, 1, 70}
    values = epochal.points(frame.parts, METRIC)["value"].to_pylist()
    assert ABANDONED not in values
    assert {value for value in values if not math.isfinite(value)} == {-math.inf} | {
        value for value in values if math.isnan(value)
    }


def test_a_live_run_has_what_is_sealed_and_the_frame_says_so(bucket: str) -> None:
    frame = epochal.frame(bucket)
    (live,) = (row for row in frame.runs.to_pylist() if not row["is_complete"])
    assert live["run"] == f"run-{LIVE:05d}"
    assert frame.note == "1 run with records that are not sealed yet: they are missing."
    assert [row["part"] for row in frame.parts.to_pylist() if row["run"] == live["run"]] == [0]


def test_no_run_is_divided(bucket: str) -> None:
    frame = epochal.frame(bucket)
    tables = frame.split(7)
    runs = [run for table in tables for run in set(table["run"].to_pylist())]
    assert len(tables) <= 7
    assert sorted(runs) == sorted(frame.runs["run"].to_pylist())


def test_a_run_whose_files_cannot_be_read_has_a_problem(tmp_path: Path) -> None:
    fill_bucket(str(tmp_path), 3)
    (tmp_path / "sweep-00" / "run-00001" / "parts.json").write_text("{")
    frame = epochal.frame(tmp_path)
    problems = {row["run"]: row["problem"] for row in frame.runs.to_pylist()}
    assert "parts.json" in problems.pop("run-00001")
    assert set(problems.values()) == {None}
    assert set(frame.parts["run"].to_pylist()) == problems.keys()


def test_the_parts_of_an_object_store_are_read_from_their_addresses(
    s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    address = f"{s3.make_bucket('frames')}/team"
    fill_bucket(address, len(SHAPES))
    frame = epochal.frame(address)
    assert all(uri.startswith(address) for uri in frame.parts["uri"].to_pylist())
    points = epochal.points(frame.parts, METRIC)
    assert points.num_rows > 3 * len(SHAPES)
    assert ABANDONED not in points["value"].to_pylist()


def test_a_folder_has_lines_that_are_not_sealed(tmp_path: Path) -> None:
    Journal(tmp_path / "runs").metrics(0, loss=2.0).metrics(1, loss=math.nan)
    frame = epochal.frame(tmp_path / "runs")
    assert frame.note is None
    assert [Path(uri).suffix for uri in frame.parts["uri"].to_pylist()] == [".jsonl"]
    points = epochal.points(frame.parts)
    assert str(points["value"].to_pylist()) == "[2.0, nan]"
    assert points["step"].to_pylist() == [0, 1]
