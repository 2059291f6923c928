"""What ``wandb.log`` keeps of values that are no numbers, and how they are served."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import epochal
import epochal.wandb as wandb
from epochal.journal.blobs import TABLE
from epochal.wandb import notices


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    notices._SAID.clear()
    yield tmp_path
    wandb.teardown()


def logged(value: Any, name: str = "it") -> tuple[Any, list[dict[str, Any]]]:
    """Log one value at step 3; the run's view and its records of that name."""
    with wandb.init() as run:
        run.log({name: value}, step=3)
    view = epochal.load(run.sync_dir).view
    kinds = ("blob", "histogram", "text")
    found = [dict(entry.record) for kind in kinds for entry in view.entries(kind)]
    return view, found


def content(value: Any) -> tuple[bytes, dict[str, Any]]:
    view, records = logged(value)
    (record,) = records
    assert (record["name"], record["step"]) == ("it", 3)
    return view.blob(record["file"]), record


def pixels(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)))


def test_a_table_is_kept_as_columns_and_rows() -> None:
    table = wandb.Table(columns=["x", "y"])
    table.add_data(1, "a")
    table.add_data(float("nan"), np.float32(0.5))
    table.add_column("z", [True, None])
    data, record = content(table)
    assert record["media_type"] == TABLE
    assert json.loads(data) == {
        "columns": ["x", "y", "z"],
        "data": [[1, "a", True], ["nan", 0.5, None]],
    }
    assert table.get_column("y") == ["a", np.float32(0.5)]


def test_a_table_of_an_array_and_of_a_data_frame() -> None:
    assert wandb.Table(data=np.eye(2)).data == [[1.0, 0.0], [0.0, 1.0]]
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert wandb.Table(dataframe=frame).columns == ["a", "b"]
    data, _ = content(frame)
    assert json.loads(data)["data"] == [[1, "x"], [2, "y"]]


def test_pictures_in_a_table_are_cells() -> None:
    picture = wandb.Image(np.zeros((2, 2)), caption="dark")
    view, (record,) = logged(wandb.Table(columns=["p"], data=[[picture]]))
    ((cell,),) = json.loads(view.blob(record["file"]))["data"]
    assert (cell["media_type"], cell["caption"]) == ("image/png", "dark")
    assert record["files"] == [cell["file"]]
    assert pixels(view.blob(cell["file"])).shape == (2, 2)


def test_a_row_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expects 2 columns"):
        wandb.Table(columns=["a", "b"]).add_data(1)


@pytest.mark.parametrize("kind", ["bytes", "floats", "tensor", "pillow", "path", "signed"])
def test_images_of_every_kind(kind: str, here: Path) -> None:
    torch = pytest.importorskip("torch")
    expected = np.array([[[0, 128, 255], [255, 0, 0]]], dtype=np.uint8)
    Image.fromarray(expected).save(here / "it.png")
    given = {
        "bytes": expected,
        "floats": expected / 255,
        "tensor": torch.tensor(expected).permute(2, 0, 1),
        "pillow": Image.fromarray(expected),
        "path": str(here / "it.png"),
        "signed": expected / 127.5 - 1,
    }[kind]
    data, record = content(wandb.Image(given, caption="said"))
    assert (record["media_type"], record["caption"]) == ("image/png", "said")
    assert np.abs(pixels(data).astype(int) - expected).max() <= 1


def test_boxes_and_masks_are_kept_as_fractions_and_class_numbers(here: Path) -> None:
    mask = np.array([[0, 1], [2, 1]], dtype=np.uint8)
    Image.fromarray(mask).save(here / "mask.png")
    classes = wandb.Classes([{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}])
    by_edges = {"minX": 0.25, "maxX": 0.5, "minY": 0.0, "maxY": 1.01}
    by_middle = {"middle": [10, 20], "width": 10, "height": 20}
    boxes = [
        {"position": by_edges, "class_id": 2, "scores": {"sure": 0.75}},
        {"position": by_middle, "domain": "pixel", "class_id": 1, "box_caption": "a cat"},
        {"position": by_edges, "class_id": 9},
    ]
    picture = wandb.Image(
        np.zeros((40, 20, 3), np.uint8),
        classes=classes,
        boxes={"guess": {"box_data": boxes}},
        masks={
            "guess": {"mask_data": mask, "class_labels": {0: "ground"}},
            "truth": {"path": str(here / "mask.png")},
        },
    )
    view, (record,) = logged(picture)
    assert record["boxes"] == [
        {"x0": 0.25, "y0": 0.0, "x1": 0.5, "y1": 1.0, "label": "dog", "group": "guess"}
        | {"score": 0.75},
        {"x0": 0.25, "y0": 0.25, "x1": 0.75, "y1": 0.75, "label": "a cat", "group": "guess"},
        {"x0": 0.25, "y0": 0.0, "x1": 0.5, "y1": 1.0, "label": "class_9", "group": "guess"},
    ]
    guess, truth = record["masks"]
    assert guess["labels"] == {"0": "ground", "1": "cat", "2": "dog"}
    for one in (guess, truth):
        assert pixels(view.blob(one["file"])).tolist() == mask.tolist()


def test_several_images_are_numbered_and_figures_are_drawn() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    _, records = logged([wandb.Image(np.zeros((2, 2))), wandb.Image(np.ones((2, 2)))])
    assert [(record["name"], record["index"]) for record in records] == [("it", 0), ("it", 1)]
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    for given in (figure, plt, axes, wandb.Image(plt), wandb.Plotly.make_plot_media(figure)):
        data, _ = content(given)
        assert pixels(data).shape[0] > 100
    plt.close(figure)


