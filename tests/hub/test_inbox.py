"""What every inbox does with what it is sent, how often and in which order it comes."""

from __future__ import annotations

import contextlib
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from epochal.errors import FormatError, RunNotFoundError, UsageError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.inbox import ConflictError, Inbox, UnknownRunError
from epochal.journal.fold import RunMetrics
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.row import Mark, RunRow
from epochal.journal.segments.seal import seal_part
from epochal.journal.summaries import metrics_bytes, summary_bytes
from epochal.store.bucket import open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.runs import ClusterRuns
from tests.servers.postgres import new_database
from tests.servers.s3 import S3Server

STEM = "loop.0001.0000"
IDENTITY = {"id": "one", "name": "a", "project": "p"}
# Opens one more hub over the same runs.
Open = Callable[[], Inbox]


def line(ordinal: int) -> bytes:
    return b'{"log":"metrics","t":1,"step":%d}\n' % ordinal


def lines(first: int, last: int) -> bytes:
    return b"".join(line(ordinal) for ordinal in range(first, last))


@pytest.fixture(params=["folder", "cluster"])
def open_hub(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    if request.param == "folder":
        yield lambda: FolderInbox(tmp_path)
        return
    s3: S3Server = request.getfixturevalue("s3")
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3.make_bucket(f"b-{secrets.token_hex(4)}")
    address = new_database(request.getfixturevalue("postgres"))
    with contextlib.ExitStack() as stack:

        def open_one() -> Inbox:
            database = Database(address)
            database.prepare()
            inbox = ClusterInbox(
                ClusterRuns(database, open_bucket(f"{bucket}/runs")), collect_s=0.0
            )
            stack.callback(database.close)
            stack.callback(inbox.close)
            return inbox

        yield open_one


@pytest.fixture
def inbox(open_hub: Open) -> Inbox:
    inbox = open_hub()
    inbox.register("one", IDENTITY)
    return inbox


def all_lines(inbox: Inbox, run_id: str = "one", stem: str = STEM) -> bytes:
    found = b""
    while piece := inbox.lines(run_id, stem, first=found.count(b"\n")):
        found += piece
    return found


sends = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.booleans()), max_size=20)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sends)
def test_lines_are_stored_once_and_in_order(
    open_hub: Open, sent: list[tuple[int, int, bool]]
) -> None:
    run_id, hubs = secrets.token_hex(6), [open_hub(), open_hub()]
    hubs[0].register(run_id, {**IDENTITY, "id": run_id, "name": run_id})
    have = 0
    for first, count, is_other_hub in sent:
        inbox = hubs[is_other_hub]
        have = inbox.append(run_id, STEM, first=first, lines=lines(first, first + count))
        assert all_lines(inbox, run_id) == lines(0, have)
    if have:
        assert hubs[0].state(run_id).parts[STEM].lines == have


def test_lines_beyond_a_gap_wait(inbox: Inbox) -> None:
    assert inbox.append("one", STEM, first=0, lines=lines(0, 3)) == 3
    assert inbox.append("one", STEM, first=7, lines=lines(7, 9)) == 3
    assert inbox.append("one", STEM, first=2, lines=lines(2, 9)) == 9


def test_senders_do_not_hinder_each_other(inbox: Inbox) -> None:
    runs = [f"run{number}" for number in range(8)]
    for run_id in runs:
        inbox.register(run_id, {"id": run_id, "name": run_id, "project": "p"})

    def send(run_id: str) -> object:
        try:
            for first in range(0, 50, 10):
                have = inbox.append(run_id, STEM, first=first, lines=lines(first, first + 10))
        except UnknownRunError:
            return "unknown"
        return have

    with ThreadPoolExecutor(9) as pool:
        answers = list(pool.map(send, [*runs, "never-registered"]))
    assert answers == [50] * 8 + ["unknown"]
    assert all(all_lines(inbox, run_id) == lines(0, 50) for run_id in runs)


def test_a_line_without_an_end_is_refused(inbox: Inbox) -> None:
    with pytest.raises(FormatError, match="send whole lines"):
        inbox.append("one", STEM, first=0, lines=b'{"log":')
    with pytest.raises(UsageError, match="not the name of a part"):
        inbox.append("one", "../../etc/passwd", first=0, lines=line(0))


