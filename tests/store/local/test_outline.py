"""What lists show of runs before they are read: identity and newest records, marked as partial."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from epochal.store.local.store import LocalStore
from tests.store.journals import Journal, settle
from tests.store.sealing import seal_all


def long_run(root: Path, name: str = "x", **facts: Any) -> Journal:
    """A run of which both ends are a small part."""
    journal = Journal(root, name, **facts)
    records = ({"log": "metrics", "step": n, "m": {"loss": 1.0 / (n + 1)}} for n in range(500))
    return journal.add(*records)


def test_an_outline_has_identity_and_newest_values(tmp_path: Path) -> None:
    long_run(tmp_path, config={"lr": 0.5}, totals={"steps": 500}).finish()
    run = LocalStore(tmp_path).runs()[0]
    info = run.outline()
    assert (info.name, info.project, info.config) == ("x", "p", {"lr": 0.5})
    assert (info.step, info.total_steps, info.status.state) == (499, 500, "finished")
    assert run.latest("loss") == 1.0 / 500
    assert info.is_partial
    assert (info.records, info.errors) == (0, None)


def test_the_whole_row_replaces_the_outline(tmp_path: Path) -> None:
    long_run(tmp_path).finish()
    run = LocalStore(tmp_path).runs()[0]
    run.outline()
    assert run.info.records == 502
    assert not run.outline().is_partial
    assert run.outline() == run.info


def test_an_outline_says_the_same_as_the_whole_row(tmp_path: Path) -> None:
    long_run(tmp_path, config={"lr": 0.5}, tags=["a"]).finish()
    run = LocalStore(tmp_path).runs()[0]
    outline, loss = run.outline(), run.latest("loss")
    whole = run.info
    for field in ("id", "name", "project", "folder", "status", "created", "updated", "attempts"):
        assert getattr(outline, field) == getattr(whole, field), field
    for field in ("step", "epoch", "tags", "notes", "hidden", "config", "nonfinite"):
        assert getattr(outline, field) == getattr(whole, field), field
    assert run.latest("loss") == loss


def test_an_outline_reads_only_the_ends_of_a_journal(tmp_path: Path) -> None:
    journal = long_run(tmp_path).finish()
    content = bytearray(journal.path().read_bytes())
    content[5000:-20000] = b"#" * (len(content) - 25000)
    journal.path().write_bytes(content)
    assert LocalStore(tmp_path).runs()[0].outline().step == 499


def test_an_outline_of_long_records_has_no_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    monkeypatch.setattr(
        journal, "_header", lambda *_: {"log": "run", "t": 1.0, "v": 1, "config": {"a": "b" * 9000}}
    )
    journal.add({"log": "metrics", "step": 0, "m": {"loss": 1.0}})
    with journal.path().open("ab") as file:
        file.write(b"#" * 200_000 + b"\n")
    many = {f"layer{number}/weight": 0.5 for number in range(5000)}
    journal.add({"log": "metrics", "step": 500, "m": many})
    info = LocalStore(tmp_path).runs()[0].outline()
    assert (info.is_partial, info.step) == (True, None)


@pytest.mark.parametrize("harm", ["sealed", "torn", "no identity"])
def test_where_the_ends_do_not_tell_the_whole_run_is_read(tmp_path: Path, harm: str) -> None:
    journal = long_run(tmp_path, identity=harm != "no identity")
    if harm == "sealed":
        seal_all(tmp_path)
    elif harm == "torn":
        journal.path().write_bytes(journal.path().read_bytes()[:30])
    info = LocalStore(tmp_path).runs()[0].outline()
    assert not info.is_partial
    assert info == LocalStore(tmp_path).runs()[0].info


def test_an_outline_is_kept_by_the_index(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    journal = long_run(root).finish()
    settle(root)
    with LocalStore(root, cache=cache) as store:
        store.runs()[0].outline()
    status = journal.path().stat()
    journal.path().write_bytes(b"#" * status.st_size)
    os.utime(journal.path(), ns=(status.st_atime_ns, status.st_mtime_ns))
    info = LocalStore(root, cache=cache).runs()[0].outline()
    assert (info.step, info.is_partial) == (499, True)


def test_an_outlined_run_whose_other_writer_goes_on_is_looked_at(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    journal = long_run(root).finish().metrics(3, loss=2.5, writer="rank-0001")
    settle(root)
    with LocalStore(root, cache=cache) as store:
        store.runs()[0].outline()
    journal.metrics(9, loss=2.5, writer="rank-0001")
    with LocalStore(root, cache=cache) as store:
        (run,) = store.runs()
        assert run.summary("loss", rank=1).count == 2
        assert run.info.records == 505


def many(root: Path, count: int = 150) -> None:
    for number in range(count):
        Journal(root, f"r{number:03d}", created=1000.0 + number).metrics(number, loss=1.0).finish()


def test_a_list_is_made_of_what_is_known_when_its_time_is_up(tmp_path: Path) -> None:
    many(tmp_path)
    store = LocalStore(tmp_path)
    first = store.known_runs(budget_s=0)
    # The first page of a list is there whatever the clock says.
    assert len(first.runs) == 100
    left = first.pending
    assert left == 50
    while left:
        _, left = store.read_on(0.01)
    whole = store.known_runs(budget_s=0)
    assert [run.info.name for run in whole.runs] == [f"r{n:03d}" for n in reversed(range(150))]
    assert whole.pending == 0


def test_reading_on_tells_which_runs_were_read(tmp_path: Path) -> None:
    many(tmp_path, 3)
    read, left = LocalStore(tmp_path).read_on(60.0)
    assert (read, left) == ({"id-r000", "id-r001", "id-r002"}, 0)


def test_queries_judge_partial_rows_by_what_is_known(tmp_path: Path) -> None:
    large = {"log": "text", "name": "t", "text": "x" * 1_000_000}
    journal = Journal(tmp_path, config={"lr": 0.5}).add(*[large] * 9).metrics(1, loss=0.5)
    assert journal.path().stat().st_size > 8 * 1024 * 1024  # too large to be read for a list
    store = LocalStore(tmp_path)
    assert len(store.known_runs("config.lr == 0.5", budget_s=0).runs) == 1
    assert len(store.known_runs("summary.loss.min < 1", budget_s=0).runs) == 0
    assert store.known_runs(budget_s=0).pending == 1
    store.read_on(60.0)
    assert len(store.known_runs("summary.loss.min < 1", budget_s=0).runs) == 1


def test_runs_are_grouped_by_fields(tmp_path: Path) -> None:
    for name, lr in (("a", 0.1), ("b", 0.2), ("c", 0.1), ("d", None)):
        config = {} if lr is None else {"lr": lr}
        Journal(tmp_path, name, config=config).metrics(1, loss=1.0).finish()
    known = LocalStore(tmp_path).known_runs(order="name", group="config.lr,project", budget_s=60)
    found = {values: [run.info.name for run in runs] for values, runs in known.groups}
    assert found == {(0.1, "p"): ["a", "c"], (0.2, "p"): ["b"], (None, "p"): ["d"]}
