"""A small run that has ended is read in one go: its row is the one that its parts give."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epochal.journal import shape
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.load import load_run
from epochal.store.row import Row
from tests.store.journals import Journal

FINISH: dict[str, Any] = {"log": "finish", "status": "finished"}
FINDING: dict[str, Any] = {
    "log": "finding",
    "id": "spike",
    "rule": "loss-spike",
    "severity": "warning",
    "sentence": "The loss has a spike.",
    "state": "open",
}


@pytest.fixture(autouse=True)
def _structs_for_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shape, "WORTH_A_STRUCT", 1)


def whole(row: Row) -> Any:
    """All of a row, its series and summaries too."""
    row.pack()
    return msgspec.msgpack.decode(msgspec.msgpack.encode(row))


def assert_same(root: Path, *, is_small: bool | None = None) -> None:
    """The row of a run is that of its parts; ``is_small``: it is known from one read."""
    held = MemoryBudget()
    for _ in range(2):  # lines of a shape that was seen before are decoded at once
        other = load_run(root / "p" / "x", held=held)
        other._reader.ask(lambda state: None)  # what has been read is used
    run = load_run(root / "p" / "x", held=held)
    assert is_small in (None, run.source.small() is not None)
    assert str(whole(run.row)) == str(whole(other.row))  # nan is not equal to itself
    assert str(run.info) == str(other.info)
    for metric in other.metrics():
        names: dict[str, Any] = {"name": metric.name, "axis": metric.axis}
        assert str(run.summary(**names)) == str(other.summary(**names))


def number(source: random.Random) -> float:
    kinds = (source.random(), source.randrange(9), -source.random() * 1e300, 2**60 + 1, True, 0.0)
    return source.choice(kinds)


@pytest.mark.parametrize("seed", range(12))
def test_its_row_is_the_one_of_its_parts(tmp_path: Path, seed: int) -> None:
    source = random.Random(seed)
    facts: dict[str, Any] = {
        "config": {"lr": 0.1},
        "totals": {"steps": 9, "epochs": 2},
        "tags": ["a"],
    }
    journal = Journal(tmp_path, **(facts if seed % 2 else {}))
    names = ["loss", "acc", "val/loss", "tokens_per_s"][: source.randint(1, 4)]
    kinds = {name: number(source) for name in names}
    for step in range(source.randint(1, 300)):
        values: dict[str, Any] = {
            name: kind if isinstance(kind, bool) else kind * source.choice((1, 2))
            for name, kind in kinds.items()
        }
        journal.metrics(step * 3, **values)
        if seed % 3 == 0 and step % 10 == 0:
            journal.add({"log": "metrics", "step": step * 3, "m": {"eval": source.random()}})
        if seed % 4 == 0:
            journal.add({"log": "system", "cpu_pct": source.random()})
    journal.add({**FINISH, "reason": "done"} if seed % 2 else FINISH)
    assert_same(tmp_path)


def test_a_plain_run_is_read_in_one_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(200):
        journal.metrics(step, loss=1.0 / (step + 1), acc=step / 200)
        journal.add({"log": "system", "cpu_pct": step / 7})
    journal.add(FINISH)
    assert_same(tmp_path, is_small=True)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [{"log": "metrics", "step": 1, "m": {"loss": 0.5}}],
        [{"log": "metrics", "step": 99, "m": {"loss": float("nan")}}, FINISH],
        [{"log": "epoch", "epoch": 1, "m": {"loss": 3.0}}, FINISH],
        [{"log": "eval", "step": 90, "loss": 3.0}, FINISH],
        [{"log": "metrics", "step": 99, "m": {"loss": 0.5, "acc": 1.0}}, FINISH],
        [FINISH, {"log": "metrics", "step": 200, "m": {"loss": 0.5}}],
    ],
)
def test_other_records_with_numbers_have_its_parts_read(tmp_path: Path, records: list[Any]) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(*records)
    assert_same(tmp_path, is_small=False)


@pytest.mark.parametrize(
    "record",
    [
        {"log": "define", "name": "loss", "unit": "bits", "role": "eval_loss"},
        {"log": "define", "name": "lo*", "goal": "max"},
        {"log": "summary", "name": "loss", "value": 3},
        {"log": "summary", "name": "best", "value": "a", "deleted": True},
        {"log": "option", "name": "lr", "value": 3},
        {"log": "event", "name": "checkpoint"},
        {"log": "event", "name": "journal-shortened", "sentence": "a.jsonl became shorter."},
        {"log": "event", "name": "companion-lost", "step": 7},
        {"log": "event", "name": "alert-failed", "sentence": "no mail"},
        FINDING,
        {"log": "resume", "step": 5},
        {"log": "metrics", "step": 90, "m": {"acc": 0.5}},
        FINISH,
    ],
)
def test_a_record_of_another_kind_or_shape_is_read_in_one_go(
    tmp_path: Path, record: dict[str, Any]
) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(record, FINISH)
    assert_same(tmp_path, is_small=True)


GPU: dict[str, Any] = {
    "log": "gpu",
    "power": 9.5,
    "dram_used": 2**40,
    "throttle": "",
    "interval_s": 5.0,
    "min": {"power": 1.0},
}


def of_companion(journal: Journal, *, ends: bool = True) -> Journal:
    """Add the parts that a companion writes beside a run."""
    end = [FINISH] if ends else []
    phase = {"log": "event", "name": "phase", "phase": "warm-up", "step": 0}
    journal.add(phase, {**FINDING, "step": 3}, *end, writer="findings")
    telemetry: list[dict[str, Any]] = [
        {"log": "event", "name": "telemetry", "failures": 0},
        {"log": "gpu-model", "name": "H200", "id": 0, "memory": 2**37},
    ]
    for tick in range(20):
        telemetry.append({"log": "system", "cpu_pct": tick / 3, "ram_used": tick, "threads": 3})
        telemetry += [{**GPU, "id": gpu, "power": tick + gpu / 7} for gpu in range(2)]
    return journal.add(*telemetry, *end, writer="telemetry-a")


def test_a_run_with_a_companion_is_read_in_one_go(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5, acc=step / 90)
        if step % 10 == 0:
            journal.metrics(step, val_loss=0.5 - step)
    of_companion(journal.add(FINISH))
    assert_same(tmp_path, is_small=True)
    run = load_run(tmp_path / "p" / "x")
    assert run.info.warnings == 1
    assert run.row.has_companion
    assert run.summary("gpu/1/power").count == 20
    assert len(run.series("loss")) == 90


def test_a_companion_that_was_killed_has_its_parts_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    of_companion(journal.add(FINISH), ends=False)
    assert_same(tmp_path, is_small=False)


@pytest.mark.parametrize("steps", [[3, 2, 1], [1, 1, 1]])
def test_steps_that_go_back_or_repeat_have_its_parts_read(tmp_path: Path, steps: list[int]) -> None:
    journal = Journal(tmp_path)
    for step in steps * 40:
        journal.metrics(step, loss=0.5 + step)
    journal.add(FINISH)
    assert_same(tmp_path, is_small=False)


@pytest.mark.parametrize("damage", [b'{"log":"metr\n', b"\0\0\0\n", b'{"log":"metrics"', b"\n"])
def test_damage_has_its_parts_read(tmp_path: Path, damage: bytes) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(FINISH)
    with journal.path().open("ab") as file:
        file.write(damage)
    assert_same(tmp_path, is_small=None if damage == b"\n" else False)


@pytest.mark.parametrize("other", [{"attempt": 2}, {"writer": "rank1"}, {"part": 1}])
def test_a_second_part_has_all_parts_read(tmp_path: Path, other: dict[str, Any]) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(FINISH).add(FINISH, **other)
    assert_same(tmp_path, is_small=False)


def test_a_header_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(FINISH)
    text = journal.path().read_bytes()
    journal.path().write_bytes(text.replace(b'"v":1', b'"v":99', 1))
    assert_same(tmp_path, is_small=False)
    assert "newer Epochal" in str(load_run(tmp_path / "p" / "x").info.problem)


def test_a_fork_has_its_parts_read(tmp_path: Path) -> None:
    fork = {"id": "parent", "name": "parent", "project": "p", "step": 3}
    journal = Journal(tmp_path, fork=fork)
    for step in range(90):
        journal.metrics(step, loss=0.5)
    journal.add(FINISH)
    assert_same(tmp_path, is_small=False)


# Lines that are read as the ones before, but are not written as they are.
@pytest.mark.parametrize(
    "line",
    [
        b'{"log":"metrics","t":90.0,"step":90.0,"m":{"loss":0.25,"acc":1.0}}\n',
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":1,"acc":1.0}}\n',
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":true,"acc":1.0}}\n',
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":0.1,"loss":0.25,"acc":1.0}}\n',
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":0.25,"acc":1.0},"x":3}\n',
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":0.25}}\n',
        b'{"log":"metrics","t":90.0,"step":90,\n"m":{"loss":0.25,"acc":1.0}}\n',
        b"\n",
        b'{"log":"metrics","t":90.0,"step":90,"m":{"loss":0.25,"acc":1.0}}'
        b'{"log":"metrics","t":91.0,"step":91,"m":{"loss":0.25,"acc":1.0}}\n'
        b'{"log":"metrics","t":92.0,"step":92,\n"m":{"loss":0.25,"acc":1.0}}\n',
    ],
)
def test_a_line_that_only_looks_alike_is_read_as_it_is(tmp_path: Path, line: bytes) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5 + step, acc=0.25)
    with journal.path().open("ab") as file:
        file.write(line)
    journal.add(FINISH)
    assert_same(tmp_path)


def test_metrics_stand_in_the_order_of_the_run_itself(tmp_path: Path) -> None:
    held = MemoryBudget()
    for root, names in ((tmp_path / "a", ("loss", "acc")), (tmp_path / "b", ("acc", "loss"))):
        journal = Journal(root)
        for step in range(90):
            values: dict[str, Any] = dict.fromkeys(names, 0.5 + step)
            journal.metrics(step, **values)
        journal.add(FINISH)
        for _ in range(2):
            run = load_run(root / "p" / "x", held=held)
            assert [metric.name for metric in run.metrics()] == list(names)


def test_a_line_with_keys_in_another_order_has_the_same_values(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(90):
        journal.metrics(step, loss=0.5 + step, acc=0.25)
    journal.metrics(90, acc=1.0, loss=0.25).add(FINISH)
    held = MemoryBudget()
    first, second = (load_run(tmp_path / "p" / "x", held=held) for _ in range(2))
    first._reader.ask(lambda state: None)
    for name in ("loss", "acc"):
        assert second.summary(name) == first.summary(name)
    assert second.latest("loss") == first.latest("loss") == 0.25
