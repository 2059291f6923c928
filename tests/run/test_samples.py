"""Values besides numbers that ``run.log`` takes."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as pillow  # noqa: N813

import epochal
from epochal.errors import FormatError
from epochal.exchange.media.types import CHARTS
from epochal.journal.blobs import blob_bytes, encode_pending, files_of
from epochal.journal.layout import RunFolder
from epochal.journal.line import decode_json
from epochal.run.run import Run, recorder_of
from tests.doubles.journals import of_kind

GIF = b"GIF89a"


def blobs(run: Run) -> list[dict[str, Any]]:
    return of_kind(run.dir, "blob")


def content(run: Run, record: dict[str, Any]) -> bytes:
    return blob_bytes(RunFolder(run.dir), record["file"])


def opened(data: bytes) -> Any:
    return pillow.open(io.BytesIO(data))


def table(run: Run, record: dict[str, Any]) -> Any:
    return decode_json(content(run, record))


def pixels(*shape: int) -> Any:
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4), (3, 8, 5)])
@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.bool_, np.int64])
def test_an_array_is_stored_raw_and_encoded_later(
    run: Run, shape: tuple[int, ...], kind: Any
) -> None:
    bright = (pixels(*shape) > 127).astype(kind)
    array = bright * kind(255) if kind in (np.uint8, np.int64) else bright
    run.log({"picture": epochal.Image(array, caption="x")}, step=1)
    (record,) = blobs(run)
    assert [path.name for path in (run.dir / "blobs").iterdir()] == [f"{record['file']}.raw"]
    before = content(run, record)
    assert encode_pending(RunFolder(run.dir))
    assert [path.name for path in (run.dir / "blobs").iterdir()] == [record["file"]]
    assert content(run, record) == before
    wanted = (pixels(*shape) > 127) * np.uint8(255)
    wanted = wanted.transpose(1, 2, 0) if shape == (3, 8, 5) else wanted
    with opened(before) as picture:
        assert np.array_equal(np.asarray(picture).reshape(wanted.shape), wanted)
        assert (record["width"], record["height"]) == picture.size
    assert (record["media_type"], record["caption"]) == ("image/png", "x")


def test_what_people_have_at_hand_is_recognised(run: Run) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()
    picture = pillow.fromarray(pixels(4, 5, 3))
    rows = [{"prompt": "a", "reward": 1.0}, {"prompt": "b", "length": 3}]
    run.log({"val": {"picture": picture}, "figure": figure, "rows": rows, "loss": 0.5})
    found = {record["name"]: record for record in blobs(run)}
    assert opened(content(run, found["val.picture"])).size == (5, 4)
    assert opened(content(run, found["figure"])).format == "PNG"
    columns = ["prompt", "reward", "length"]
    data = [["a", 1.0, None], ["b", None, 3]]
    assert table(run, found["rows"]) == {"columns": columns, "data": data}
    assert [record["m"] for record in of_kind(run.dir, "metrics")] == [{"loss": 0.5}]


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_a_data_frame_is_a_table(run: Run, package: str) -> None:
    frame = pytest.importorskip(package).DataFrame({"a": [1, 2], "b": ["x", None]})
    run.log({"frame": frame})
    assert table(run, blobs(run)[0])["columns"] == ["a", "b"]
    assert [row[0] for row in table(run, blobs(run)[0])["data"]] == [1, 2]


def test_a_list_of_pictures_keeps_its_order(run: Run) -> None:
    run.log({"grid": [pillow.fromarray(pixels(4, 5)), epochal.Image(GIF)]}, step=3)
    assert [(r["index"], r["step"], r["media_type"]) for r in blobs(run)] == [
        (0, 3, "image/png"),
        (1, 3, "image/gif"),
    ]


def test_equal_content_is_stored_once(run: Run, tmp_path: Path) -> None:
    (tmp_path / "picture.gif").write_bytes(GIF)
    run.log({"a": epochal.Image(tmp_path / "picture.gif"), "b": epochal.Image(GIF)})
    run.log({"a": epochal.Image(pixels(4, 6)), "b": epochal.Image(pixels(4, 6))})
    assert len(blobs(run)) == 4
    assert len(list((run.dir / "blobs").iterdir())) == 2


def test_the_shape_is_part_of_the_content(run: Run) -> None:
    run.log({"a": epochal.Image(np.zeros((4, 6))), "b": epochal.Image(np.zeros((6, 4)))})
    assert [opened(content(run, record)).size for record in blobs(run)] == [(6, 4), (4, 6)]


def test_a_sample_is_what_it_was_when_it_was_made(run: Run) -> None:
    array = np.zeros((4, 4), np.uint8)
    sample = epochal.Image(array)
    array += 9
    run.log({"a": sample})
    assert np.asarray(opened(content(run, blobs(run)[0]))).max() == 0


def test_boxes_are_shares_of_the_picture_and_masks_are_pictures(run: Run) -> None:
    boxes: list[dict[str, Any]] = [
        {"box": (10, 5, 20, 10), "label": "cat", "score": 0.9, "group": "truth"},
        {"box": (0.1, 0.1, 0.5, 1)},
    ]
    masks = {"seen": {"mask": np.eye(10, 20, dtype=int), "labels": {1: "cat"}}}
    run.log({"a": epochal.Image(pixels(10, 20, 3), boxes=boxes, masks=masks)})
    (record,) = blobs(run)
    edges = {"x0": 0.5, "y0": 0.5, "x1": 1.0, "y1": 1.0}
    assert record["boxes"][0] == {**edges, "label": "cat", "score": 0.9, "group": "truth"}
    assert record["boxes"][1] == {"x0": 0.1, "y0": 0.1, "x1": 0.5, "y1": 1.0}
    (mask,) = record["masks"]
    assert (mask["group"], mask["labels"]) == ("seen", {"1": "cat"})
    assert np.asarray(opened(content(run, mask))).sum() == 10
    assert list(files_of(record)) == [record["file"], mask["file"]]


def test_sounds_and_videos(run: Run) -> None:
    wave = np.sin(np.arange(800) / 5)
    run.log({"sound": epochal.Audio(np.stack([wave, wave]), 8000), "clip": epochal.Video(GIF)})
    run.log({"frames": epochal.Video(pixels(3, 8, 8, 3), fps=4)})
    sound, clip, frames = blobs(run)
    assert (sound["media_type"], sound["bytes"]) == ("audio/wav", 44 + 800 * 2 * 2)
    assert (clip["media_type"], frames["frames"]) == ("image/gif", 3)
    assert opened(content(run, frames)).n_frames == 3


def test_cells_of_a_table_hold_pictures_and_odd_values(run: Run) -> None:
    rows = [[epochal.Image(GIF, caption="c"), float("nan"), np.float32(0.5), {"a": (1, 2)}]]
    run.log({"t": epochal.Table([*rows, [None, 2**60, b"x", object]], columns="abcd")})
    (record,) = blobs(run)
    first, second = table(run, record)["data"]
    assert first[0]["caption"] == "c"
    assert first[1:] == ["nan", 0.5, {"a": [1, 2]}]
    assert second[:3] == [None, str(2**60), "b'x'"]
    assert record["files"] == [first[0]["file"]]
    assert files_of(record)[first[0]["file"]] == "image/gif"


def test_a_table_says_how_it_is_drawn(run: Run) -> None:
    rows = {"recall": [0.0, 1.0], "precision": [1.0, 0.5]}
    chart = {"kind": "line", "x": "recall", "y": "precision"}
    run.log({"pr": epochal.Table(rows, chart=chart)})
    assert blobs(run)[0]["chart"] == chart
    run.log({"bad": epochal.Table(rows, chart={**chart, "x": "nothing"})})
    assert "no column 'nothing'" in of_kind(run.dir, "event")[-1]["reason"]
    assert set(CHARTS) == {"line", "scatter", "bar", "histogram", "matrix"}


def test_a_page_is_a_file_and_markdown_is_a_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>b</p>")
    run.log({"a": epochal.Html("<p>a</p>"), "b": epochal.Html(tmp_path / "page.html")})
    run.log({"c": epochal.Markdown("# c", caption="words")})
    assert [content(run, record) for record in blobs(run)] == [b"<p>a</p>", b"<p>b</p>"]
    (text,) = of_kind(run.dir, "text")
    assert (text["text"], text["format"], text["caption"]) == ("# c", "markdown", "words")


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (lambda: epochal.Image(b"rubbish"), "must be PNG, JPEG"),
        (lambda: epochal.Image("/absent.png"), "No such file"),
        (lambda: epochal.Image(np.zeros(3)), r"shape \(3,\)"),
        (lambda: epochal.Image(np.zeros((0, 3))), "is empty"),
        (lambda: epochal.Image(None), "must hold numbers"),
        (lambda: epochal.Image(GIF, boxes=[{"box": (1, 2)}]), "four finite numbers|identify"),
        (lambda: epochal.Audio(np.zeros(0), 8000), "no samples to play"),
        (lambda: epochal.Audio(np.zeros(9)), "needs its sample_rate"),
        (lambda: epochal.Video(np.zeros((3, 8, 8))), "use T×H×W×C"),
        (lambda: epochal.Table([[1, 2], [3]], columns="ab"), "must have 2 values"),
        (lambda: epochal.Html(3), "must be a text or a path"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_read_is_reported_once_and_loses_nothing_else(
    run: Run, strict_run: Run, capsys: pytest.CaptureFixture[str], sample: Any, words: str
) -> None:
    for step in (1, 2):
        run.log({"bad": sample(), "loss": 0.5, "good": epochal.Image(GIF)}, step)
    assert [record["name"] for record in blobs(run)] == ["good", "good"]
    assert len(of_kind(run.dir, "metrics")) == 2
    assert capsys.readouterr().err.count("'bad'") == 2  # one line names it twice
    with pytest.raises((ValueError, OSError), match=words):
        strict_run.log({"bad": sample()})


def test_an_array_of_the_shape_of_a_picture_is_a_histogram_with_a_hint(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    run.log({"a": pixels(3, 16, 16)})
    assert len(of_kind(run.dir, "histogram")) == 1
    assert "epochal.Image(array)" in capsys.readouterr().err


def test_samples_beyond_the_budget_are_skipped_and_counted(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder_of(run).samples.budget_bytes = 1000
    for step in range(4):
        run.log({"a": epochal.Image(GIF + bytes([step]) * 294), "loss": 0.5}, step)
    assert (len(blobs(run)), len(of_kind(run.dir, "metrics"))) == (3, 4)
    assert [r["name"] for r in of_kind(run.dir, "event")] == ["samples-budget", "value-dropped"]
    assert "take 900 B and approach the limit" in capsys.readouterr().err
    run.log({"a": epochal.Image(GIF * 100)})
    assert recorder_of(run).values.dropped == {"(samples)": 2}


def test_a_sample_without_a_step_belongs_to_the_last_one(run: Run) -> None:
    run.log({"a": 1}, step=7)
    epochal_table = epochal.Table([{"x": 1}])
    recorder_of(run).write_sample("t", epochal_table, recorder_of(run).sample_step(None))
    assert blobs(run)[0]["step"] == 7


def test_boxes_may_be_an_array_and_masks_one_array(run: Run) -> None:
    torch = pytest.importorskip("torch")
    boxes = torch.tensor([[10.0, 5.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]], requires_grad=True)
    run.log({"a": epochal.Image(pixels(10, 20), boxes=boxes, masks=torch.eye(10, dtype=torch.int))})
    (record,) = blobs(run)
    assert record["boxes"][0] == {"x0": 0.0, "y0": 0.0, "x1": 0.5, "y1": 0.5}
    assert record["boxes"][1] == {"x0": 0.0, "y0": 0.0, "x1": 0.05, "y1": 0.1}
    assert [mask["group"] for mask in record["masks"]] == ["mask"]


def test_values_that_are_clipped_are_noted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    run.log({"a": epochal.Image(np.full((4, 4), 200.0)), "b": epochal.Image(np.full((4, 4), 0.5))})
    said = capsys.readouterr().err
    assert said.count("Epochal reads floats of a picture as 0 to 1. Yours go from 200 to 200") == 1


def test_axes_are_drawn_with_their_figure_and_none_in_a_list_is_left_out(run: Run) -> None:
    axes = pytest.importorskip("matplotlib.figure").Figure().subplots()
    run.log({"axes": axes, "list": [epochal.Image(GIF), None]})
    assert [record["name"] for record in blobs(run)] == ["axes", "list"]


def test_a_file_that_cannot_be_encoded_leaves_the_others(run: Run) -> None:
    run.log({"a": epochal.Image(pixels(4, 4)), "b": epochal.Image(pixels(5, 5))})
    first, second = blobs(run)
    (run.dir / "blobs" / f"{first['file']}.raw").write_bytes(b"rubbish")
    assert encode_pending(RunFolder(run.dir))
    assert opened(content(run, second)).size == (5, 5)
    with pytest.raises(FormatError, match="not a file of raw pixels"):
        content(run, first)
