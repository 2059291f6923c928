"""The TensorBoard sink writes what torch's own writer would have written for the same calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from google.protobuf import text_format  # type: ignore[import-untyped]
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig
from tensorboard.util.tensor_util import make_ndarray
from torch import nn
from torch.utils.tensorboard import SummaryWriter as TorchWriter

import epochal
from epochal import SummaryWriter
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from tests.doubles.companions import wait_for_the_end


@pytest.fixture(autouse=True)
def no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")


def read(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    return events


def event_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*tfevents*"))


def use_every_call(writer: Any) -> None:
    torch.manual_seed(0)
    writer.add_scalar("scalar", 0.5, 1)
    writer.add_scalar("new", 0.25, 1, new_style=True, double_precision=True)
    writer.add_scalars("group", {"a": 1.0, "b": 2.0}, 1)
    writer.add_tensor("tensor", torch.arange(3), 1)
    writer.add_histogram("histogram", torch.rand(20), 1)
    writer.add_histogram_raw("raw", 0, 2, 3, 3.0, 5.0, [1.0, 2.0], [1, 2], 1)
    writer.add_image("image", torch.rand(3, 4, 4), 1)
    writer.add_images("images", torch.rand(2, 3, 4, 4), 1)
    writer.add_image_with_boxes("boxes", torch.rand(3, 9, 9), torch.tensor([[1, 1, 5, 5]]), 1)
    writer.add_audio("audio", torch.rand(1, 50), 1)
    writer.add_text("text", "words", 1)
    writer.add_graph(nn.Linear(2, 3), torch.zeros(1, 2))
    writer.add_embedding(torch.rand(3, 2), metadata=["a", "b", "c"])
    writer.add_pr_curve("pr", np.array([0, 1, 1]), np.array([0.1, 0.7, 0.9]), 1)
    writer.add_mesh("mesh", torch.rand(1, 4, 3))
    writer.add_hparams({"lr": 0.1}, {"acc": 0.5}, run_name="hp")


@pytest.mark.filterwarnings("ignore")
def test_sync_writes_the_same_afterwards(tmp_path: Path) -> None:
    with TorchWriter(str(tmp_path / "live")) as theirs:
        use_every_call(theirs)
    with SummaryWriter(tmp_path / "ours" / "live") as writer:
        use_every_call(writer)
    assert event_files(tmp_path / "ours") == []
    forwarding = Forwarding(
        RunFolder(tmp_path / "ours" / "live"),
        options_from({"report_to": "tensorboard", "tensorboard_dir": str(tmp_path / "sync")}),
        tries=1,
    )
    forwarding.finish()
    forwarding.start()
    assert forwarding.wait(120)
    assert forwarding.progress_by_sink()["tensorboard"].skipped == {}
    live, sync = read(tmp_path / "live"), read(tmp_path / "sync" / "live")
    for kind in ("images", "audio", "histograms", "scalars", "tensors"):
        assert set(live.Tags()[kind]) <= set(sync.Tags()[kind]) | {"new"}, kind
    assert {"group/a", "group/b", "acc", "new"} <= set(sync.Tags()["scalars"])
    (before,), (after,) = live.Audio("audio"), sync.Audio("audio")
    assert replace(before, wall_time=0.0) == replace(after, wall_time=0.0)
    for tag in set(live.Tags()["tensors"]) - {"new"}:
        plugin = live.SummaryMetadata(tag).plugin_data
        assert sync.SummaryMetadata(tag).plugin_data == plugin, tag
        (point,), (sent,) = live.Tensors(tag), sync.Tensors(tag)
        expected, found = make_ndarray(point.tensor_proto), make_ndarray(sent.tensor_proto)
        assert (point.step, expected.dtype) == (sent.step, found.dtype)
        np.testing.assert_array_equal(found, expected, tag)
    assert [node.op for node in sync.Graph().node] == ["input", "linear", "output"]
    assert _embeddings(tmp_path / "live") == _embeddings(tmp_path / "sync" / "live")


def _embeddings(folder: Path) -> tuple[Any, list[bytes]]:
    """The projector's configuration, and the files of the embeddings that it names."""
    config = text_format.Parse((folder / "projector_config.pbtxt").read_text(), ProjectorConfig())
    named = [(one.tensor_path, one.metadata_path) for one in config.embeddings]
    return config, [(folder / path).read_bytes() for pair in named for path in pair]


def test_the_companion_writes_event_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_COMPANION", "1")
    with SummaryWriter(tmp_path / "runs" / "a", report_to="tensorboard") as writer:
        writer.add_scalar("x", 0.5, 0)
    wait_for_the_end(tmp_path / "runs" / "a")
    assert read(tmp_path / "runs" / "a").Scalars("x")[0].value == 0.5
    with epochal.open(tmp_path / "runs") as runs:
        assert [run.name for run in runs] == ["a"]


def test_files_that_torch_wrote_before_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with TorchWriter(str(tmp_path / "a")) as theirs:
        theirs.add_scalar("x", 0.5, 0)
    for _ in range(2):
        with SummaryWriter(tmp_path / "a") as writer:
            writer.add_scalar("x", 0.5, 1)
    assert capsys.readouterr().err.count("epochal import") == 1
