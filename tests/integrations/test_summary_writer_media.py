"""Everything that is not a number: what is recorded of it, and which arguments are refused."""

from __future__ import annotations

import io
import json
import sys
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.tensorboard import SummaryWriter as TorchWriter
from torch.utils.tensorboard.summary import hparams as torch_hparams

import epochal
from epochal import SummaryWriter
from epochal.journal.blobs import blob_bytes
from epochal.journal.layout import RunFolder
from epochal.store.local.catalog import open_store


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def entries(folder: Path, kind: str, name: str | None = None) -> list[dict[str, Any]]:
    return [dict(entry.record) for entry in epochal.load(folder).view.entries(kind, name=name)]


def blob(folder: Path, name: str) -> bytes:
    (record,) = [*entries(folder, "blob", name), *entries(folder, "file", name)]
    return blob_bytes(RunFolder(folder), record["file"])


def blobs(folder: Path) -> list[dict[str, Any]]:
    """Every record of a sample, those of a list included."""
    (part,) = folder.glob("journal/loop*")
    records = map(json.loads, part.read_text().splitlines())
    return [record for record in records if record["log"] == "blob"]


# -- histograms -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        np.arange(50.0),
        torch.arange(50),
        torch.rand(50, dtype=torch.bfloat16),
        torch.rand(5, 5, requires_grad=True),
        3.5,
    ],
    ids=["numpy", "int tensor", "bfloat16", "with gradient", "number"],
)
@pytest.mark.parametrize("bins", ["tensorflow", "auto", 10])
def test_histograms_of_every_kind_of_values(tmp_path: Path, values: Any, bins: Any) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_histogram("h", values, 3, bins=bins)
    (record,) = entries(tmp_path / "a", "histogram")
    count = values.numel() if hasattr(values, "numel") else np.size(values)
    assert (record["step"], record["count"], sum(record["counts"])) == (3, count, count)


def test_given_bins_are_kept(tmp_path: Path) -> None:
    edges = [0.0, 1.0, 4.0, 16.0, 64.0]
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_histogram("h", np.array([0.5, 2.0, 3.0, 20.0]), 0, bins=edges)
    (record,) = entries(tmp_path / "a", "histogram")
    assert record["edges"] == edges
    assert record["edge_counts"] == [1, 2, 0, 1]


def test_many_bins_are_merged_as_torch_merges_them(tmp_path: Path) -> None:
    values = np.linspace(0.0, 1.0, 1000)
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_histogram("h", values, 0, bins=100, max_bins=7)
    (record,) = entries(tmp_path / "a", "histogram")
    assert record["count"] == 1000
    assert len(record.get("edge_counts") or record["counts"]) <= 64


@pytest.mark.parametrize(
    ("values", "error"),
    [
        (np.zeros(0), ValueError),
        ([1.0, 2.0], NotImplementedError),
        ({"a": 1}, NotImplementedError),
        ("blob", ValueError),
    ],
    ids=repr,
)
def test_what_has_no_distribution_is_refused(
    tmp_path: Path, values: Any, error: type[Exception]
) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(error):
        writer.add_histogram("h", values, 0)


def test_limits_and_counts_must_be_as_many(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(ValueError, match="bucket_limits"):
        writer.add_histogram_raw("h", 0, 1, 1, 1, 1, [1.0, 2.0], [1.0])


# -- images ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "dataformats"),
    [((3, 4), "CHW"), ((3, 4, 4, 4), "HWC"), ((3, 4, 4), "CCH"), ((2, 3), "HH")],
)
def test_formats_that_do_not_fit_are_refused(
    tmp_path: Path, shape: tuple[int, ...], dataformats: str
) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(AssertionError):
        writer.add_image("i", np.zeros(shape), 0, dataformats=dataformats)


def test_a_batch_of_two_channels_is_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(AssertionError):
        writer.add_images("i", torch.rand(2, 2, 4, 4), 0)


def test_labels_of_boxes_may_be_one_text_or_too_many(tmp_path: Path) -> None:
    boxes = np.array([[3.0, 1.0, 15.0, 8.0]])
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_image_with_boxes("one", torch.zeros(3, 20, 30), boxes, labels="cat")
        writer.add_image_with_boxes("two", torch.zeros(3, 20, 30), boxes, labels=["a", "b"])
    edges = {"x0": 0.1, "y0": 0.05, "x1": 0.5, "y1": 0.4}
    found = {record["name"]: record["boxes"] for record in entries(tmp_path / "a", "blob")}
    assert found == {"one": [{**edges, "label": "cat"}], "two": [edges]}


