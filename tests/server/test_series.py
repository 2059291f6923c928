from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray

import epochal
from benchmarks.series_body import decode_series
from epochal.series.downsample import Buckets
from epochal.series.series import Series
from epochal.server.series import Slicing, series_block, series_body
from epochal.store.local.by_path import load_run
from tests.server.live import Server, serving
from tests.store.journals import Journal
from tests.store.sealing import seal, seal_all


def spiky(root: Path) -> Journal:
    journal = Journal(root)
    for step in range(3000):
        journal.add({"log": "metrics", "step": step, "m": {"loss": 99.0 if step == 1234 else 1.0}})
    return journal


def test_every_point_comes_where_there_are_no_more_than_pixels(
    tmp_path: Path, server: Server
) -> None:
    Journal(tmp_path).metrics(1, loss=0.5).metrics(2, loss=math.nan).metrics(4, loss=0.25)
    answer = server.ask("/api/series", name="loss", run="id-x")
    assert answer.headers["content-type"] == "application/vnd.epochal.series"
    header, (series,) = decode_series(answer.body)
    assert series.head["raw"]
    assert series.columns["x"].tolist() == [1, 2, 4]
    np.testing.assert_array_equal(series.columns["value"], [0.5, math.nan, 0.25])
    assert series.columns["t"].tolist() == [1001, 1002, 1003]
    assert series.head["nonfinite_points"] == 1
    assert header["positions"] == {"id-x": "id-x:loop.1.0.3"}


def test_a_spike_of_one_step_is_in_a_slice(tmp_path: Path, server: Server) -> None:
    spiky(tmp_path)
    _, (series,) = decode_series(server.ask("/api/series", name="loss", run="id-x", pixels=10).body)
    assert not series.head["raw"]
    assert series.head["count"] == 10
    assert series.columns["max"].max() == 99.0
    where = series.columns["max"].argmax()
    assert series.columns["first_x"][where] <= 1234 <= series.columns["last_x"][where]
    assert series.columns["max_x"][where] == 1234
    assert series.columns["count"].sum() == 3000


EXACT = ("first_step", "last_step", "min_step", "max_step", "finite")
NUM_POINTS = 2000
NOISE = np.random.default_rng(0).normal(size=NUM_POINTS)


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (2 + NOISE, 1e-4),
        (1e9 + NOISE, 0),
        (NOISE * 1e-60, 0),
        (NOISE * 1e60, 0),
        (np.full(NUM_POINTS, 0.1), 0),
        (np.floor(3e8 + 1e7 * NOISE), 0),
        (np.where(np.arange(NUM_POINTS) % 7 < 6, NOISE, math.nan), 1e-4),
        (np.full(NUM_POINTS, math.nan), 0),
    ],
    ids="plain offset tiny huge constant counts gaps nan".split(),
)
@pytest.mark.parametrize("at", [np.arange(NUM_POINTS) * 10 + 2**40, np.arange(NUM_POINTS) / 7 - 9])
def test_columns_of_pixels_say_what_the_slices_are(
    values: NDArray[Any], share: float, at: NDArray[Any]
) -> None:
    steps = np.arange(NUM_POINTS)
    series = Series("loss", "step", 0, steps, steps / 1, values, reindexed=("miles", at))
    slices = series.buckets(100)
    block = series_block("id-x", series, Slicing(100))
    _, (found,) = decode_series(series_body([block], missing=(), positions={}))
    for name, wanted in zip(("first_x", "last_x", "min_x", "max_x", "count"), EXACT, strict=True):
        np.testing.assert_array_equal(found.columns[name], getattr(slices, wanted))
    off = share * np.ptp(values[np.isfinite(values)]) if share else 0
    for name in ("mean", "min", "max"):
        np.testing.assert_allclose(found.columns[name], getattr(slices, name), rtol=0, atol=off)
    marks = [x for x, kind in found.nonfinite if kind == 0]
    assert set(marks) <= set(slices.nonfinite_steps)
    assert len(marks) == min(100, slices.nonfinite_steps.size)


def test_a_narrow_range_comes_raw(tmp_path: Path, server: Server) -> None:
    spiky(tmp_path)
    params = server.ask("/api/series", name="loss", run="id-x", pixels=10, lo=1230, hi=1238)
    _, (series,) = decode_series(params.body)
    assert series.columns["x"].tolist() == list(range(1230, 1239))
    assert (series.head["lo"], series.head["hi"]) == (0, 2999)


def test_no_pixels_means_every_point(tmp_path: Path, server: Server) -> None:
    spiky(tmp_path)
    _, (series,) = decode_series(server.ask("/api/series", name="loss", run="id-x", pixels=0).body)
    assert series.head["raw"]
    assert series.head["count"] == 3000


