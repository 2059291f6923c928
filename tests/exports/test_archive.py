from __future__ import annotations

import base64
import gzip
import html.parser
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.series_body import DecodedSeries, decode_series
from epochal.exports.archive import write
from epochal.server.page import load_page
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal

# Each would end the script, the string or the element it is in, where text is put together.
NASTY = "</script><img src=x onerror=alert(1)>\"'`${1}\\u2028\u2028\u2029<!--<script>]]>&lt;"


def saved(root: Path, *keys: str, **options: Any) -> str:
    store, out = folder_store(root), io.StringIO()
    write([store.run(key) for key in keys], out, **options)
    return out.getvalue()


def tight() -> int:
    """A budget that leaves 400 kB beside the page."""
    return len(load_page().html) + 400_000


class Elements(html.parser.HTMLParser):
    """What a browser would find in a file: its elements, and the text of its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.data = ""
        self._is_data = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._is_data = dict(attrs).get("id") == "epochal-archive"

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False

    def handle_data(self, data: str) -> None:
        if self._is_data:
            self.data += data


def body_of(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(Elements(text).data)
    return body


def series_of(body: dict[str, Any], name: str) -> DecodedSeries:
    for compressed in body["series"]:
        for series in decode_series(gzip.decompress(base64.b64decode(compressed)))[1]:
            if series.head["name"] == name:
                return series
    raise AssertionError(f"there is no series {name!r}")


def test_it_holds_the_run_and_every_point_of_its_series(tmp_path: Path) -> None:
    Journal(tmp_path, config={"lr": 0.1}).metrics(0, loss=1.5).metrics(1, loss=0.25).finish()
    body = body_of(saved(tmp_path, "x"))
    assert body["runs"]["rows"][0]["config"] == {"lr": 0.1}
    assert body["responses"]["id-x"]["run"]["metrics"][0]["summary"]["last"] == 0.25
    series = series_of(body, "loss")
    assert series.head["raw"]
    columns = [column.tolist() for column in series.columns.values()]
    assert columns == [[0.0, 1.0], [1.5, 0.25], [1001.0, 1002.0]]


def test_a_series_is_kept_along_the_axis_that_was_defined(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "define", "name": "acc", "x": "images"})
    journal.metrics(1, images=64, acc=0.5).metrics(2, images=128, acc=0.7)
    series = series_of(body_of(saved(tmp_path, "x")), "acc")
    assert (series.head["x"], series.columns["x"].tolist()) == ("images", [64, 128])


def test_results_of_formulas_are_inside(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(0, a=3.0, b=1.0).metrics(1, a=5.0).metrics(2, a=2.0, b=4.0)
    names = ["a", "a*", "a - b", "a - ", "a / tokens", "a - c"]
    body = body_of(saved(tmp_path, "x", names=names))
    series = series_of(body, "a - b")
    columns = [series.columns[name].tolist() for name in ("x", "value")]
    assert (series.head["x"], columns) == ("step", [[0, 2], [2, -2]])
    for name in names[3:]:
        with pytest.raises(AssertionError):
            series_of(body, name)


def test_several_runs_are_listed_newest_first_and_each_once(tmp_path: Path) -> None:
    Journal(tmp_path, "old", created=1.0).metrics(0, loss=1.0)
    Journal(tmp_path, "new", created=2.0).metrics(0, loss=1.0)
    body = body_of(saved(tmp_path, "old", "new", "old"))
    assert [row["name"] for row in body["runs"]["rows"]] == ["new", "old"]


def test_nothing_that_a_user_wrote_leaves_the_data(tmp_path: Path) -> None:
    journal = Journal(tmp_path, config={NASTY: NASTY}, notes=NASTY, tags=[NASTY])
    journal.add({"log": "metrics", "step": 0, "m": {NASTY: 1.0}})
    journal.add({"log": "text", "step": 0, "name": NASTY, "text": NASTY})
    journal.add({"log": "message", "level": "info", "text": NASTY})
    journal.add({"log": "graph", "name": NASTY, "svg": NASTY})
    (tmp_path / "p/x/labels.json").write_text(json.dumps({"name": NASTY}))
    text = saved(tmp_path, "id-x")
    empty = tmp_path / "empty"
    Journal(empty)
    assert Elements(text).tags == Elements(saved(empty, "x")).tags
    body = body_of(text)
    assert body["runs"]["rows"][0]["config"] == {NASTY: NASTY}
    assert body["responses"]["id-x"]["texts"]["entries"][0]["record"]["text"] == NASTY
    assert "\u2028" not in Elements(text).data


def test_only_the_pages_own_script_may_run(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(0, loss=1.0)
    text = saved(tmp_path, "x")
    policy = text.split('http-equiv="Content-Security-Policy" content="')[1].split('"')[0]
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert text.index("Content-Security-Policy") < text.index("<script")


@pytest.fixture
def long_run(tmp_path: Path) -> Path:
    """60,000 points of noise with one spike and a NaN."""
    values = np.random.default_rng(0).standard_normal(60_000)
    values[12_345] = 99.0
    values[30_000] = np.nan
    journal = Journal(tmp_path)
    journal.add(
        *(
            {"log": "metrics", "step": step, "m": {"x": value}}
            for step, value in enumerate(values.tolist())
        )
    )
    journal.metrics(59_999, short=1.0)
    return tmp_path


def test_a_long_series_is_cut_to_the_budget(long_run: Path) -> None:
    budget = tight()
    text = saved(long_run, "x", budget_bytes=budget)
    assert 0.8 * budget < len(text.encode()) <= budget
    head = series_of(body_of(text), "x").head
    assert not head["raw"]
    assert head["points"] == 60_000
    assert series_of(body_of(text), "short").head["raw"]


@pytest.mark.slow
def test_a_long_series_that_fits_is_whole(long_run: Path) -> None:
    series = series_of(body_of(saved(long_run, "x")), "x")
    assert series.head["raw"]
    assert series.columns["value"].size == 60_000


@pytest.mark.slow
def test_slices_lose_no_extreme(long_run: Path) -> None:
    body = body_of(saved(long_run, "x", budget_bytes=tight()))
    series = series_of(body, "x")
    columns = series.columns
    assert np.nanmax(columns["max"]) == 99.0
    assert columns["count"].sum() == 59_999
    assert columns["count"].max() > 1
    assert series.nonfinite == [(30_000.0, 0.0)]
    assert (columns["first_x"] <= columns["last_x"]).all()
    assert (np.diff(columns["last_x"]) > 0).all()
    original = load_run(long_run / "p/x").series("x").values
    names = ("first_x", "last_x", "ema:0", "mean", "min", "max", "min_x", "max_x")
    for start, end, last, *found in zip(*(columns[name] for name in names), strict=True):
        points = original[int(start) : int(end) + 1]
        assert last == pytest.approx(points[-1], abs=1e-5)
        extremes = (np.nanmean(points), np.nanmin(points), np.nanmax(points))
        assert found[:3] == pytest.approx(extremes, abs=1e-5)
        assert original[[int(x) for x in found[3:]]].tolist() == [*extremes[1:]]


def test_steps_translate_to_time_epochs_and_tokens(tmp_path: Path) -> None:
    step = {"log": "step", "loss": 1.0, "step_tokens": 10}
    Journal(tmp_path).add({**step, "step": 0, "epoch": 0.5}, {**step, "step": 1, "epoch": 1.0})
    axes = body_of(saved(tmp_path, "x"))["axes"]["id-x"]
    assert axes["epoch"] == {"step": [0.0, 1.0], "at": [0.5, 1.0]}
    assert axes["tokens"] == {"step": [0.0, 1.0], "at": [10.0, 20.0]}
    assert axes["wall"] == {"step": [0.0, 1.0], "at": [1001.0, 1002.0]}


def test_texts_are_thinned_evenly_and_the_log_keeps_its_newest_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(60):
        journal.add({"log": "text", "step": step, "name": "s", "text": f"{step} " + "x" * 9000})
        journal.add({"log": "message", "level": "info", "text": f"line {step}"})
    entries = body_of(saved(tmp_path, "x", budget_bytes=tight()))["responses"]["id-x"]
    steps = [entry["step"] for entry in entries["texts"]["entries"]]
    assert 1 < len(steps) < 60
    assert (steps[0], steps[-1]) == (0, 59)
    assert entries["texts"]["names"] == {"s": 60}
    assert entries["log"]["entries"][-1]["record"]["text"] == "line 59"


def test_a_text_larger_than_the_budget_is_left_out(tmp_path: Path) -> None:
    journal = Journal(tmp_path).add({"log": "text", "step": 0, "name": "s", "text": "x" * 900_000})
    journal.add({"log": "text", "step": 0, "name": "small", "text": "kept"})
    body = body_of(saved(tmp_path, "x", budget_bytes=tight()))
    texts = body["responses"]["id-x"]["texts"]["entries"]
    assert [entry["name"] for entry in texts] == ["small"]


def blob_run(root: Path, *sizes: int, media_type: str = "image/png") -> None:
    journal = Journal(root)
    journal.folder.blobs.mkdir()
    for step, size in enumerate(sizes):
        (journal.folder.blobs / f"{step}.png").write_bytes(bytes(size))
        fields = {"name": "b", "file": f"{step}.png", "media_type": media_type, "bytes": size}
        journal.add({"log": "blob", "step": step, **fields})


def test_blobs_are_inside_and_the_newest_has_room_first(tmp_path: Path) -> None:
    blob_run(tmp_path, 90_000, 90_000, 60_000)
    body = body_of(saved(tmp_path, "x", sample_bytes=120_000))
    assert list(body["blobs"]["id-x"]) == ["2.png"]
    assert body["blobs"]["id-x"]["2.png"].startswith("data:image/png;base64,AAAA")
    samples = body["responses"]["id-x"]["blobs"]
    assert [entry["step"] for entry in samples["entries"]] == [2]
    assert samples["names"] == {"b": 3}


def test_a_sample_is_inside_with_its_masks_and_cells_or_not_at_all(tmp_path: Path) -> None:
    blob_run(tmp_path, 300, 300)
    journal = Journal(tmp_path, "y")
    journal.folder.blobs.mkdir()
    for file in ("t.table.json", "cell.png", "large.png"):
        (journal.folder.blobs / file).write_bytes(bytes(60_000 if file == "large.png" else 300))
    table = {"file": "t.table.json", "media_type": "application/vnd.epochal.table+json"}
    masks = [{"group": "g", "file": "large.png"}]
    journal.add({"log": "blob", "step": 0, "name": "t", **table, "files": ["cell.png"]})
    journal.add({"log": "blob", "step": 0, "name": "m", **table, "masks": masks})
    body = body_of(saved(tmp_path, "x", "y", sample_bytes=20_000))
    assert list(body["blobs"]["id-y"]) == ["t.table.json", "cell.png"]
    assert [entry["name"] for entry in body["responses"]["id-y"]["blobs"]["entries"]] == ["t"]


def test_a_file_that_the_user_keeps_is_listed_without_its_bytes(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "ab.pt").write_bytes(b"weights")
    journal.add({"log": "file", "step": 0, "name": "best.pt", "file": "ab.pt", "bytes": 7})
    body = body_of(saved(tmp_path, "x"))
    assert [entry["name"] for entry in body["responses"]["id-x"]["files"]["entries"]] == ["best.pt"]
    assert body["blobs"]["id-x"] == {}


def test_a_blob_is_an_image_only_if_it_says_a_known_kind(tmp_path: Path) -> None:
    blob_run(tmp_path, 10, media_type="application/xhtml+xml")
    address = body_of(saved(tmp_path, "x"))["blobs"]["id-x"]["0.png"]
    assert address.startswith("data:application/octet-stream;base64,")


def test_a_blob_that_is_gone_does_not_spoil_the_rest(tmp_path: Path) -> None:
    blob_run(tmp_path, 10, 10)
    (tmp_path / "p/x/blobs/1.png").unlink()
    assert list(body_of(saved(tmp_path, "x"))["blobs"]["id-x"]) == ["0.png"]


def test_where_the_run_lies_on_this_machine_is_not_told(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(0, loss=1.0)
    assert str(tmp_path) not in saved(tmp_path, "x")