def test_figures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots()
    axes.plot([1, 2, 3])
    several = [pyplot.figure(figsize=(1, 1)) for _ in range(3)]
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_figure("one", figure, 0, close=False)
        assert pyplot.fignum_exists(figure.number)
        writer.add_figure("again", figure, 1)
        assert not pyplot.fignum_exists(figure.number)
        writer.add_figure("several", several)
    width, height = figure.canvas.get_width_height()
    assert Image.open(io.BytesIO(blob(tmp_path / "a", "one"))).size == (width, height)
    records = [record for record in blobs(tmp_path / "a") if record["name"] == "several"]
    assert [(record["step"], record["index"]) for record in records] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_videos_are_animated_pictures(tmp_path: Path, dtype: Any) -> None:
    white = 255 if dtype is np.uint8 else 1
    videos = np.random.default_rng(0).integers(0, 2, (3, 5, 3, 8, 9)).astype(dtype) * dtype(white)
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_video("one", videos[:1], 0, fps=10)
        writer.add_video("three", videos, 0)
    shown = Image.open(io.BytesIO(blob(tmp_path / "a", "one")))
    assert (getattr(shown, "n_frames", 0), shown.size) == (5, (9, 8))
    records = blobs(tmp_path / "a")
    assert [record.get("index") for record in records] == [None, 0, 1, 2]
    assert {(r["frames"], r["width"], r["height"]) for r in records} == {(5, 9, 8)}
    assert records[0]["file"] != records[2]["file"]


def test_without_pillow_images_are_recorded_and_videos_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    image, boxes = torch.zeros(3, 9, 9), np.array([[1, 1, 5, 5]])
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_video("v", torch.zeros(1, 4, 3, 6, 5))
        writer.add_image("i", image)
        writer.add_image_with_boxes("b", image, boxes)
    assert [record["name"] for record in entries(tmp_path / "a", "blob")] == ["i", "b"]
    assert capsys.readouterr().err.count("pip install pillow") == 1


# -- sound, words, tables -------------------------------------------------------------------------