def test_a_long_run_is_drawn_from_block_summaries(tmp_path: Path, server: Server) -> None:
    """Two sealed parts, and an attempt that started again below the end of the second."""
    journal, size = Journal(tmp_path), 20_000
    for part, first in enumerate((0, size)):
        values = (
            (step, 99.0 if step in (1234, 35_000) else 1.0) for step in range(first, first + size)
        )
        journal.add(
            *({"log": "metrics", "step": k, "m": {"loss": v}} for k, v in values), part=part
        )
    seal(journal.folder)
    journal.add({"log": "resume", "step": 30_500}, attempt=2)
    for step in range(30_500, 31_000):
        journal.metrics(step, attempt=2, loss=math.nan if step == 30_600 else 2.0)
    run = load_run(journal.folder.path)
    found = run.downsample("loss", 10)
    assert found is not None
    assert (found.hidden, type(found.shown)) == (9500, Buckets)
    whole, summary = run.series("loss").summary, run.summary("loss")
    assert summary == replace(whole, mean=pytest.approx(whole.mean))
    _, (series,) = decode_series(server.ask("/api/series", name="loss", run="id-x", pixels=10).body)
    head = series.head
    assert [head[name] for name in ("raw", "points", "hidden", "lo", "hi")] == [
        False,
        31_000,
        9500,
        0,
        30_999,
    ]
    assert series.columns["max"].max() == 99.0
    assert series.columns["count"].sum() == 30_999
    assert series.nonfinite == [(30_600.0, 0.0)]
    answer = server.ask("/api/series", name="loss", run="id-x", pixels=10, lo=1230, hi=1238)
    _, (narrow,) = decode_series(answer.body)
    assert narrow.columns["value"].tolist() == [1.0] * 4 + [99.0] + [1.0] * 4
    assert (narrow.head["lo"], narrow.head["hi"], narrow.head["hidden"]) == (0, 30_999, 9500)


def test_many_runs_and_ranks_in_one_answer(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a").metrics(1, loss=1.0).metrics(1, writer="rank-0001", loss=2.0)
    Journal(tmp_path, "b").metrics(1, loss=3.0)
    params = server.ask("/api/series", name="loss", run=["id-a", "id-b"], rank="all")
    _, series = decode_series(params.body)
    found = {(s.head["run"], s.head["rank"]): s.columns["value"].tolist() for s in series}
    assert found == {("id-a", 0): [1.0], ("id-a", 1): [2.0], ("id-b", 0): [3.0]}


@pytest.mark.slow
def test_more_than_a_thousand_runs_come_in_one_answer(tmp_path: Path, server: Server) -> None:
    ids = [f"id-r{number}" for number in range(1500)]
    for number in range(1500):
        Journal(tmp_path, f"r{number}").metrics(0, loss=float(number))
    _, series = decode_series(server.ask("/api/series", name="loss", run=ids).body)
    assert [one.head["run"] for one in series] == ids
    assert [one.columns["value"].tolist() for one in series] == [[float(n)] for n in range(1500)]


def test_what_is_not_there_is_told_beside_what_is(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a").metrics(1, loss=1.0)
    header, series = decode_series(
        server.ask("/api/series", name=["loss", "acc"], run=["id-a", "nobody"]).body
    )
    assert [s.head["name"] for s in series] == ["loss"]
    missing = {(one["run"], one["name"]) for one in header["missing"]}
    assert missing == {("id-a", "acc"), ("nobody", "loss"), ("nobody", "acc")}


def test_a_formula_has_every_rank_that_its_metrics_have(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "a").metrics(1, a=3.0, b=1.0).metrics(1, writer="rank-0001", a=5.0, b=2.0)
    Journal(tmp_path, "b").metrics(1, a=4.0)
    names = ["a - b", "a - ", "a"]
    answer = server.ask("/api/series", name=names, run=["id-a", "id-b"], rank="all")
    header, series = decode_series(answer.body)
    found = [(s.head["name"], s.head["run"], *s.columns["value"].tolist()) for s in series]
    assert found[:2] == [("a - b", "id-a", 2.0), ("a - b", "id-a", 3.0)]
    assert {one[0] for one in found[2:]} == {"a"}
    reasons = {(one["run"], one["name"]): one["reason"] for one in header["missing"]}
    assert "expected a metric or a number; the formula ends here" in reasons["id-a", "a - "]
    assert "needs a metric 'b'" in reasons["id-b", "a - b"]


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ("wall", [1001, 1002]),
        ("relative", [1, 2]),
        ("epoch", [0.5, 1.0]),
        ("tokens", [100, 250]),
        ("progress", [pytest.approx(200 / 3), 100]),
    ],
)
def test_steps_can_be_put_on_other_axes(
    tmp_path: Path, server: Server, x: str, expected: list[float]
) -> None:
    journal = Journal(tmp_path)
    journal.add({"log": "step", "step": 1, "epoch": 0.5, "step_tokens": 100, "loss": 2.0})
    journal.add({"log": "step", "step": 2, "epoch": 1.0, "step_tokens": 150, "loss": 1.0})
    _, (series,) = decode_series(server.ask("/api/series", name="train/loss", run="id-x", x=x).body)
    assert series.head["x"] == x
    assert series.columns["x"].tolist() == expected


