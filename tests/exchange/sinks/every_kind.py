"""A small run with one of everything that a tracker can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

import epochal
from epochal.exchange.media.types import Plotly
from epochal.journal.blobs import blob_record, store_blob
from epochal.journal.layout import RunFolder
from epochal.run.run import Run, recorder_of

MIB = 1024 * 1024
CONFIG = {"lr": 0.1, "model": {"depth": 2}, "layers": [1, 2]}
# Starts like an MP4 file; no tracker looks further.
MP4 = b"\x00\x00\x00\x18ftypmp42" + bytes(16)


class Figure:
    """A figure of Plotly, as far as Epochal asks one."""

    def to_json(self) -> str:
        return '{"data":[{"type":"scatter","x":[1,2],"y":[3,4]}],"layout":{}}'


def pixels(shade: int) -> Any:
    array = np.full((4, 6, 3), shade, dtype=np.uint8)
    array[0, 0] = (255, 0, 0)
    return array


def log_every_kind(run: Run) -> None:
    run.log_allocator(
        [
            {"name": "weights", "device": 6 * MIB},
            {"name": "optimizer", "device": 2 * MIB, "pinned": MIB},
        ],
        step=0,
    )
    for step in range(3):
        run.log_step(step, step / 10, 1000, 100, 0.5, 3.0 - step, 1e-3)
        for gpu in (0, 1):
            run.log_gpu_state(gpu_id=gpu, step=step, power=300_000 + gpu, dram_free=5 * MIB)
    run.log_moe_stats(2, 0.5, 0.1, 0.9, 1.5)
    run.log_eval(2, 0.2, 500, 50, 1.5)
    run.log({"odd name: ä/b": 1.0, "free": 0.25, "nan": float("nan")}, step=2)
    recorder_of(run).write_histogram("weights/wte", np.arange(10.0), 2, bins=5)
    run.define("free", goal="max")
    run.summary["best"] = 3
    run.alert("low", "accuracy is low", level="warning")
    log_samples(run)
    run.finish()


def log_samples(run: Run) -> None:
    run.log({"words": "Hello <b>&</b>", "notes": epochal.Markdown("## Epoch *3*")}, step=2)
    boxes = [{"box": (0.25, 0.5, 0.75, 1.0), "label": "cat", "score": 0.5, "group": "found"}]
    masks = {"area": {"mask": np.eye(4, 6, dtype=np.uint8), "labels": {1: "cat"}}}
    picture = epochal.Image(pixels(9), caption="drawn", boxes=boxes, masks=masks)
    run.log({"noise": picture}, step=2)
    run.log({"several": [epochal.Image(pixels(20)), epochal.Image(pixels(30))]}, step=2)
    run.log({"sound": epochal.Audio(np.linspace(-1, 1, 100), 8000)}, step=2)
    run.log({"moving": epochal.Video(np.stack([pixels(1), pixels(200)]))}, step=2)
    run.log({"film": epochal.Video(MP4)}, step=2)
    run.log({"page": epochal.Html("<h1>Done</h1>")}, step=2)
    rows = [{"n": 1, "shown": epochal.Image(pixels(40))}, {"n": float("nan"), "shown": None}]
    run.log({"rows": epochal.Table(rows)}, step=2)
    points = {"x": [1, 2], "y": [3, 4]}
    chart = {"kind": "line", "x": "x", "y": "y", "title": "T"}
    run.log({"curve": epochal.Table(points, chart=chart)}, step=2)
    recorder = recorder_of(run)
    recorder.write_sample("figure", Plotly(Figure()), 2)
    log_file(run, "deep/weights.bin", b"some weights")


def log_file(run: Run, name: str, data: bytes) -> None:
    """Record a file that the user keeps."""
    record = blob_record(name, data, t=1e9, step=2, media_type="application/octet-stream")
    store_blob(RunFolder(run.dir), record["file"], data)
    recorder_of(run).write({**record, "log": "file"})
