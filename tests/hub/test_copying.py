"""A hub moves from its folder to a cluster and back: everything, in its order, each thing once."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.cli.main import main
from epochal.hub.documents import FolderDocuments
from epochal.hub.ledger import Ledger, Links, only_hub
from epochal.hub.opening import open_hub
from epochal.journal.boards import Board
from epochal.journal.layout import RunFolder, read_json
from epochal.journal.line import decode
from epochal.journal.segments.read import Segment
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from epochal.store.store import tag_edit
from tests.doubles.cluster import STEM, Cluster, lines
from tests.hub.hub_process import HubProcess

pytestmark = pytest.mark.slow


def fill(root: Path, *, runs: int = 3, steps: int = 50) -> str:
    """Fill the folder of a hub; a token of it."""
    for number in range(runs):
        training = epochal.init("p", f"run-{number}", dir=root, companion=False, console=False)
        for step in range(steps):
            training.log(
                {"loss": float("nan") if step == 7 else step + 0.5, "n": 2**60 + step}, step=step
            )
        training.log_file(__file__)
        training.finish()
    with open_hub(str(root)) as (ledger, store):
        run = store.run("run-0")
        run.relabel(tag_edit(run, add=["good"]))
        store.remove(store.run("run-1"))
        store.boards.save("p", Board("losses", query="loss < 1"), None)
        token = ledger.add_token("sender", "write", ["p"])
        ledger.note("somebody", "did something")
        Links(ledger.documents).make(["a"], until=time.time() + 100)
    assert main(["manage", "pack", "run-2", "--dir", str(root)]) == 0
    return token


def records(folder: RunFolder) -> dict[str, list[Any]]:
    found = {
        name.stem: [decode(line) for line in folder.part_path(name).read_bytes().splitlines()]
        for name in folder.parts()
    }
    for name in folder.sealed_parts():
        with Segment(folder.sealed_path(name)) as segment:
            found[name.stem] = [record for _, record in segment.records()]
    return found


def content(root: Path) -> dict[str, Any]:
    """All that a hub keeps in a folder, by what it is."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("run.json")):
        folder, name = RunFolder(path.parent), str(path.parent.relative_to(root))
        found[name] = [
            read_json(path),
            read_json(folder.labels) if folder.labels.exists() else {},
            records(folder),
            {blob.name: blob.read_bytes() for blob in folder.blobs.iterdir()},
        ]
    with contextlib.closing(FolderDocuments(root)) as documents:
        found |= {kind: documents.all(kind) for kind in documents.kinds()}
    with open_hub(str(root)) as (_, store):
        found["boards"] = [(stored.project, stored.board) for stored in store.boards.list()]
    return found


def addresses(cluster: Cluster) -> list[str]:
    return ["--catalog", cluster.address, "--bucket", cluster.bucket]


def num_rows(runs: ClusterRuns, table: str) -> int:
    def count(cursor: Any) -> int:
        row = cursor.execute(f"select count(*) from epochal.{table}").fetchone()
        return 0 if row is None else int(row[0])

    return runs.database.run(count)


def test_everything_moves_to_a_cluster_and_back(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root, back = tmp_path / "hub", tmp_path / "back"
    token = fill(root)
    before = content(root)
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 0
    printed = capsys.readouterr().out
    assert "3 runs with " in printed
    assert "are the same on both sides" in printed
    runs = cluster.hub()
    blocks = num_rows(runs, "lines")
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 0  # nothing is doubled
    assert "The trash has had 1 run already." in capsys.readouterr().out
    assert num_rows(runs, "lines") == blocks
    assert content(root) == before

    sealer = Sealer(runs, SealRule(settled_s=0.0, idle_s=0.0))
    while sealer.seal_next():
        pass
    assert main(["hub", "pull", str(back), *addresses(cluster)]) == 0, capsys.readouterr().err
    assert main(["hub", "pull", str(back), *addresses(cluster)]) == 0
    assert content(back) == before
    with open_hub(str(back)) as (_, store):
        assert [run.name for run in store.trash.runs()] == ["run-1"]
    hub = HubProcess(back)
    try:
        rows = hub.client(token).get_json("/api/runs")["rows"]
        assert {row["name"]: row["tags"] for row in rows} == {"run-0": ["good"], "run-2": []}
    finally:
        hub.stop()


def test_a_migration_that_was_killed_goes_on_and_doubles_nothing(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "hub"
    fill(root, runs=24, steps=200)
    before = content(root)
    command = [sys.executable, "-m", "epochal", "hub", "migrate", str(root), *addresses(cluster)]
    hub = cluster.hub()
    for table, least in (("runs", 1), ("lines", 5), ("blobs", 12), ("runs", 20)):
        process = subprocess.Popen(command, env=os.environ.copy(), stdout=subprocess.DEVNULL)
        while num_rows(hub, table) < least and process.poll() is None:
            pass
        process.kill()
        process.wait()
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 0, capsys.readouterr().err
    assert main(["hub", "pull", str(tmp_path / "back"), *addresses(cluster)]) == 0
    assert content(tmp_path / "back") == before


def test_what_differs_is_named_and_stays_as_it_is(
    cluster: Cluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "hub"
    fill(root)
    run_id = read_json(root / "p" / "run-0" / "run.json")["id"]
    inbox = cluster.inbox(cluster.hub())
    inbox.register(run_id, {"id": run_id, "name": "run-0", "project": "p"})
    inbox.append(run_id, STEM, first=0, lines=lines(0, 10))
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 1
    assert f"p/run-0: {STEM} is another one there" in capsys.readouterr().err
    assert inbox.lines(run_id, STEM, first=0).startswith(lines(0, 10))
    shutil.copytree(root / "p" / "run-0", root / "p" / "copy")
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 1
    assert "has the same id, so this is left out" in capsys.readouterr().err
    with only_hub(root):
        assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 2
    assert "another hub is running over" in capsys.readouterr().err


def test_single_runs_are_pulled_without_the_rest(cluster: Cluster, tmp_path: Path) -> None:
    root, back = tmp_path / "hub", tmp_path / "back"
    fill(root)
    assert main(["hub", "migrate", str(root), *addresses(cluster)]) == 0
    assert main(["hub", "pull", str(back), "p/run-2", *addresses(cluster)]) == 0
    assert [path.name for path in (back / "p").iterdir()] == ["run-2"]
    with contextlib.closing(Ledger(back)) as ledger:
        assert not ledger.tokens()