def test_a_series_that_cannot_be_put_there_says_where_it_is(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).add({"log": "system", "cpu_pct": 5.0})
    _, (series,) = decode_series(server.ask("/api/series", name="system/cpu_pct", run="id-x").body)
    assert series.head["x"] == "wall"


def test_an_axis_that_was_defined_is_the_default(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add({"log": "define", "name": "v*", "x": "images"})
    journal.metrics(1, images=64).metrics(2, val_acc=0.5).metrics(3, images=128)
    journal.metrics(4, val_acc=0.7)
    for x, expected in ((None, [64, 128]), ("step", [2, 4]), ("images", [64, 128])):
        query: dict[str, Any] = {} if x is None else {"x": x}
        answer = server.ask("/api/series", name="val_acc", run="id-x", **query)
        _, (series,) = decode_series(answer.body)
        assert series.head["x"] == (x or "images")
        assert series.columns["x"].tolist() == expected
    answer = server.ask("/api/series", name="val_acc", run="id-x", x="miles")
    head, series_found = decode_series(answer.body)
    assert series_found == []
    assert "no metric 'miles'" in head["missing"][0]["reason"]


def test_times_out_of_order_are_put_in_order(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    for step, t in ((1, 50.0), (2, 40.0), (3, 60.0)):
        journal.add({"log": "metrics", "t": t, "step": step, "m": {"loss": float(step)}})
    _, (series,) = decode_series(server.ask("/api/series", name="loss", run="id-x", x="wall").body)
    assert series.columns["value"].tolist() == [2, 1, 3]


def test_a_tag_spares_the_body_until_the_run_grows(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    first = server.ask("/api/series", name="loss", run="id-x")
    known = {"If-None-Match": first.headers["etag"]}
    again = server.ask("/api/series", name="loss", run="id-x", headers=known)
    assert (again.status, again.body) == (304, b"")
    journal.metrics(2, loss=0.5)
    assert server.ask("/api/series", name="loss", run="id-x", headers=known).status == 200


def test_a_large_body_is_compressed_for_whoever_takes_it(tmp_path: Path, server: Server) -> None:
    spiky(tmp_path)
    query: dict[str, Any] = {"name": "loss", "run": "id-x", "pixels": 0}
    plain = server.ask("/api/series", **query)
    compressed = server.ask("/api/series", headers={"Accept-Encoding": "gzip"}, **query)
    assert compressed.headers["content-encoding"] == "gzip"
    assert gzip.decompress(compressed.body) == plain.body
    assert "content-encoding" not in plain.headers


def test_marks_of_many_nonfinite_points_are_bounded(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    for step in range(2000):
        journal.metrics(step, loss=math.nan if step % 2 else math.inf)
    _, (series,) = decode_series(server.ask("/api/series", name="loss", run="id-x", pixels=10).body)
    assert series.head["nonfinite_points"] == 2000
    assert 10 <= series.head["nonfinite"] <= 30


@pytest.mark.parametrize(
    "query",
    [
        {"name": "loss"},
        {"run": "id-x"},
        {"name": "loss", "run": "id-x", "pixels": "-1"},
        {"name": "loss", "run": "id-x", "pixels": "99999999"},
        {"name": "loss", "run": "id-x", "lo": "nan"},
        {"name": "loss", "run": "id-x", "lo": "2", "hi": "1"},
        {"name": "loss", "run": "id-x", "rank": "-1"},
        {"name": "loss", "run": [f"r{i}" for i in range(4001)]},
        {"name": ["n" * 5000], "run": "id-x"},
    ],
)
def test_a_wrong_question_is_answered_with_a_sentence(
    server: Server, query: dict[str, Any]
) -> None:
    answer = server.ask("/api/series", **query)
    assert answer.status == 400
    assert answer.json["error"].endswith(".")


@pytest.mark.parametrize(
    ("golden", "query"),
    [
        ("series", {"run": "id-g", "name": ["loss", "acc"]}),
        ("floats", {"run": "id-h", "name": "huge", "x": "relative"}),
    ],
)
def test_the_golden_bodies_have_not_changed(
    tmp_path: Path, server: Server, golden: str, query: dict[str, Any]
) -> None:
    journal = Journal(tmp_path, "g")
    journal.metrics(0, loss=1.0, acc=0.25).metrics(1, loss=0.5).metrics(2, loss=math.nan)
    journal.metrics(3, loss=0.25)
    other = Journal(tmp_path, "h")
    for t, value in ((1000.5, 1e300), (1000.75, -math.inf), (1001.5, 0.125), (1003.0, 7.0)):
        other.add({"log": "metrics", "t": t, "step": int(4 * t), "m": {"huge": value}})
    answer = server.ask("/api/series", pixels=2, **query)
    path = Path(__file__).parent / "golden" / f"{golden}.bin"
    assert answer.body == path.read_bytes()


def _damage(part: Path, column: str) -> None:
    metadata = pq.read_metadata(part)
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    chunks = (group.column(place) for group in groups for place in range(group.num_columns))
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema.startswith(column))
    text = bytearray(part.read_bytes())
    text[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    part.write_bytes(text)


def test_a_run_with_a_damaged_part_does_not_spoil_the_chart(tmp_path: Path) -> None:
    bad = Journal(tmp_path, "bad")
    for step in range(3000):
        bad.metrics(step, loss=step / 3)
    Journal(tmp_path, "good").metrics(1, loss=1.0)
    seal_all(tmp_path)
    with serving(tmp_path) as server:
        (part,) = bad.folder.segments.glob("*.parquet")
        _damage(part, "m.loss")
        answer = server.ask("/api/series", run=["id-bad", "id-good"], name="loss")
        rows = server.ask("/api/runs", summary="loss", order="summary.loss.last")
    assert (answer.status, rows.status, len(rows.json["rows"])) == (200, 200, 2)
    header, series = decode_series(answer.body)
    assert [one.head["run"] for one in series] == ["id-good"]
    assert "damaged" in header["missing"][0]["reason"]


def noisy(root: Path) -> Journal:
    journal, values = Journal(root), np.random.default_rng(0).normal(size=3000)
    for step, value in enumerate(values):
        journal.add({"log": "metrics", "step": step, "m": {"loss": float(value) + 50 / (step + 1)}})
    return journal


@pytest.mark.parametrize("smooth", ["ema:0.9", "time-ema:0.95", "gaussian:12", "mean:25"])
@pytest.mark.parametrize("x", ["step", "relative"])
def test_values_are_smoothed_over_points_before_they_are_sliced(
    tmp_path: Path, server: Server, smooth: str, x: str
) -> None:
    noisy(tmp_path)
    expected = epochal.load(tmp_path / "p" / "x").series("loss", x=x, smooth=smooth)
    for lo, hi in ((0, 4000), (100, 1500), (100, 140)):
        answer = server.ask(
            "/api/series", name="loss", run="id-x", pixels=50, x=x, smooth=smooth, lo=lo, hi=hi
        )
        _, (series,) = decode_series(answer.body)
        at = series.columns["x" if series.head["raw"] else "last_x"]
        wanted = expected.values[np.searchsorted(expected.at, at)]
        np.testing.assert_allclose(series.columns[smooth], wanted, rtol=1e-6, atol=1e-6)


def test_slices_on_a_logarithmic_axis_keep_the_first_steps(tmp_path: Path, server: Server) -> None:
    noisy(tmp_path)
    answer = server.ask("/api/series", name="loss", run="id-x", pixels=100, log=1)
    _, (series,) = decode_series(answer.body)
    assert {0, 1, 2, 3, 4, 5} <= set(series.columns["first_x"].tolist())
    widths = np.log(series.columns["last_x"][-20:] / series.columns["first_x"][-20:])
    assert widths.max() - widths.min() < 0.02
    assert series.columns["count"].sum() == 3000


def test_slices_come_with_their_mean(tmp_path: Path, server: Server) -> None:
    spiky(tmp_path)
    answer = server.ask("/api/series", name="loss", run="id-x", pixels=10)
    _, (series,) = decode_series(answer.body)
    mean = series.columns["mean"]
    assert mean.max() == pytest.approx(1 + 98 / 300)
    assert (mean == 1).sum() == 9


def test_a_smoothing_that_is_not_known_is_refused(tmp_path: Path, server: Server) -> None:
    noisy(tmp_path)
    answer = server.ask("/api/series", name="loss", run="id-x", smooth="box:3")
    assert answer.status == 400
    assert "smooth=" in answer.body.decode()
