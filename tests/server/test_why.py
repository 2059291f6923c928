from __future__ import annotations

from pathlib import Path

import pytest

from tests.server.live import Server
from tests.store.journals import Journal


@pytest.fixture(autouse=True)
def root(tmp_path: Path) -> Path:
    for name, lr, last in (("good", 1e-3, 1.0), ("bad", 1e-1, 2.0), ("third", 1e-3, 1.0)):
        journal = Journal(tmp_path, name, config={"lr": lr, "seed": 1})
        for step in range(60):
            journal.metrics(step, loss=last + 2.0 * 0.9**step + 0.01 * (step % 3))
        journal.finish()
    return tmp_path


def test_two_runs_are_explained(server: Server) -> None:
    found = server.ask("/api/why", run=["id-bad", "id-good"]).json
    assert (found["metric"], found["worse"], found["verdict"]) == ("loss", "left", "explained")
    assert found["gap"] == pytest.approx(1.0, abs=0.05)
    first = found["differences"][0]
    assert (first["area"], first["key"], first["left"], first["right"]) == (
        *("config", "lr"),
        *(0.1, 0.001),
    )
    assert found["left"]["runs"] == ["id-bad"]


def test_one_run_is_explained_against_its_group_or_a_query(server: Server) -> None:
    found = server.ask("/api/why", run="id-bad").json
    assert sorted(found["right"]["runs"]) == ["id-good", "id-third"]
    assert found["differences"][0]["others"] == "2 of 2"
    found = server.ask("/api/why", run="id-bad", against="name == 'third'", metric="loss").json
    assert found["right"]["runs"] == ["id-third"]


def test_mistakes_are_said(server: Server) -> None:
    answer = server.ask("/api/why", run=["id-bad", "id-gone"])
    assert (answer.status, "id-gone" in answer.json["error"]) == (404, True)
    answer = server.ask("/api/why", run=["id-bad", "id-good"], metric="nothing")
    assert (answer.status, "nothing" in answer.json["error"]) == (404, True)
    assert server.ask("/api/why", run="id-bad", against="name == 'nobody'").status == 400


def test_a_config_with_integers_beyond_a_double_is_compared(server: Server, root: Path) -> None:
    for name, exponent, loss in (("large", 400, 1.0), ("larger", 401, 2.0)):
        journal = Journal(root, name, config={"size": 10**exponent})
        for step in range(60):
            journal.metrics(step, loss=loss + 2.0 * 0.9**step)
        journal.finish()
    found = server.ask("/api/why", run=["id-larger", "id-large"]).json
    first = found["differences"][0]
    assert (first["key"], first["left"], first["right"]) == ("size", 10**401, 10**400)
