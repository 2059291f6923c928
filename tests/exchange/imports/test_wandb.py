from __future__ import annotations

import base64
import hashlib
import math
from pathlib import Path

import pytest

from epochal.exchange.imports.formats.wandb import find
from epochal.records import Record
from tests.exchange.imports.event_files import field, leveldb
from tests.exchange.imports.samples import WANDB, opened, records_in, values_of

ALL = records_in(WANDB)


def of(kind: str) -> list[Record]:
    return [record for record in ALL if record["log"] == kind]


def test_the_run_says_who_it_is() -> None:
    (run,) = opened(WANDB).runs()
    identity = run.identity
    assert (identity.id, identity.name, identity.project) == ("abc12345", "first", "digits")
    assert identity.config == {"lr": 0.1, "model": {"layers": 2}, "list": [1, 2]}
    assert (identity.tags, identity.notes) == (("a", "b"), "a note")
    assert identity.facts["host"] == "somewhere"


def test_history_keeps_steps_nesting_and_switches() -> None:
    assert values_of(ALL, "loss")[:3] == [(0, 1), (1, 0.5), (2, pytest.approx(1 / 3))]
    assert values_of(ALL, "nested.a")[29] == (29, 29)
    assert values_of(ALL, "flag")[0] == (0, 1)
    assert values_of(ALL, "val/loss") == [(100, 0.5)]


def test_nan_and_infinity_are_numbers() -> None:
    assert math.isnan(values_of(ALL, "loss")[30][1])
    assert values_of(ALL, "best") == [(30, math.inf)]


def test_the_machine_is_on_the_time_axis() -> None:
    assert "system/memory_percent" in of("system")[0]["m"]
    assert "step" not in of("system")[0]


def test_output_is_messages_in_whole_lines() -> None:
    assert [(r["level"], r["text"]) for r in of("message")] == [("stdout", "hello from the run")]


def test_what_was_set_later_is_kept() -> None:
    assert [(r["name"], r["value"]) for r in of("option")] == [("late", 3)]
    events = {r["name"]: r for r in of("event")}
    assert {r["name"]: r["value"] for r in of("summary")} == {"best_acc": 0.99, "word": "hello"}
    assert events["alert"]["title"] == "hot"
    assert {r["name"]: r.get("x") for r in of("define")} == {"val/*": "epoch", "acc": None}


def test_the_exit_is_the_end() -> None:
    assert (ALL[-1]["log"], ALL[-1]["status"], ALL[-1]["last_step"]) == ("finish", "finished", 100)


def test_a_torn_log_gives_what_was_written(tmp_path: Path) -> None:
    path = tmp_path / "run-abc12345.wandb"
    path.write_bytes(next(WANDB.rglob("*.wandb")).read_bytes()[:9000])
    records = records_in(path)
    assert values_of(records, "loss")[0] == (0, 1)
    assert records[-1]["log"] != "finish"
    (run,) = opened(path).runs()
    assert (list(run.read_new()) != [], run.problems) == (True, [])


def test_typed_items_of_newer_logs_are_read(tmp_path: Path) -> None:
    items = [
        field(1, "flag") + b"\x20\x01",
        field(1, "count") + b"\x28\x05",
        field(1, "value") + b"\x31" + bytes(6) + b"\xf0\x3f",
        field(1, "word") + field(7, "hello"),
        field(1, "more") + field(8, '{"a": 2}'),
    ]
    history = b"".join(field(1, item) for item in items) + field(2, b"\x08\x07")
    path = tmp_path / "run-1.wandb"
    path.write_bytes(leveldb([field(2, history)]))
    metrics, text = records_in(path)
    assert metrics["step"] == 7
    assert metrics["m"] == {"count": -3, "flag": 1, "more.a": 2, "value": 1.0}
    assert (text["name"], text["text"]) == ("word", "hello")


def test_media_are_never_read_from_outside_the_run(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    value = '{"_type": "image-file", "path": "../secret.png"}'
    history = field(1, field(1, "img") + field(16, value))
    folder = tmp_path / "offline-run-1"
    folder.mkdir()
    (folder / "run-1.wandb").write_bytes(leveldb([field(2, history)]))
    (record,) = records_in(tmp_path)
    assert (record["log"], record["name"]) == ("event", "missing-media")


def test_artifacts_are_only_read_with_the_digest_that_the_log_names(tmp_path: Path) -> None:
    kept = tmp_path / "elsewhere.txt"
    kept.write_bytes(b"kept")
    digest = base64.b64encode(hashlib.md5(b"kept").digest()).decode()
    entries = [
        field(1, name) + field(2, given) + field(6, str(kept))
        for name, given in (("right", digest), ("wrong", "AAAA"))
    ]
    manifest = b"".join(field(4, entry) for entry in entries)
    artifact = field(4, "dataset") + field(5, "ds") + field(12, manifest) + field(15, "id")
    path = tmp_path / "run-1.wandb"
    path.write_bytes(leveldb([field(8, artifact)]))
    found = [(record["log"], record["name"]) for record in records_in(path)]
    assert found == [("file", "ds/right"), ("event", "missing-media")]


def test_the_logs_of_a_resumed_run_have_ids_of_their_own(tmp_path: Path) -> None:
    log = next(WANDB.rglob("*.wandb"))
    for folder in ("offline-run-1", "offline-run-2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / log.name).write_bytes(log.read_bytes())
    assert [run.identity.id for run in opened(tmp_path).runs()] == ["abc12345", "abc12345-2"]


def test_the_link_to_the_latest_run_is_no_second_run(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "offline-run-1"
    folder.mkdir(parents=True)
    (folder / "run-1.wandb").write_bytes(leveldb([]))
    (tmp_path / "wandb" / "latest-run").symlink_to(folder)
    for place in (tmp_path, tmp_path / "wandb", folder):
        source = find(place)
        assert source is not None
        assert len(source.runs()) == 1
