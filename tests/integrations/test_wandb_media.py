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
from epochal.media.files import TABLE
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


def test_pictures_in_a_table_are_kept_as_files() -> None:
    table = wandb.Table(columns=["p"], data=[[wandb.Image(np.zeros((2, 2)))]])
    view, records = logged(table)
    named = {record["name"]: record for record in records}
    assert set(named) == {"it", "it/p/0"}
    assert json.loads(view.blob(named["it"]["file"]))["data"] == [["it/p/0"]]


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


def test_several_images_are_numbered_and_figures_are_drawn() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    _, records = logged([wandb.Image(np.zeros((2, 2))), wandb.Image(np.ones((2, 2)))])
    assert [record["name"] for record in records] == ["it/0", "it/1"]
    figure, axes = plt.subplots()
    axes.plot([1, 2])
    data, _ = content(figure)
    assert pixels(data).shape[0] > 100
    plt.close(figure)


def test_html_is_kept_unchanged(here: Path) -> None:
    data, record = content(wandb.Html("<h1>Hi</h1>"))
    assert (data, record["media_type"]) == (b"<h1>Hi</h1>", "text/html")
    (here / "page.html").write_text("<p>file</p>")
    assert wandb.Html("page.html").html == "<p>file</p>"


def test_histograms_texts_and_arrays() -> None:
    _, (record,) = logged(wandb.Histogram(np_histogram=([1, 2], [0.0, 1.0, 2.0])))
    assert (record["counts"], record["lo"], record["hi"]) == ([1, 2], 0.0, 2.0)
    _, (record,) = logged(np.arange(100.0))
    assert (record["log"], len(record["counts"]), record["count"]) == ("histogram", 32, 100)
    _, (record,) = logged("words")
    assert (record["log"], record["text"]) == ("text", "words")


def test_sound_video_and_shapes_are_kept_as_files(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, record = content(wandb.Audio(np.zeros(8), sample_rate=8000))
    assert (data[:4], record["media_type"]) == (b"RIFF", "audio/wav")
    data, record = content(wandb.Video(np.zeros((3, 3, 4, 4), dtype=np.uint8), fps=2))
    assert (data[:4], record["media_type"]) == (b"GIF8", "image/gif")
    (here / "it.mp4").write_bytes(b"video")
    data, record = content(wandb.Video("it.mp4"))
    assert (data, record["media_type"]) == (b"video", "video/mp4")
    data, record = content(wandb.Object3D(np.zeros((4, 3))))
    assert record["media_type"] == "application/x-npy"
    assert capfd.readouterr().err.count("wandb.Audio holds is kept as a file") == 1


def test_charts_are_kept_as_their_table_and_a_drawing() -> None:
    truth, scores = [0, 1, 1, 0], [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.7, 0.3]]
    table = wandb.Table(columns=["a", "b", "n"], data=[[1, 2, "x"], [2, 3, "y"]])
    charts = {
        "line": wandb.plot.line(table, "a", "b", stroke="n", title="<A>"),
        "scatter": wandb.plot.scatter(table, "a", "b"),
        "bar": wandb.plot.bar(table, "n", "b"),
        "histogram": wandb.plot.histogram(table, "a"),
        "series": wandb.plot.line_series([0, 1], [[1, 2], [3, 4]], keys=["p", "q"]),
        "roc": wandb.plot.roc_curve(truth, scores),
        "pr": wandb.plot.pr_curve(truth, scores),
        "matrix": wandb.plot.confusion_matrix(y_true=[0, 1], preds=[0, 0], class_names=["c", "d"]),
    }
    with wandb.init() as run:
        run.log(charts)
    view = epochal.load(run.sync_dir).view
    kept = {entry.record["name"]: entry.record for entry in view.entries("blob")}
    for name in charts:
        svg = view.blob(str(kept[name]["file"])).decode()
        assert svg.startswith("<svg ")
        assert kept[f"{name}_table"]["media_type"] == TABLE
    assert "&lt;A&gt;" in view.blob(str(kept["line"]["file"])).decode()
    matrix = json.loads(view.blob(str(kept["matrix_table"]["file"])))
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
