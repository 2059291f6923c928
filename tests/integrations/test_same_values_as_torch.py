"""A script is run with torch's writer, then with ours: both stores hold the same values.

TensorBoard's own reader is the judge of numbers and pixels. ``epochal import`` then reads torch's
files, and the imported run has the samples that our writer records for the same calls.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import epochal
from epochal.api.reading import RunData
from epochal.cli.main import main
from epochal.journal.blobs import TABLE, blob_bytes
from epochal.journal.boards import read_boards
from epochal.journal.layout import RunFolder

SCRIPT = """
import matplotlib
import numpy as np
import torch
from matplotlib import pyplot
from {module} import SummaryWriter

matplotlib.use("Agg")


def figure():
    drawn = pyplot.figure(figsize=(2, 1))
    drawn.add_subplot().plot([1, 3, 2])
    return drawn

torch.manual_seed(0)
rng = np.random.default_rng(0)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
data, target = torch.randn(64, 4), torch.randn(64, 1)
writer = SummaryWriter("{folder}")
writer.add_text("notes", "a **small** model", 0)
writer.add_graph(model, data)
for step in range(30):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(data), target)
    loss.backward()
    optimizer.step()
    writer.add_scalar("Loss/train", loss, step)
    writer.add_scalar("Loss/item", loss.item(), step, walltime=1000.5 + step)
    writer.add_scalar("lr", np.float32(0.05), step, new_style=True)
    writer.add_scalars("pair", {{"a": step * 0.5, "b": -step}}, step)
    if step % 10 == 0:
        for name, parameter in model.named_parameters():
            writer.add_histogram(name, parameter, step)
        writer.add_histogram_raw(
            "raw", min=0.0, max=4.0, num=6, sum=12.0, sum_squares=34.0,
            bucket_limits=[1.0, 2.0, 3.0, 4.0], bucket_counts=[1, 2, 2, 1], global_step=step,
        )
        writer.add_image("float", rng.random((3, 9, 7)), step)
        writer.add_image("bytes", rng.integers(0, 256, (6, 5, 3), dtype=np.uint8), step,
                         dataformats="HWC")
        writer.add_image("gray", torch.rand(5, 6), step, dataformats="HW")
        writer.add_images("batch", torch.rand(10, 1, 4, 5), step)
        writer.add_image_with_boxes("boxes", torch.rand(3, 40, 50), torch.tensor([[5, 6, 30, 30]]),
                                    step, labels=["cat"])
        writer.add_figure("figure", figure(), step, walltime=500.5)
        writer.add_pr_curve("pr", rng.integers(0, 2, 50), rng.random(50), step)
        writer.add_pr_curve_raw("raw pr", *(np.array([row, np.nan, 1.0]) for row in range(6)), step)
        writer.add_audio("sound", torch.rand(1, 200) * 2 - 1, step, sample_rate=8000)
        writer.add_tensor("tensor", torch.arange(12.0).reshape(3, 4) + step, step)
        writer.add_mesh("mesh", torch.rand(1, 4, 3), faces=torch.tensor([[[0, 1, 2]]]),
                        config_dict={{"camera": {{"fov": 75}}}}, global_step=step)
        writer.add_embedding(torch.rand(3, 2), ["a", "b", "c"], torch.rand(3, 3, 5, 5), step,
                             tag="layer/0")
writer.add_custom_scalars({{"losses": {{
    "both": ["Multiline", ["Loss/train", "Loss/item"]], "band": ["Margin", ["lr", "a", "b"]],
}}}})
writer.add_hparams({{"lr": 0.05, "optimizer": "sgd", "amp": True}}, {{"hparam/loss": loss.item()}})
writer.close()
"""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    found = {}
    for module in ("torch.utils.tensorboard", "epochal"):
        folder = tmp_path_factory.mktemp("stores") / module
        script = SCRIPT.format(module=module, folder=folder)
        subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)
        found[module] = folder
    return found


@pytest.fixture(scope="module")
def imported(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> RunData:
    """What ``epochal import`` makes of torch's files."""
    source, runs = folders["torch.utils.tensorboard"], tmp_path_factory.mktemp("runs")
    assert main(["import", str(source), "--dir", str(runs)]) == 0
    return epochal.open(runs).run(source.name)