def put(inbox: Inbox, kind: str, name: str, data: bytes, *, piece: int = 1 << 20) -> int:
    sha256, have = hashlib.sha256(data).hexdigest(), 0
    while True:
        chunk = data[have : have + piece]
        have = inbox.put_file(
            "one",
            kind,  # type: ignore[arg-type]
            name,
            chunk,
            offset=have,
            size=len(data),
            sha256=sha256,
        )
        if have >= len(data):
            return have


def test_a_file_appears_when_it_is_whole(open_hub: Open, inbox: Inbox) -> None:
    data = bytes(range(200))
    sent = {"size": 200, "sha256": hashlib.sha256(data).hexdigest()}
    assert inbox.put_file("one", "blobs", "x.bin", data[:90], offset=0, **sent) == 90  # type: ignore[arg-type]
    assert inbox.state("one").blobs == {}
    # To another hub, out of order, and again: the answer says where to go on.
    other = open_hub()
    assert other.put_file("one", "blobs", "x.bin", data[:50], offset=0, **sent) == 90  # type: ignore[arg-type]
    assert other.put_file("one", "blobs", "x.bin", data[90:], offset=90, **sent) == 200  # type: ignore[arg-type]
    assert inbox.state("one").blobs == {"x.bin": 200}
    assert inbox.file("one", "blobs", "x.bin", offset=0) == data
    assert inbox.file("one", "blobs", "x.bin", offset=150) == data[150:]
    assert put(inbox, "blobs", "x.bin", data) == 200
    with pytest.raises(ConflictError, match="other contents"):
        put(inbox, "blobs", "x.bin", b"other")


