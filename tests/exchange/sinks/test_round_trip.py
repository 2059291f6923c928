"""Every kind of record goes to each tracker and comes back; what is lost is listed here, exactly.

The tracker's own package stores the run where it is installed (see ``trackers.py``). Where it is
not, what MLflow 3.17 and Trackio 0.43 stored is imported from the golden files of the importers;
``RECORD_ROUND_TRIP=1`` stores it there again. Aim's files cannot be read without Aim.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.exchange.sinks.keys import keyed_scalars
from epochal.exchange.sinks.registry import own_sinks
from epochal.exchange.sinks.sink import Entry, is_held
from epochal.journal.blobs import TABLE, blob_bytes
from epochal.journal.layout import RunFolder, run_folders
from epochal.journal.reader import read_journal
from epochal.records import KINDS, Record
from tests.conftest import StartRun
from tests.exchange.imports.samples import GOLDEN
from tests.exchange.sinks.every_kind import CONFIG, log_every_kind, log_file, pixels
from tests.exchange.sinks.trackers import python_with, run_script, send

pillow = pytest.importorskip("PIL.Image")

# Epochal's own records, which other trackers have no use for.
OWN = {
    *("run", "resume", "finish", "heartbeat", "message", "finding", "span", "timeline", "phases"),
    *("sol", "dataset", "data", "gpu-model", "abs-maxes", "experts", "system", "epoch", "graph"),
    *("option", "event", "eval", "step", "moe", "gpu", "allocator", "metrics"),
}
SAMPLES = {"blob", "text", "histogram", "file", "summary", "define"}


@dataclass(frozen=True, kw_only=True)
class Tracker:
    """How a run gets to a tracker and back; ``lost`` says what becomes of what is not the same."""

    lost: Mapping[str, str]
    options: Callable[[Path], Mapping[str, str]]
    place: Callable[[Path], Path] = lambda folder: folder
    restore: Callable[[Path], None] = lambda _folder: None
    trim: Callable[[Path], None] = lambda _folder: None


def move_artifacts(folder: Path) -> None:
    """Let a database of MLflow find its artifacts in the folder that it was copied to."""
    with sqlite3.connect(folder / "mlflow.db") as connection:
        ((run_id,),) = connection.execute("SELECT run_uuid FROM runs")
        (artifacts,) = folder.glob(f"mlruns/*/{run_id}/artifacts")
        connection.execute("UPDATE runs SET artifact_uri = ?", (str(artifacts),))
    connection.close()


def trim_database(folder: Path) -> None:
    """Take out of a database of MLflow what the test does not need, and the paths in it."""
    connection = sqlite3.connect(folder / "mlflow.db")
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    kept = ("runs", "experiments", "metrics", "params", "tags")
    for (table,) in tables:
        if table not in kept and not table.startswith("sqlite_"):
            connection.execute(f"DROP TABLE {table}")
    connection.execute("UPDATE runs SET artifact_uri = '', user_id = ''")
    connection.execute("UPDATE experiments SET artifact_location = ''")
    connection.execute("DELETE FROM tags WHERE key IN ('mlflow.user', 'mlflow.source.name')")
    connection.commit()
    connection.execute("VACUUM")
    connection.close()


LABELS = {"group": "group", "job type": "job_type", "tags": "tags", "notes": "notes"}
# What the facts are in ``Sink.holds``, and how a person is told that they are not sent.
CONTENTS = {
    "alert": ("event:alert", "alert"),
    "file": ("file:application/octet-stream", "file"),
    "film": ("blob:video/mp4", "video"),
    "page": ("blob:text/html", "HTML page"),
    "table": (f"blob:{TABLE}", "table"),
    "summary": ("summary", "summary value"),
    "histogram": ("histogram", "histogram"),
    "text": ("text", "text"),
}
NOUNS = {"group": "group", "job type": "job type", "tags": "tag", "notes": "note"}
IDENTITY: dict[str, Any] = {
    "config": CONFIG,
    "group": "sweep 1",
    "job_type": "train",
    "tags": ["baseline", "a=b"],
    "notes": "the first one",
}
TRACKERS = {
    "tensorboard": Tracker(
        options=lambda folder: {"tensorboard_dir": str(folder), "run_name": "sent"},
        lost={
            "alert": "not sent",
            "allocator": "in bytes, by its own name",
            "boxes": "not sent",
            "captions": "not sent",
            "chart": "not sent",
            "config": "nested values have dotted names, lists are texts",
            "definition": "it selects the columns of the HParams tab",
            "file": "not sent",
            "film": "not sent: TensorBoard has no MP4",
            "group": "not sent",
            "job type": "not sent",
            "notes": "not sent",
            "tags": "not sent",
            "figure": "not sent",
            "lists": "names with a number, several/0",
            "masks": "not sent",
            "page": "not sent",
            "pictures in cells": "the media type as a text",
            "status": "sent, but not imported",
            "summary": "not sent",
            "table": "a text with the table in Markdown",
            "text": "Markdown, as TensorBoard shows it",
            "video": "a GIF",
        },
    ),
    "wandb": Tracker(
        options=lambda folder: {"wandb_mode": "offline", "wandb_dir": str(folder)},
        lost={
            "allocator": "a bar chart",
            "definition": "only its axis is sent",
            "figure": "the package plotly is missing here",
            "markdown": "a page of HTML",
            "text": "a page of HTML",
        },
    ),
    "trackio": Tracker(
        options=lambda _folder: {},
        lost={
            "boxes": "not sent",
            "chart": "not sent",
            "definition": "not sent",
            "figure": "not sent",
            "file": "not sent",
            "lists": "names with a number, several/0",
            "masks": "not sent",
            "status": "Trackio does not know it",
            "text": "Markdown",
        },
    ),
    "mlflow": Tracker(
        options=lambda folder: {"mlflow_tracking_uri": f"sqlite:///{folder}/mlflow.db"},
        restore=move_artifacts,
        trim=trim_database,
        lost={
            "alert": "not sent",
            "boxes": "not sent",
            "captions": "not sent",
            "chart": "not sent",
            "config": "nested and listed values as texts",
            "definition": "not sent",
            "histogram": "its min, max, mean and std as metrics",
            "lists": "names with a number, several/0",
            "masks": "not sent",
        },
    ),
    "aim": Tracker(
        options=lambda folder: {"aim_repo": str(folder)},
        place=lambda folder: folder / ".aim",
        lost={
            "alert": "not sent",
            "boxes": "not sent",
            "chart": "not sent",
            "definition": "not sent",
            "file": "not sent",
            "film": "not sent",
            "group": "not sent",
            "job type": "not sent",
            "markdown": "a text",
            "notes": "not sent",
            "tags": "not sent",
            "masks": "not sent",
            "page": "not sent",
            "summary": "not sent",
            "table": "not sent",
            "pictures in cells": "not sent",
            "video": "not sent",
        },
    ),
}
ALL_NOUNS = {noun for _, noun in CONTENTS.values()} | set(NOUNS.values())


def not_sent_by(name: str) -> dict[str, str]:
    """The facts that a sink does not declare, and how a person is told of them."""
    sink = own_sinks()[name]
    found = {f: noun for f, (content, noun) in CONTENTS.items() if not is_held(sink.holds, content)}
    return found | {fact: NOUNS[fact] for fact, label in LABELS.items() if label not in sink.labels}


NOT_SENT = {name: not_sent_by(name) for name in TRACKERS}
IMPORT = """
from epochal.cli.main import main
sys.exit(main(["import", sys.argv[1], "--dir", sys.argv[2]]))
"""


@pytest.mark.parametrize("name", TRACKERS)
def test_what_comes_back(
    name: str, start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker, stored = TRACKERS[name], tmp_path / "stored"
    stored.mkdir()
    monkeypatch.chdir(stored)  # where MLflow puts artifacts
    monkeypatch.setenv("TRACKIO_DIR", str(stored))
    monkeypatch.setenv("WANDB_DATA_DIR", str(stored))
    run = start_run("sent", **IDENTITY)
    log_every_kind(run)
    recorded = GOLDEN / "round_trip" / name
    lost, not_sent = set(tracker.lost), NOT_SENT[name]
    try:
        python = python_with(name)
    except pytest.skip.Exception:
        if not recorded.exists():
            raise
        python = python_with("epochal")
        shutil.copytree(recorded, stored, dirs_exist_ok=True)
        tracker.restore(stored)
    else:
        progress = send(python, run.dir, name, options=tracker.options(stored))
        assert "rejected" not in progress["skipped"], progress["rejection"]
        told = set(progress["skipped"].get("not held", {}))
        assert told >= set(not_sent.values())
        assert not told & (ALL_NOUNS - set(not_sent.values()))
        if recorded.exists() and os.environ.get("RECORD_ROUND_TRIP"):
            shutil.rmtree(recorded)
            shutil.copytree(stored, recorded, ignore=shutil.ignore_patterns("*.lock", "*-shm"))
            tracker.trim(recorded)
    done = run_script(python, IMPORT, str(tracker.place(stored)), str(tmp_path / "back"))
    assert done.returncode == 0, done.stderr
    before, after = facts(RunFolder(run.dir)), facts(only_run(tmp_path / "back"))
    different = {fact: after.get(fact) for fact in before if after.get(fact) != before[fact]}
    assert different.keys() == lost, different


@pytest.mark.parametrize("name", TRACKERS)
def test_what_a_sink_declares_is_what_is_lost(name: str) -> None:
    """What a sink says it sends comes back in some form; the rest is told of as not sent."""
    lost = TRACKERS[name].lost
    absent = {fact for fact in {*CONTENTS, *LABELS} if lost.get(fact, "").startswith("not sent")}
    assert set(NOT_SENT[name]) == absent


def only_run(root: Path) -> RunFolder:
    (folder,) = (run for project in root.iterdir() for run in run_folders(project))
    return folder


def test_the_run_has_every_kind(start_run: StartRun) -> None:
    run = start_run("sent", config=CONFIG)
    log_every_kind(run)
    logged = {record["log"] for _, record in read_journal(RunFolder(run.dir))}
    assert logged >= SAMPLES
    assert set(KINDS) - SAMPLES == OWN & set(KINDS)


def facts(folder: RunFolder) -> dict[str, Any]:
    """What a run says, in words that do not depend on the tracker it went through."""
    journal = list(read_journal(folder))
    records = [record for _, record in journal]
    blobs = {record["name"]: record for record in records if record["log"] == "blob"}
    texts = {record["name"]: record for record in records if record["log"] == "text"}
    pictures = [r for r in blobs.values() if _is_picture(r)]
    identity = json.loads(folder.identity.read_bytes())
    samples = (*blobs.values(), *texts.values())
    numbers = {n: x for at, r in journal for n, x in keyed_scalars(Entry(at, r, 0)).items()}
    return {
        "numbers": {name: numbers.get(name) for name in ("odd name: ä/b", "free")},
        "keys": {name: numbers.get(name) for name in ("train/loss", "eval/loss", "moe/aux_loss")},
        "allocator": numbers.get("allocator/optimizer_pinned_mib"),
        "histogram": {
            r["name"].rpartition("/")[2]: sum(r["counts"]) for r in _of(records, "histogram")
        },
        "text": _text(texts.get("words")),
        "markdown": _text(texts.get("notes")),
        "pictures": sorted(_pixels(folder, r) for r in records if _is_picture(r)),
        "captions": {r["name"]: r["caption"] for r in pictures if "caption" in r},
        "boxes": blobs.get("noise", {}).get("boxes"),
        "masks": [
            (mask["group"], mask["labels"], _pixels(folder, mask))
            for mask in blobs.get("noise", {}).get("masks", ())
        ],
        "lists": sorted((r["name"], r["index"]) for r in _of(records, "blob") if "index" in r),
        "sound": _content(folder, blobs.get("sound")),
        "video": _content(folder, blobs.get("moving")),
        "film": _content(folder, blobs.get("film")),
        "page": _content(folder, blobs.get("page")),
        "figure": _figure(folder, blobs.get("figure")),
        "table": _table(folder, blobs.get("rows"), cells=False),
        "pictures in cells": _table(folder, blobs.get("rows"), cells=True),
        "chart": blobs.get("curve", {}).get("chart"),
        "file": [(r["name"], _content(folder, r)) for r in _of(records, "file")],
        "steps": sorted({r["step"] for r in samples if not r["name"].startswith("allocator/")}),
        "alert": [(r["title"], r["text"]) for r in _of(records, "event") if r["name"] == "alert"],
        "summary": {r["name"]: r["value"] for r in _of(records, "summary")},
        "definition": {r["name"]: r["goal"] for r in _of(records, "define") if "goal" in r},
        "config": _config(folder, records),
        "status": [r["status"] for r in _of(records, "finish")],
        **{fact: identity.get(label) for fact, label in LABELS.items()},
    }


def _of(records: list[Record], kind: str) -> list[Record]:
    return [record for record in records if record["log"] == kind]


def _is_picture(record: Record) -> bool:
    name, kind = str(record.get("name")).partition("/")[0], str(record.get("media_type"))
    return kind.startswith("image/") and name in ("noise", "several")


def _text(record: Record | None) -> Any:
    return record and (record["text"], record.get("format"))


def _content(folder: RunFolder, record: Record | None) -> bytes | None:
    return None if record is None else blob_bytes(folder, record["file"])


def _figure(folder: RunFolder, record: Record | None) -> Any:
    if record is None:
        return None
    data = json.loads(blob_bytes(folder, record["file"]))["data"]
    return [{key: curve[key] for key in ("type", "x", "y")} for curve in data]


def _pixels(folder: RunFolder, record: Record) -> tuple[Any, ...]:
    with pillow.open(io.BytesIO(blob_bytes(folder, record["file"]))) as opened:
        return opened.size, opened.convert("RGB").tobytes()


def _table(folder: RunFolder, record: Record | None, *, cells: bool) -> Any:
    """The rows of a table, or the pictures in them."""
    if record is None or record["media_type"] != TABLE:
        return None
    table = json.loads(blob_bytes(folder, record["file"]))
    if cells:
        found = [cell for row in table["data"] for cell in row if isinstance(cell, dict)]
        return [_pixels(folder, cell) for cell in found if "file" in cell]
    return [[None if isinstance(cell, dict) else cell for cell in row] for row in table["data"]]


def _config(folder: RunFolder, records: list[Record]) -> Any:
    config = json.loads(folder.identity.read_bytes())["config"]
    config = config.get("config", config)
    return {**config, **{r["name"]: r["value"] for r in _of(records, "option")}}


ODD_NAMES = ("a/../../up", "/root", ".hidden/..", "ünïcode 😀", "x" * 300, "ä" * 300, "nul\0*?")


@pytest.mark.parametrize("name", TRACKERS)
def test_odd_samples_hold_nothing_up(
    name: str, start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python, stored = python_with(name), tmp_path / "stored"
    stored.mkdir()
    monkeypatch.chdir(stored)
    monkeypatch.setenv("TRACKIO_DIR", str(stored))
    monkeypatch.setenv("WANDB_DATA_DIR", str(stored))
    run = start_run("sent")
    for number, odd in enumerate(ODD_NAMES):
        run.log({odd: epochal.Image(pixels(number))}, step=1)
        run.log({f"{odd} text": "a text"}, step=1)
        log_file(run, odd, b"%d" % number)
    run.log({"long": epochal.Table([{"n": n, "text": "|\n"} for n in range(10_000)])}, step=1)
    run.log({"gone": epochal.Html("gone"), "broken": epochal.Image(pixels(250))}, step=1)
    blobs = RunFolder(run.dir).blobs
    (gone,) = (path for path in blobs.glob("*.html"))
    gone.unlink()
    newest = max(blobs.glob("*.png.raw"), key=lambda path: path.stat().st_mtime_ns)
    newest.write_bytes(b"no pixels")
    run.log({"after": 1.0}, step=2)
    run.finish()
    progress = send(python, run.dir, name, options=TRACKERS[name].options(stored))
    assert progress["phase"] == "closed"
    skipped = {why: nouns for why, nouns in progress["skipped"].items() if why != "not held"}
    holds_pages = "page" not in TRACKERS[name].lost
    missing = {"file missing": {"HTML page": 1}} if holds_pages else {}
    assert skipped == {**missing, "rejected": {"image": 1}}, progress["rejection"]
    done = run_script(python, IMPORT, str(TRACKERS[name].place(stored)), str(tmp_path / "back"))
    assert done.returncode == 0, done.stderr
    back = only_run(tmp_path / "back")
    records = [record for _, record in read_journal(back)]
    assert any("after" in record.get("m", {}) for record in records)
    assert len([record for record in records if record["log"] == "blob"]) >= len(ODD_NAMES)
    assert {path.name for path in tmp_path.iterdir()} <= {"stored", "back", "runs"}