@pytest.fixture(scope="module")
def theirs(folders: dict[str, Path]) -> EventAccumulator:
    return accumulated(folders["torch.utils.tensorboard"])


@pytest.fixture(scope="module")
def ours(folders: dict[str, Path]) -> RunData:
    return epochal.load(folders["epochal"])


def accumulated(folder: Path) -> EventAccumulator:
    kinds = ("scalars", "histograms", "images", "audio", "tensors")
    events = EventAccumulator(str(folder), size_guidance=dict.fromkeys(kinds, 0))
    events.Reload()
    return events


def entries(run: RunData, kind: str, name: str) -> list[dict[str, Any]]:
    return [dict(entry.record) for entry in run.view.entries(kind, name=name)]


@pytest.mark.parametrize("tag", ["Loss/train", "Loss/item"])
def test_scalars(theirs: EventAccumulator, ours: RunData, tag: str) -> None:
    events, series = theirs.Scalars(tag), ours.series(tag)
    assert series.steps.tolist() == [event.step for event in events]
    assert series.values.astype(np.float32).tolist() == [event.value for event in events]


def test_given_times(theirs: EventAccumulator, ours: RunData) -> None:
    times = [event.wall_time for event in theirs.Scalars("Loss/item")]
    assert ours.series("Loss/item").times.tolist() == times


def test_scalars_of_the_new_style(theirs: EventAccumulator, ours: RunData) -> None:
    values = [event.tensor_proto.float_val[0] for event in theirs.Tensors("lr")]
    assert ours.series("lr").values.astype(np.float32).tolist() == values


@pytest.mark.parametrize("key", ["a", "b"])
def test_groups_of_scalars(folders: dict[str, Path], ours: RunData, key: str) -> None:
    events = accumulated(folders["torch.utils.tensorboard"] / f"pair_{key}").Scalars("pair")
    series = ours.series(f"pair/{key}")
    assert list(zip(series.steps, series.values, strict=True)) == [
        (event.step, event.value) for event in events
    ]


def test_histograms(theirs: EventAccumulator, ours: RunData) -> None:
    tags = theirs.Tags()["histograms"]
    assert len(tags) == 5
    for tag in tags:
        records = entries(ours, "histogram", tag)
        events = theirs.Histograms(tag)
        assert [record["step"] for record in records] == [event.step for event in events]
        for record, event in zip(records, events, strict=True):
            known = event.histogram_value
            assert (record["count"], sum(record["counts"])) == (known.num, known.num)
            assert record["min"] == pytest.approx(known.min)
            assert record["max"] == pytest.approx(known.max)
            assert record["mean"] == pytest.approx(known.sum / known.num, abs=1e-6)


@pytest.mark.parametrize("tag", ["float", "bytes", "gray", "batch", "figure"])
def test_images_have_the_same_pixels(theirs: EventAccumulator, ours: RunData, tag: str) -> None:
    records, events = entries(ours, "blob", tag), theirs.Images(tag)
    assert [record["step"] for record in records] == [event.step for event in events] == [0, 10, 20]
    for record, event in zip(records, events, strict=True):
        pixels = _pixels(ours.view.blob(record["file"]))
        assert np.array_equal(pixels, _pixels(event.encoded_image_string))


def test_boxes_are_beside_the_picture_that_torch_draws_them_into(
    theirs: EventAccumulator, ours: RunData
) -> None:
    for record, event in zip(entries(ours, "blob", "boxes"), theirs.Images("boxes"), strict=True):
        own, drawn = _pixels(ours.view.blob(record["file"])), _pixels(event.encoded_image_string)
        edges = {"x0": 5 / 50, "y0": 6 / 40, "x1": 30 / 50, "y1": 30 / 40}
        assert record["boxes"] == [{**edges, "label": "cat"}]
        assert np.array_equal(own[33:], drawn[33:])  # below the box and its line
        assert not np.array_equal(own, drawn)


