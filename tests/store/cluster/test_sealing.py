"""Lines of the database become objects of the bucket, whichever hub does it, and none is lost."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.segments.read import Segment
from epochal.journal.segments.seal import seal_part
from epochal.shipping.fetching import mirror_run
from epochal.shipping.worker import ship_now
from epochal.store.bucket import BucketError
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
from tests.doubles.cluster import FINISH, STEM, Cluster, age, lines, register
from tests.doubles.hub_in_process import HubInProcess
from tests.store.journals import Journal

NOW = SealRule(settled_s=0.0, idle_s=0.0, oldest_s=0.0)


def sealed(runs: ClusterRuns, run_id: str = "one", stem: str = STEM) -> int:
    """How many lines of a part are in an object."""
    text = "select sealed from epochal.parts where run = %s and stem = %s"
    row = runs.database.run(lambda cursor: cursor.execute(text, (run_id, stem)).fetchone())
    return 0 if row is None else row[0]


def steps(runs: ClusterRuns, run_id: str = "one", stem: str = STEM) -> list[int | None]:
    """The steps of all lines of a part as readers get them; None for a line that is no record."""
    found: list[int | None] = []
    while piece := runs.lines(run_id, stem, first=len(found)):
        for line in piece.splitlines():
            try:
                found.append(json.loads(line)["step"])
            except ValueError:
                found.append(None)
    return found


def test_a_part_is_sealed_with_all_lines_that_came(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    sealer = Sealer(runs, NOW)
    inbox.append("one", STEM, first=0, lines=lines(0, 30))
    assert sealer.seal_next()
    assert not sealer.seal_next()
    inbox.append("one", STEM, first=30, lines=lines(30, 50))
    assert sealed(runs) == 30
    assert steps(runs) == [*range(50)]
    assert sealer.seal_next()
    assert sealed(runs) == 50
    mirror_run(runs, "one", RunFolder(tmp_path))
    with Segment(tmp_path / "segments" / f"{STEM}.parquet") as segment:
        assert [record["step"] for _, record in segment.records()] == [*range(50)]


def test_a_part_is_sealed_at_once_when_the_bucket_is_back(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 30))
    problems = [BucketError("the bucket is away.")]

    def fail(_key: str) -> None:
        if problems:
            raise problems.pop()

    sealer = Sealer(runs, NOW, on_object=fail)
    with pytest.raises(BucketError):
        sealer.seal_next()
    assert not Sealer(runs, NOW).seal_next()  # another hub waits for the end of the lease
    assert sealer.seal_next()
    assert sealed(runs) == 30


def test_its_sender_goes_on_behind_a_part_that_was_sealed(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 30))
    before = runs.state("one").parts[STEM]
    Sealer(runs, NOW).seal_next()
    state = runs.state("one")
    assert state.segments[f"{STEM}.parquet"].lines == 30
    assert state.parts[STEM] == before  # what it compares its own lines with


def test_a_run_that_goes_on_is_shipped_whole(cluster: Cluster, tmp_path: Path) -> None:
    runs = cluster.hub()
    journal = Journal(tmp_path / "runs")
    with contextlib.closing(HubInProcess(tmp_path / "hub", inbox=cluster.inbox(runs))) as client:
        for step in range(6):
            journal.metrics(step, loss=1.0)
            assert ship_now(journal.folder, client).lines == (1 if step else 2)  # the header
            assert Sealer(runs, NOW).seal_next()
        (run,) = runs.news(None, dict).changed
        seal_part(journal.finish().folder, PartName("loop", 1, 0))
        assert ship_now(journal.folder, client).files == 1
    state = runs.state(run.id)
    assert state.parts == {}
    assert state.segments[f"{STEM}.parquet"].lines == 8  # its own, with the header and the end


@pytest.mark.parametrize("bad", [b"no record\n", b"\n", b'{"a": 1}\n'])
def test_lines_that_are_no_records_keep_their_number(cluster: Cluster, bad: bytes) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 3) + bad + lines(3, 5))
    Sealer(runs, NOW).seal_next()
    assert steps(runs) == [0, 1, 2, 3, 4, None]
    inbox.append("one", STEM, first=6, lines=lines(5, 7))
    Sealer(runs, NOW).seal_next()
    assert (sealed(runs), steps(runs)) == (8, [0, 1, 2, 3, 4, 5, 6, None])


def test_a_part_is_due_when_it_is_complete_idle_or_old(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    for run_id in ("going", "ended", "next", "slow"):
        register(inbox, run_id)
    for run_id in ("going", "ended", "next", "slow"):
        inbox.append(run_id, STEM, first=0, lines=lines(0, 3))
        inbox.append(run_id, "telemetry-a.0001.0000", first=0, lines=lines(0, 3))
    sealer = Sealer(runs)
    inbox.append("ended", STEM, first=3, lines=FINISH)
    inbox.append("next", "loop.0001.0001", first=0, lines=lines(3, 4))
    assert not sealer.seal_next()  # more may be on its way
    age(runs, 60.0)
    while sealer.seal_next():
        pass
    state = runs.state
    both = {f"{STEM}.parquet", "telemetry-a.0001.0000.parquet"}
    assert state("ended").segments.keys() == both
    assert state("next").segments.keys() == {f"{STEM}.parquet"}
    assert (state("going").segments, state("slow").segments) == ({}, {})
    age(runs, 5 * 3600.0)
    inbox.append("slow", STEM, first=3, lines=lines(3, 4))
    while sealer.seal_next():
        pass
    assert state("going").segments.keys() == both
    assert sealed(runs, "slow") == 0
    age(runs, 5 * 3600.0)
    inbox.append("slow", STEM, first=4, lines=lines(4, 5))
    while sealer.seal_next():
        pass
    assert sealed(runs, "slow") == 5


def test_hubs_share_the_work(cluster: Cluster) -> None:
    hubs = [cluster.hub() for _ in range(3)]
    inbox = cluster.inbox(hubs[0])
    for number in range(12):
        register(inbox, f"run{number}")
        inbox.append(f"run{number}", STEM, first=0, lines=lines(0, 20))
    keys: list[str] = []

    def work(runs: ClusterRuns) -> None:
        while Sealer(runs, NOW, on_object=keys.append).seal_next():
            pass

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, hubs))
    assert len(keys) == len(set(keys)) == 12
    assert all(steps(hubs[1], f"run{number}") == [*range(20)] for number in range(12))


def test_a_hub_that_was_too_slow_changes_nothing(cluster: Cluster) -> None:
    runs, other = cluster.hub(), cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))

    def overtake(_key: str) -> None:
        age(other, 700.0)
        inbox.append("one", STEM, first=20, lines=lines(20, 25))
        assert Sealer(other, NOW).seal_next()

    assert Sealer(runs, NOW, on_object=overtake).seal_next()
    assert (sealed(runs), steps(runs)) == (25, [*range(25)])


def test_senders_append_while_a_part_is_sealed(cluster: Cluster) -> None:
    hubs = [cluster.hub(), cluster.hub()]
    inboxes = [cluster.inbox(runs) for runs in hubs]
    register(inboxes[0])
    is_sent = threading.Event()

    def send(inbox: ClusterInbox) -> None:
        have = 0
        while have < 300:
            have = inbox.append("one", STEM, first=have, lines=lines(have, min(have + 7, 300)))
        is_sent.set()

    def seal(runs: ClusterRuns) -> None:
        sealer = Sealer(runs, NOW)
        while not is_sent.is_set() or sealer.seal_next():
            sealer.seal_next()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda work: work(), [
            *[lambda inbox=inbox: send(inbox) for inbox in inboxes],
            *[lambda runs=runs: seal(runs) for runs in hubs],
        ]))  # fmt: skip
    while Sealer(hubs[0], NOW).seal_next():
        pass
    assert (sealed(hubs[0]), steps(hubs[0])) == (300, [*range(300)])


_KILLED = """
import os, signal, sys
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import Sealer, SealRule
runs = ClusterRuns(Database(sys.argv[1]), open_bucket(sys.argv[2]))
kill = lambda key: os.kill(os.getpid(), signal.SIGKILL)
Sealer(runs, SealRule(0.0, 0.0, 0.0), on_object=kill).seal_next()
"""


def test_another_hub_completes_what_a_killed_one_began(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    register(inbox)
    inbox.append("one", STEM, first=0, lines=lines(0, 20))
    command = [sys.executable, "-c", _KILLED, cluster.address, cluster.bucket]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    (left,) = runs.bucket.list("p/one/segments/")
    assert (sealed(runs), steps(runs)) == (0, [*range(20)])
    assert not Sealer(runs, NOW).seal_next()  # it might still be alive
    age(runs, 700.0)
    assert Sealer(runs, NOW).seal_next()
    assert (sealed(runs), steps(runs)) == (20, [*range(20)])
    assert [stored.key for stored in runs.bucket.list("p/one/segments/")] == [left.key]


def test_a_part_that_cannot_be_sealed_does_not_hinder_others(cluster: Cluster) -> None:
    runs = cluster.hub()
    inbox = cluster.inbox(runs)
    for run_id in ("newer", "other"):
        register(inbox, run_id)
    inbox.append("newer", STEM, first=0, lines=b'{"log":"run","t":1,"v":99}\n')
    inbox.append("other", STEM, first=0, lines=lines(0, 3))
    sealer = Sealer(runs, NOW)
    with pytest.raises(FormatError, match="newer Epochal"):
        sealer.seal_next()
    assert sealer.seal_next()
    assert (sealed(runs, "newer"), sealed(runs, "other")) == (0, 3)
