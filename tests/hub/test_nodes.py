"""Nodes without a shared disk: each sends what it has, and the hub has one run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import epochal
from epochal.hub.folder_inbox import FolderInbox
from epochal.journal.layout import RunFolder
from epochal.shipping.worker import NodeShipper, ship_now
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import wait_until

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow

RANK = """
import pathlib, sys, time
import epochal
from epochal.journal import ranks
ranks.find.__kwdefaults__["wait_s"] = 0.0  # a shared disk would have it by now
run = epochal.init("p", "many", dir=sys.argv[1], console=False, companion=True)
for step in range(30):
    run.log({"loss": float(step)}, step=step)
for _ in range(6000):  # five minutes at most
    if not sys.argv[2:] or pathlib.Path(sys.argv[2]).exists():
        break
    time.sleep(0.05)
run.finish()
"""


def start_rank(
    rank: int, folder: Path, hub: HubProcess, *, until: Path | None = None
) -> subprocess.Popen[bytes]:
    environ = {
        **os.environ,
        "EPOCHAL_HUB": hub.url,
        "EPOCHAL_HUB_TOKEN": hub.token,
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "GROUP_RANK": str(rank),
        "TORCHELASTIC_RUN_ID": "job-7",
        "EPOCHAL_GRACE": "120",
    }
    arguments = [str(folder)] if until is None else [str(folder), str(until)]
    return subprocess.Popen([sys.executable, "-c", RANK, *arguments], env=environ)


def test_ranks_of_another_node_are_in_the_run_of_rank_0(hub: HubProcess, tmp_path: Path) -> None:
    other = start_rank(1, tmp_path / "node1", hub)  # it waits for rank 0 to be there
    main = start_rank(0, tmp_path / "node0", hub)
    assert main.wait(120) == other.wait(120) == 0

    def ranks() -> tuple[int, ...]:
        if not (hub.root / "p" / "many").is_dir():
            return ()
        metric = epochal.open(hub.root).run("many").view.metric("loss")
        return () if metric is None else metric.ranks

    wait_until(lambda: ranks() == (0, 1))
    wait_until(lambda: len(epochal.open(hub.root).run("many").series("loss", rank=1)) == 30)
    assert len(epochal.open(hub.root).runs()) == 1


def test_the_telemetry_of_another_node_is_on_the_hub(hub: HubProcess, tmp_path: Path) -> None:
    end = tmp_path / "end"
    other = start_rank(1, tmp_path / "node1", hub, until=end)
    main = start_rank(0, tmp_path / "node0", hub, until=end)
    live = hub.root / "p" / "many" / "live"
    wait_until(lambda: live.is_dir() and any(one.stem.endswith("-1") for one in live.iterdir()))
    end.touch()
    assert main.wait(120) == other.wait(120) == 0

    def ranks() -> tuple[int, ...]:
        metric = epochal.open(hub.root).run("many").view.metric("system/ram_used")
        return () if metric is None else metric.ranks

    wait_until(lambda: ranks() == (0, 1))
    (part,) = (hub.root / "p" / "many" / "journal").glob("telemetry-*-1.0001.0000.jsonl")
    assert b"hub-failed" not in part.read_bytes()  # waiting for rank 0 is no fault
    # The companion of that node has sent its last record as well.
    wait_until(lambda: b'"log":"finish"' in part.read_bytes())


def test_the_id_of_an_earlier_launch_leads_to_no_run(tmp_path: Path) -> None:
    inbox = FolderInbox(tmp_path)
    identity = {"id": "abc", "project": "p", "name": "n", "launch_id": "job-7"}
    inbox.register("abc", identity)
    assert inbox.launched("job-7", "p", age_s=5) == "abc"
    run_json = tmp_path / "p" / "n" / "run.json"
    before = run_json.stat().st_mtime - 86_400
    os.utime(run_json, (before, before))
    for launch, project in (("job-7", "p"), ("job-7", "q"), ("job-8", "p")):
        with pytest.raises(LookupError, match=launch):
            inbox.launched(launch, project, age_s=5)


def test_parts_go_to_the_attempt_that_rank_0_is_in(hub: HubProcess, tmp_path: Path) -> None:
    for _ in range(2):
        run = epochal.init(
            "p", "r", dir=tmp_path / "a", companion=False, console=False, resume="allow"
        )
        run.log({"loss": 1.0}, step=run.step + 1)
        run.finish()
    identity = RunFolder(run.dir).identity
    identity.write_text(identity.read_text().replace('"launch_id":null', '"launch_id":"job-7"'))
    ship_now(RunFolder(run.dir), hub.client())
    aside = RunFolder(tmp_path / "b" / ".launch" / "job-7")
    aside.journal.mkdir(parents=True)
    header = '{"log":"run","v":1,"id":"job-7","project":"p","name":"r","rank":1,"attempt":1}\n'
    (aside.journal / "rank-0001.0001.0000.jsonl").write_text(
        header + '{"log":"metrics","step":1,"m":{"loss":7.0}}\n'
    )
    shipper = NodeShipper(aside, hub.client())
    while not shipper.ship():
        pass
    assert (hub.root / "p" / "r" / "journal" / "rank-0001.0002.0000.jsonl").is_file()