def test_html_is_kept_unchanged(here: Path) -> None:
    data, record = content(wandb.Html("<h1>Hi</h1>"))
    assert (data, record["media_type"]) == (b"<h1>Hi</h1>", "text/html")
    (here / "page.html").write_text("<p>file</p>")
    assert content(wandb.Html("page.html"))[0] == b"<p>file</p>"
    assert content(wandb.Html(io.StringIO("<p>text</p>")))[0] == b"<p>text</p>"
    with open("page.html") as page:
        assert content(wandb.Html(page))[0] == b"<p>file</p>"


def test_histograms_texts_and_arrays() -> None:
    _, (record,) = logged(wandb.Histogram(np_histogram=([1, 2], [0.0, 1.0, 2.0])))
    assert (record["counts"], record["lo"], record["hi"]) == ([1, 2], 0.0, 2.0)
    _, (record,) = logged(np.arange(100.0))
    assert (record["log"], record["count"]) == ("histogram", 100)
    for given, text in (("words", "words"), (b"words", "words"), (["a", "b"], "a, b")):
        _, (record,) = logged(given)
        assert (record["log"], record["text"]) == ("text", text)


def test_sound_video_and_shapes_are_kept_as_files(here: Path) -> None:
    data, record = content(wandb.Audio(np.zeros(8), sample_rate=8000))
    assert (data[:4], record["media_type"]) == (b"RIFF", "audio/wav")
    _, record = content(wandb.Video(np.zeros((3, 3, 4, 4), dtype=np.uint8), fps=2))
    assert (record["media_type"], record["frames"]) == ("image/webp", 3)
    _, record = content(wandb.Video(np.zeros((2, 3, 3, 4, 8), dtype=np.uint8)))
    assert (record["width"], record["height"]) == (16, 4)
    _, record = content(wandb.Object3D(np.zeros((4, 3))))
    assert record["media_type"] == "application/x-npy"
    (here / "it.pdb").write_bytes(b"ATOM")
    assert content(wandb.Molecule("it.pdb"))[0] == b"ATOM"


def test_a_broken_sample_is_reported_and_the_row_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    with wandb.init() as run:
        run.log({"loss": 0.5, "it": wandb.Image(np.zeros((2, 2, 7))), "boxes": broken_boxes()})
    assert epochal.load(run.sync_dir).series("loss").values.tolist() == [0.5]
    said = capfd.readouterr().err
    assert "shape (2, 2, 7)" in said
    assert "'boxes'" in said


def broken_boxes() -> wandb.Image:
    return wandb.Image(np.zeros((2, 2)), boxes={"guess": {"box_data": [{"position": {}}]}})


def test_charts_are_tables_with_a_specification() -> None:
    truth, scores = [0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]]
    table = wandb.Table(columns=["a", "b", "n"], data=[[1, 2, "x"], [2, 3, "y"]])
    plot = wandb.plot
    charts = {
        "line": plot.line(table, "a", "b", stroke="n", title="A"),
        "scatter": plot.scatter(table, "a", "b"),
        "bar": plot.bar(table, "n", "b"),
        "histogram": plot.histogram(table, "a"),
        "series": plot.line_series([0, 1], [[1, 2], [3, 4]], keys=["p", "q"], xname="t"),
        "roc": plot.roc_curve(truth, scores),
        "pr": plot.pr_curve(truth, scores),
        "matrix": plot.confusion_matrix(y_true=[0, 1], preds=[0, 0], class_names=["c", "d"]),
        "unknown": wandb.plot_table("me/my-chart", table, {"x": "a"}),
        "without": plot.line(table, "a", "missing"),
    }
    with wandb.init() as run:
        run.log(charts)
    view = epochal.load(run.sync_dir).view
    kept = {entry.record["name"]: entry.record for entry in view.entries("blob")}
    assert {record["media_type"] for record in kept.values()} == {TABLE}
    assert {name: record.get("chart") for name, record in kept.items()} == {
        "line": {"kind": "line", "x": "a", "y": "b", "color": "n", "title": "A"},
        "scatter": {"kind": "scatter", "x": "a", "y": "b"},
        "bar": {"kind": "bar", "x": "n", "y": "b"},
        "histogram": {"kind": "histogram", "x": "a"},
        "series": {"kind": "line", "x": "t", "y": "value", "color": "key"},
        "roc": {"kind": "line", "x": "fpr", "y": "tpr", "color": "class", "title": "ROC Curve"},
        "pr": {"kind": "line", "x": "recall", "y": "precision", "color": "class"}
        | {"title": "Precision-Recall Curve"},
        "matrix": {"kind": "matrix", "x": "Predicted", "y": "Actual", "value": "nPredictions"}
        | {"title": "Confusion Matrix Curve"},
        "unknown": None,
        "without": None,
    }
    matrix = json.loads(view.blob(str(kept["matrix"]["file"])))
    assert matrix["data"] == [["c", "c", 1], ["c", "d", 0], ["d", "c", 1], ["d", "d", 0]]


def test_curves_have_the_points_that_scikit_learn_computes() -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 200)
    scores = np.clip(truth * 0.3 + rng.random(200), 0, 1).round(2)
    chart = wandb.plot.roc_curve(truth, np.stack([1 - scores, scores], axis=1))
    assert chart is not None
    ours = [[x, y] for name, x, y in chart.table.data if name == 1]
    fpr, tpr, _ = metrics.roc_curve(truth, scores)
    assert ours == np.stack([fpr, tpr], axis=1).round(3).tolist()
