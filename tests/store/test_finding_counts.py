from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal, settle


def finding(
    identity: str, severity: str, state: str = "open", *, rule: str = "nonfinite"
) -> dict[str, Any]:
    return {
        "log": "finding",
        "id": identity,
        "rule": rule,
        "severity": severity,
        "sentence": "The loss is nan.",
        "state": state,
    }


def counts(journal: Journal) -> tuple[int | None, int | None]:
    info = load_run(journal.folder.path).info
    return info.errors, info.warnings


def held(journal: Journal) -> tuple[int | None, int | None]:
    info = load_run(journal.folder.path).info
    return info.open_errors, info.open_warnings


def test_findings_are_counted_by_severity_and_by_whether_they_hold(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    journal.add(finding("a", "warning"), finding("b", "warning"), writer="findings")
    journal.add(finding("a", "error"), finding("c", "info"), writer="findings")
    assert counts(journal) == held(journal) == (1, 1)
    journal.add(finding("b", "warning", "closed"), writer="findings")
    assert counts(journal) == (1, 1)
    assert held(journal) == (1, 0)


def test_where_nobody_looked_nothing_is_known(tmp_path: Path) -> None:
    assert counts(Journal(tmp_path).metrics(1, loss=float("nan"))) == (None, None)
    assert counts(Journal(tmp_path, "y").metrics(1, loss=1.0).add(writer="findings")) == (0, 0)


def test_what_an_attempt_before_had_is_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).add(finding("a", "error"), writer="findings")
    journal.metrics(1, attempt=2, loss=0.9).add(writer="findings", attempt=2)
    assert counts(journal) == (1, 0)
    assert held(journal) == (0, 0)


@pytest.mark.parametrize(
    ("status", "expected"),
    [("failed", (1, 0)), ("terminated", (0, 1)), ("interrupted", (0, 0)), ("finished", (0, 0))],
)
def test_how_a_run_ended_counts(tmp_path: Path, status: str, expected: tuple[int, int]) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    run.finish(status)
    info = load_run(run.dir).info
    assert (info.errors or 0, info.warnings or 0) == expected
    found = folder_store(tmp_path).runs("errors > 0 or warnings > 0")
    assert len(found) == (expected != (0, 0))


@pytest.mark.parametrize(("last", "expected"), [("nan", True), ("-inf", True), (None, False)])
def test_a_loss_that_ends_as_no_number_is_known(
    tmp_path: Path, last: str | None, expected: bool
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0).metrics(2, loss=float("nan"))
    if last is None:
        journal.metrics(3, loss=1.0)
    else:
        record = {"log": "metrics", "step": 3, "m": {"loss": None}, "nonfinite": {"loss": last}}
        journal.add(record)
    assert load_run(journal.folder.path).info.nonfinite is expected


def test_runs_are_asked_for_by_what_was_found(tmp_path: Path) -> None:
    Journal(tmp_path, "bad").metrics(1, loss=1.0).add(finding("a", "error"), writer="findings")
    Journal(tmp_path, "good").metrics(1, loss=1.0).add(writer="findings")
    Journal(tmp_path, "unwatched").metrics(1, loss=1.0)
    store = folder_store(tmp_path)
    assert [run.info.name for run in store.runs("errors > 0")] == ["bad"]
    assert [run.info.name for run in store.runs("errors == 0 and warnings == 0")] == ["good"]
    assert not store.runs("nonfinite")


def test_the_index_keeps_what_was_found(tmp_path: Path) -> None:
    root, cache = tmp_path / "runs", tmp_path / "cache"
    journal = Journal(root).metrics(1, loss=1.0).add(finding("a", "error"), writer="findings")
    settle(root)
    with folder_store(root, cache=cache) as store:
        assert store.run("x").info.errors == 1
    path = journal.path("findings")
    size, stat = path.stat().st_size, path.stat()
    path.write_bytes(b"#" * size)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert folder_store(root, cache=cache).run("x").info.errors == 1


def _killed_and_resumed(root: Path, num_steps: int) -> Journal:
    """The first attempt lost its companion before it wrote what it found; the second is fine."""
    journal = Journal(root, config={"lr": 0.1})
    for step in range(num_steps):
        journal.metrics(step, loss=float("nan") if step > num_steps // 2 else 1.0 + 0.01 * step)
    journal.add(finding("early", "warning"), writer="findings")
    journal.add({"log": "resume", "step": 10}, attempt=2)
    for step in range(10, 30):
        journal.metrics(step, loss=1.0 - 0.01 * step, attempt=2)
    journal.add({"log": "finish", "status": "finished"}, writer="findings", attempt=2).finish(
        attempt=2
    )
    return journal


def _doctors_counts(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, int]:
    main(["doctor", "x", "--json", "--dir", str(root)])
    said = json.loads(capsys.readouterr().out)
    return said["errors"], said["warnings"]


def test_a_killed_and_resumed_run_is_marked_until_somebody_has_looked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "runs"
    journal = _killed_and_resumed(root, 60)
    settle(root)
    assert counts(journal) == (0, 1)
    main(["ls", "--dir", str(root)])
    assert "unknown +" in capsys.readouterr().out
    found = _doctors_counts(root, capsys)
    assert found[0] >= 1
    main(["ls", "--json", "--dir", str(root)])
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["errors"], row["warnings"]) == found
    main(["ls", "--dir", str(root)])
    assert "+" not in capsys.readouterr().out