def test_a_sound_is_a_wav_file(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_audio("s", np.linspace(-2.0, 2.0, 400), 0, sample_rate=16000)
    with wave.open(io.BytesIO(blob(tmp_path / "a", "s"))) as file:
        assert (file.getframerate(), file.getnframes(), file.getnchannels()) == (16000, 400, 1)


def test_a_sound_of_two_channels_is_refused(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(AssertionError):
        writer.add_audio("s", torch.zeros(2, 100), 0)


def test_a_curve_that_was_computed_before(tmp_path: Path) -> None:
    rows: list[Any] = [list(range(5)) for _ in range(6)]
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_pr_curve_raw("pr", *rows[:6], global_step=2)  # type: ignore[misc]
    table = json.loads(blob(tmp_path / "a", "pr"))
    assert [row[0] for row in table["data"]] == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert [row[1] for row in table["data"]] == [0, 1, 2, 3, 4]


def test_predictions_that_are_not_finite_are_left_out_of_a_curve(tmp_path: Path) -> None:
    labels, finite = np.array([0, 1, 1, 1]), np.array([0.1, 0.9])
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_pr_curve("finite", labels[:2], finite)
        with pytest.warns(UserWarning, match="1 predictions that are NaN"):
            writer.add_pr_curve("others", labels, np.array([*finite, np.nan, np.inf]))
    first, second = entries(tmp_path / "a", "blob")
    assert first["file"] == second["file"]


def test_a_tensor_is_kept_whole(tmp_path: Path) -> None:
    tensor = torch.arange(12, dtype=torch.float64).reshape(3, 4)
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_tensor("t", tensor, 1)
    assert np.array_equal(np.load(io.BytesIO(blob(tmp_path / "a", "t.npy"))), tensor.numpy())


def test_a_mesh_is_kept_with_its_configuration(tmp_path: Path) -> None:
    vertices, faces = torch.rand(1, 4, 3), torch.tensor([[[0, 1, 2]]])
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_mesh("m", vertices, faces=faces, config_dict={"camera": {"fov": 75}})
    kept = np.load(io.BytesIO(blob(tmp_path / "a", "m.npz")))
    assert np.array_equal(kept["vertices"], vertices.numpy())
    assert np.array_equal(kept["faces"], faces.numpy())
    assert json.loads(str(kept["config"])) == {"camera": {"fov": 75}}


@pytest.mark.parametrize("wrong", ["vertices", "colors", "faces"])
def test_a_mesh_of_another_shape_is_refused_as_by_torch(tmp_path: Path, wrong: str) -> None:
    given: dict[str, Any] = dict.fromkeys(("vertices", "colors", "faces"), torch.rand(1, 4, 3))
    given[wrong] = torch.rand(4, 3)
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(ValueError, match=r"shape BxNx3"):
        writer.add_mesh("m", **given)
    with TorchWriter(tmp_path / "b") as theirs, pytest.raises(ValueError, match=r"shape BxNx3"):
        theirs.add_mesh("m", **given)


def test_embeddings_are_the_files_of_the_projector(tmp_path: Path) -> None:
    points, labels = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), torch.tensor([7, 8, 9])
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_embedding(points, labels, torch.zeros(3, 3, 5, 5), global_step=2)
        header = list(zip(labels.tolist(), "abc", strict=True))
        writer.add_embedding(points, header, tag="two", metadata_header=["digit", "letter"])
    assert blob(tmp_path / "a", "00002/default/tensors.tsv") == b"1.0\t2.0\n3.0\t4.0\n5.0\t6.0\n"
    assert blob(tmp_path / "a", "00000/two/metadata.tsv") == b"digit\tletter\n7\ta\n8\tb\n9\tc\n"
    sprite = blob(tmp_path / "a", "00002/default/sprite.png")
    assert Image.open(io.BytesIO(sprite)).size == (10, 10)


@pytest.mark.parametrize(
    "wrong",
    [
        {"metadata": ["one"]},
        {"label_img": torch.zeros(1, 3, 5, 5)},
        {"mat": torch.zeros(3)},
        {"metadata": [("a", 1)] * 3, "metadata_header": ["only"]},
    ],
    ids=["labels", "images", "one dimension", "header"],
)
def test_embeddings_whose_sizes_do_not_fit_are_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(AssertionError):
        writer.add_embedding(**{"mat": torch.zeros(3, 2), **wrong})


def test_custom_scalars_make_a_board_of_the_project(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_custom_scalars({"usa": {"dow": ["Margin", ["dow/a", "dow/b", "dow/c"]]}})
        writer.add_custom_scalars_multilinechart(["x", "y/.*"], title="both")
        with pytest.raises(AssertionError):
            writer.add_custom_scalars_marginchart(["x"])
        with pytest.raises(AssertionError):
            writer.add_custom_scalars({"usa": {"dow": ["Margin", ["dow/a"]]}})
    with open_store(tmp_path) as store:
        (stored,) = store.boards.list(store.runs()[0].info.project)
    assert stored.board.name == "custom scalars"
    assert [(block.text or block.title, block.series) for block in stored.board.blocks] == [
        ("## usa", []),
        ("dow", ["dow/a", "dow/b", "dow/c"]),
        ("## default", []),
        ("both", ["x", "y/*"]),
    ]


# -- bad input ------------------------------------------------------------------------------------


def test_a_bad_sample_is_reported_once_and_loses_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tensorboard.compat.proto.summary_pb2 import Summary

    odd = "../a b\\c\n<b>ü🚂%2f"
    broken = Summary.Image(encoded_image_string=b"no image")
    summary = Summary(value=[Summary.Value(tag="broken", image=broken)])
    with SummaryWriter(tmp_path / "a") as writer:
        for step in range(3):
            writer._get_file_writer().add_summary(summary, step)
            writer.add_audio("silence", np.zeros(0), step)
            writer.add_image("channels", np.zeros((5, 8, 8)), step)
            writer.add_image("nothing", np.zeros((3, 0, 4)), step)
            writer.add_video("still", np.zeros((1, 0, 3, 4, 4)), step)
            writer.add_image(odd, np.zeros((3, 4, 4)), step)
            writer.add_embedding(np.zeros((2, 2)), ["a", "b"], tag=odd, global_step=step)
            writer.add_scalar("loss", 1.0, step)
    said = capsys.readouterr().err
    bad = ("broken", "silence", "channels", "nothing", "still")
    assert [said.count(repr(tag)) for tag in bad] == [2] * len(bad)
    assert [record["step"] for record in entries(tmp_path / "a", "blob")] == [0, 1, 2]
    assert len(entries(tmp_path / "a", "file")) == 6
    assert len(epochal.load(tmp_path / "a").series("loss")) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a"]


# -- models ---------------------------------------------------------------------------------------


def test_a_model_without_inputs_is_drawn_by_its_structure(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout())
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_graph(model)
    assert model.training
    assert len(entries(tmp_path / "a", "graph")) == 1


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_a_scripted_model_is_drawn_by_its_parts(tmp_path: Path) -> None:
    model = torch.jit.script(nn.Sequential(nn.Linear(3, 4), nn.ReLU()))
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_graph(model, torch.zeros(1, 3))
    (graph,) = entries(tmp_path / "a", "graph")
    assert all(name in str(graph) for name in ("Linear", "ReLU"))


def test_an_onnx_file_is_kept(tmp_path: Path) -> None:
    (tmp_path / "net.onnx").write_bytes(b"\x08\x07onnx")
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_onnx_graph(str(tmp_path / "net.onnx"))
        with pytest.raises(FileNotFoundError):
            writer.add_onnx_graph(str(tmp_path / "missing.onnx"))
    assert blob(tmp_path / "a", "net.onnx") == b"\x08\x07onnx"


# -- hyperparameters ------------------------------------------------------------------------------


def test_other_hyperparameters_are_a_run_beside(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "runs" / "exp") as writer:
        for number in range(3):
            writer.add_hparams({"lr": 0.1 * number}, {"acc": number}, run_name=f"trial{number}")
        writer.add_hparams({"lr": 0.0}, {"acc": 9}, global_step=5)
    with epochal.open(tmp_path / "runs") as runs:
        found = {run.name: run.config["lr"] for run in runs}
        series = runs.run("exp").series("acc")
    assert found == {"exp": 0.0, "exp_trial1": 0.1, "exp_trial2": 0.2}
    assert list(zip(series.steps, series.values, strict=True)) == [(0, 0), (5, 9)]


def test_a_run_name_may_lead_to_the_folder_itself_or_elsewhere(tmp_path: Path) -> None:
    with SummaryWriter(tmp_path / "runs" / "exp") as writer:
        writer.add_hparams({"lr": 0.1}, {"acc": 1}, run_name=".")
        writer.add_hparams({"lr": 0.2}, {"acc": 2}, run_name=".")
        writer.add_hparams({"lr": 0.3}, {"acc": 3}, run_name=str(tmp_path / "runs" / "other"))
    with epochal.open(tmp_path / "runs") as runs:
        assert {run.name: run.config["lr"] for run in runs} == {"exp": 0.2, "other": 0.3}


@pytest.mark.parametrize(
    ("hparams", "metrics", "error"),
    [
        ([], {}, TypeError),
        ({}, [], TypeError),
        ({"a": [1, 2]}, {}, ValueError),
        ({"a": 1}, {"m": [1, 2]}, NotImplementedError),
    ],
    ids=repr,
)
def test_hyperparameters_that_cannot_be_accepted(
    tmp_path: Path, hparams: Any, metrics: Any, error: type[Exception]
) -> None:
    with TorchWriter(str(tmp_path / "t")) as theirs, pytest.raises(error):
        theirs.add_hparams(hparams, metrics)
    with SummaryWriter(tmp_path / "a") as writer, pytest.raises(error):
        writer.add_hparams(hparams, metrics)
    assert not dict(epochal.load(tmp_path / "a").config)


def test_hyperparameters_of_every_kind(tmp_path: Path) -> None:
    given = {"i": 1, "f": 0.5, "s": "x", "b": True, "t": torch.tensor([2.0]), "none": None}
    with SummaryWriter(tmp_path / "a") as writer:
        writer.add_hparams(given, {}, {"i": [1, 2, 3]})
    expected = {"i": 1, "f": 0.5, "s": "x", "b": True, "t": 2.0, "none": None}
    assert dict(epochal.load(tmp_path / "a").config) == expected


# -- TensorBoard's own messages -------------------------------------------------------------------


def test_summaries_that_a_program_builds_itself(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary

    build: Any = torch_hparams
    experiment, start, end = build({"lr": 0.1, "name": "x"}, {"acc": 1.0})
    number = Summary(value=[Summary.Value(tag="own", simple_value=2.5)])
    with SummaryWriter(tmp_path / "a") as writer:
        for summary in (experiment, start, end):
            writer._get_file_writer().add_summary(summary)
        writer._get_file_writer().add_summary(number, 7, walltime=50.0)
        writer._get_file_writer().add_event(Event(summary=number), 8)
    run = epochal.load(tmp_path / "a")
    assert dict(run.config) == {"lr": 0.1, "name": "x"}
    assert run.series("own").steps.tolist() == [7, 8]
    assert run.series("own").times[0] == 50.0


def test_a_session_that_a_program_starts_itself_hides_later_steps(tmp_path: Path) -> None:
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    with SummaryWriter(tmp_path / "a") as writer:
        for step in range(6):
            writer.add_scalar("x", 1.0, step)
        start = Event(session_log=SessionLog(status=SessionLog.START))
        writer._get_file_writer().add_event(start, 3)
        writer.add_scalar("x", 2.0, 3)
    series = epochal.load(tmp_path / "a").series("x")
    assert list(zip(series.steps, series.values, strict=True)) == [
        *((step, 1.0) for step in range(3)),
        (3, 2.0),
    ]