@pytest.mark.parametrize("piece", [4, 2])
def test_a_file_with_another_digest_is_not_taken(inbox: Inbox, piece: int) -> None:
    have = 0
    for _ in range(4 // piece):
        have = inbox.put_file(
            "one", "blobs", "x.bin", b"data"[:piece], offset=have, size=4, sha256="0" * 64
        )
    assert have == 0
    assert inbox.state("one").blobs == {}
    assert put(inbox, "blobs", "x.bin", b"good") == 4


@pytest.mark.parametrize(
    ("kind", "name", "sha256"),
    [
        ("blobs", "../x", "0" * 64),
        ("blobs", "x", "../../x"),
        ("segments", "x", "0" * 64),
        ("segments", f"{STEM}\n.parquet", "0" * 64),
        ("segments", "loop.0001.00000.parquet", "0" * 64),
        ("segments", "loop.\u0660\u0660\u0660\u0661.0000.parquet", "0" * 64),
    ],
)
def test_no_text_of_a_request_is_a_path(inbox: Inbox, kind: str, name: str, sha256: str) -> None:
    with pytest.raises(UsageError):
        inbox.put_file("one", kind, name, b"x", offset=0, size=1, sha256=sha256)  # type: ignore[arg-type]
    if sha256 == "0" * 64:
        with pytest.raises(UsageError):
            inbox.file("one", kind, name, offset=0)  # type: ignore[arg-type]


def segment_of(folder: Path, text: bytes) -> bytes:
    run = RunFolder(folder)
    run.journal.mkdir(parents=True, exist_ok=True)
    part = PartName("loop", 1, 0)
    run.part_path(part).write_bytes(text)
    with seal_part(run, part, into=folder / "into") as segment:
        data = segment.path.read_bytes()
        segment.path.unlink()
        return data


def test_a_segment_replaces_the_lines_of_its_part(inbox: Inbox, tmp_path: Path) -> None:
    inbox.append("one", STEM, first=0, lines=lines(0, 30))
    with pytest.raises(ConflictError, match="20 records, and the hub has 30"):
        put(inbox, "segments", f"{STEM}.parquet", segment_of(tmp_path / "s", lines(0, 20)))
    with pytest.raises(FormatError, match=r"damaged|not a"):
        put(inbox, "segments", f"{STEM}.parquet", b"no segment")
    data = segment_of(tmp_path / "s", lines(0, 40))
    assert put(inbox, "segments", f"{STEM}.parquet", data, piece=1000) == len(data)
    state = inbox.state("one")
    assert (state.parts, state.segments[f"{STEM}.parquet"].lines) == ({}, 40)
    assert inbox.file("one", "segments", f"{STEM}.parquet", offset=0) == data
    have = inbox.append("one", STEM, first=40, lines=lines(40, 45))
    if isinstance(inbox, FolderInbox):  # its sender has to send another segment
        assert have == 40
    else:  # readers get the records of the segment as lines, and those that came after it
        assert (have, inbox.state("one").segments) == (45, {})
        assert [json.loads(one)["step"] for one in all_lines(inbox).splitlines()] == [*range(45)]


def test_readings_of_machines_are_replaced(inbox: Inbox) -> None:
    put(inbox, "live", "host.json", b'{"t":1}')
    put(inbox, "live", "host.json", b'{"t":22}')
    assert inbox.state("one").live == ["host.json"]
    assert inbox.file("one", "live", "host.json", offset=0) == b'{"t":22}'


def test_a_run_belongs_to_one_project(inbox: Inbox) -> None:
    with pytest.raises(ConflictError, match="belongs to the project 'p'"):
        inbox.register("one", {**IDENTITY, "project": "q"})
    with pytest.raises(UnknownRunError):
        inbox.state("two")
    assert (inbox.project_of("one"), inbox.project_of("two")) == ("p", None)


def test_runs_of_one_name_get_numbers(open_hub: Open) -> None:
    hubs = [open_hub(), open_hub()]

    def register(number: int) -> str:
        run_id = f"run{number}"
        state = hubs[number % 2].register(run_id, {"id": run_id, "name": "A b", "project": "P"})
        return f"{state.folder} {state.identity['name']}"

    if isinstance(hubs[0], FolderInbox):  # one hub at a time has a folder
        hubs[1] = hubs[0]
    with ThreadPoolExecutor(4) as pool:
        names = sorted(pool.map(register, range(4)))
    assert names == ["p/a-b A b", "p/a-b-2 A b-2", "p/a-b-3 A b-3", "p/a-b-4 A b-4"]


def test_who_a_run_is_may_change(inbox: Inbox) -> None:
    state = inbox.register("one", {**IDENTITY, "name": "other", "config": {"lr": 1}})
    assert state.identity == {**IDENTITY, "config": {"lr": 1}}


def test_labels_of_both_sides_are_merged(inbox: Inbox) -> None:
    changes: list[list[str]] = []
    assert inbox.put_labels("one", {"name": "x"}, {}, on_change=changes.append) == {"name": "x"}
    merged = inbox.put_labels("one", {"notes": "n"}, {}, on_change=changes.append)
    assert merged == {"name": "x", "notes": "n"}
    assert inbox.put_labels("one", merged, merged, on_change=changes.append) == merged
    assert changes == [["name"], ["notes"]]
    assert inbox.state("one").labels == merged


def test_the_run_of_a_launch_is_the_newest(inbox: Inbox) -> None:
    inbox.register("two", {"id": "two", "name": "b", "project": "p", "launch_id": "slurm-1"})
    assert inbox.launched("slurm-1", "p", age_s=1.0) == "two"
    with pytest.raises(UnknownRunError, match="no run of the launch"):
        inbox.launched("slurm-1", "q", age_s=1.0)
    with pytest.raises(UnknownRunError, match="no run of the launch"):
        inbox.launched("slurm-1", "p", age_s=time.time() - 4e9)
    assert inbox.launched("slurm-1", "p", age_s=1e18) == "two"


def test_what_is_not_here_is_an_error(inbox: Inbox) -> None:
    with pytest.raises((RunNotFoundError, UnknownRunError)):
        inbox.file("one", "blobs", "x.bin", offset=0)
    assert inbox.lines("one", STEM, first=0) == b""


def test_what_a_run_says_of_itself_is_taken_when_its_lines_are_here(inbox: Inbox) -> None:
    inbox.append("one", STEM, first=0, lines=lines(0, 3))
    marks = {STEM: Mark(0, 3, len(lines(0, 3)))}
    summary = summary_bytes(RunRow(id="one", name="a", project="p", step=2, positions=marks))
    metrics = metrics_bytes(RunMetrics(marks=marks, kinds=["metrics"]))
    for _ in range(2):
        assert inbox.put_summary("one", summary)
        assert inbox.put_metrics("one", metrics)
    inbox.register("two", {**IDENTITY, "id": "two"})
    with pytest.raises(UsageError, match="of the run 'one', not of 'two'"):
        inbox.put_summary("two", summary)
    with pytest.raises(FormatError):
        inbox.put_metrics("one", b"[]")
    with pytest.raises(UnknownRunError):
        inbox.put_summary("three", summary.replace(b'"one"', b'"three"'))
    with pytest.raises(UnknownRunError):
        inbox.put_metrics("three", metrics)


def test_an_inbox_that_can_store_something_is_ready(inbox: Inbox) -> None:
    assert inbox.readiness().missing == ()
