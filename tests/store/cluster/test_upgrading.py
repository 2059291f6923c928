"""Tables of another version are refused, and older ones are upgraded, however often one tries."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.store.cluster.database import Database
from epochal.store.cluster.schema import STEPS, VERSION
from tests.doubles.cluster import Cluster


def execute(cluster: Cluster, text: str) -> list[Any]:
    database = Database(cluster.address)

    def work(cursor: Any) -> list[Any]:
        cursor.execute(text)
        return cursor.fetchall() if cursor.description else []

    with_rows = database.run(work)
    database.close()
    return with_rows


@pytest.fixture
def older(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A database whose tables are two versions old: a column is missing, and a table."""
    cluster.hub()
    execute(cluster, "alter table epochal.runs drop column launch_id cascade")
    execute(cluster, "drop table epochal.sweep")
    execute(cluster, f"update epochal.version set version = {VERSION - 2}")
    monkeypatch.setitem(STEPS, VERSION - 1, "alter table epochal.runs add column launch_id text")
    monkeypatch.setitem(
        STEPS,
        VERSION,
        "create table epochal.sweep (object text primary key, since timestamptz default now());\n"
        "create index runs_launch on epochal.runs (launch_id) where launch_id is not null",
    )
    return cluster


def test_a_hub_refuses_older_tables_and_names_the_command(
    older: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["hub", "serve", "--catalog", older.address, "--bucket", older.bucket]
    assert main(command) == 2
    assert "run 'epochal hub upgrade --catalog" in capsys.readouterr().err
    assert main(["hub", "upgrade", "--catalog", older.address]) == 0
    assert f"version {VERSION}, which is the newest" in capsys.readouterr().out
    older.hub()
    assert main(["hub", "upgrade", "--catalog", older.address]) == 0


def test_two_people_upgrade_at_once(older: Cluster) -> None:
    reached: list[int] = []

    def upgrade() -> None:
        database = Database(older.address)
        reached.extend(database.upgrade())
        database.close()

    threads = [threading.Thread(target=upgrade) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(reached) == [VERSION - 1, VERSION]
    assert execute(older, "select version from epochal.version") == [(VERSION,)]


def test_a_step_that_fails_changes_nothing(
    older: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = STEPS[VERSION]
    monkeypatch.setitem(STEPS, VERSION, good + ";\nselect 1 / 0")
    database = Database(older.address)
    with pytest.raises(Exception, match="division by zero"):
        list(database.upgrade())
    database.close()
    assert execute(older, "select version from epochal.version") == [(VERSION - 1,)]
    monkeypatch.setitem(STEPS, VERSION, good)
    assert main(["hub", "upgrade", "--catalog", older.address]) == 0
    older.hub()


def test_newer_tables_are_refused(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.hub()
    execute(cluster, f"update epochal.version set version = {VERSION + 1}")
    for command in (["hub", "upgrade"], ["hub", "rebuild", "--bucket", cluster.bucket]):
        assert main([*command, "--catalog", cluster.address]) == 2
        assert f"the version {VERSION + 1}" in (error := capsys.readouterr().err)
        assert "pip install -U epochal" in error