def test_precision_recall_curves(theirs: EventAccumulator, ours: RunData) -> None:
    for record, event in zip(entries(ours, "blob", "pr"), theirs.Tensors("pr"), strict=True):
        table = json.loads(ours.view.blob(record["file"]))
        assert table["columns"][0] == "threshold"
        assert record["chart"] == {"kind": "line", "x": "recall", "y": "precision"}
        rows = np.array(table["data"]).T[1:]
        known = np.array(event.tensor_proto.float_val).reshape(6, -1)
        assert np.allclose(rows, known)


def test_an_import_has_the_same_samples(imported: RunData, ours: RunData) -> None:
    theirs, own = samples(imported), samples(ours)
    # The graph of torch is a message of TensorFlow; our sinks write the projector's configuration.
    assert theirs.keys() - own.keys() == {
        ("file", "graph.pb", "application/x-protobuf"),
        ("file", "run_metadata/step1.pb", "application/x-protobuf"),
        ("file", "projector_config.pbtxt", "application/octet-stream"),
    }
    assert own.keys() <= theirs.keys()
    assert len(own) == 12 + 3 * 3
    for key, (steps, contents) in own.items():
        assert theirs[key][0] == steps, key
        for content, known in zip(contents, theirs[key][1], strict=True):
            if key[1] != "boxes":  # which torch draws into the picture
                _assert_equal(content, known, key)
    at = [record["t"] for record in entries(imported, "blob", "figure")]
    assert at == [record["t"] for record in entries(ours, "blob", "figure")] == [500.5] * 3


def test_an_import_has_the_same_board(imported: RunData, ours: RunData) -> None:
    theirs, own = (
        read_boards(Path(run.info.folder).parent, run.info.project) for run in (imported, ours)
    )
    assert [stored.board for stored in own] == [stored.board for stored in theirs]
    assert [block.title for block in own[0].board.blocks] == [None, "both", "band"]


def samples(run: RunData) -> dict[tuple[str, str, str], tuple[list[int], list[Any]]]:
    """The steps and the contents of samples, by kind, name and type."""
    found: dict[tuple[str, str, str], tuple[list[int], list[Any]]] = {}
    for entry in run.view.entries("blob", "text", "file"):
        record = dict(entry.record)
        kind = str(record.get("media_type") or record.get("format"))
        steps, contents = found.setdefault((record["log"], record["name"], kind), ([], []))
        steps.append(record["step"])
        contents.append(_content(run, record, kind))
    return found


def _content(run: RunData, record: dict[str, Any], kind: str) -> Any:
    if "text" in record:
        return record["text"]
    data = blob_bytes(RunFolder(Path(run.info.folder)), record["file"])
    if kind.startswith("image/"):
        return _pixels(data)
    if kind == TABLE:
        return json.loads(data), record.get("chart")
    if kind in ("application/x-npy", "application/x-npz"):
        return np.load(io.BytesIO(data))
    return data


def _assert_equal(content: Any, known: Any, key: object) -> None:
    if isinstance(content, np.lib.npyio.NpzFile):
        assert sorted(content.files) == sorted(known.files), key
        assert all(np.array_equal(content[name], known[name]) for name in content.files), key
    elif isinstance(content, np.ndarray):
        assert np.array_equal(content, known), key
    elif isinstance(content, tuple):  # a table, whose numbers torch keeps in 32 bits
        (table, chart), (known_table, known_chart) = content, known
        assert (chart, table["columns"]) == (known_chart, known_table["columns"]), key
        if chart is None:
            assert table == known_table, key
        else:
            rows, known_rows = (np.array(t["data"], dtype=float) for t in (table, known_table))
            assert np.allclose(rows, known_rows, equal_nan=True), key
    else:
        assert content == known, key


def test_hyperparameters_are_the_configuration(ours: RunData, imported: RunData) -> None:
    assert dict(ours.config) == {"lr": 0.05, "optimizer": "sgd", "amp": True}
    assert dict(imported.config) == {"lr": 0.05, "optimizer": "sgd", "amp": 1.0}
    assert ours.series("hparam/loss").values.astype(np.float32).tolist() == (
        imported.series("hparam/loss").values.tolist()
    )


def test_the_graph_is_drawn(ours: RunData) -> None:
    (graph,) = ours.view.entries("graph")
    assert graph.record["svg"].startswith("<svg")
    assert graph.record["parameters"]["total"] == 49


def _pixels(data: bytes) -> Any:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
