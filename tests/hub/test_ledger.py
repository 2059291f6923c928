"""What a hub knows beside the runs, which a command beside it changes too."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.hub.documents import Documents, FolderDocuments
from epochal.hub.ledger import Ledger, Links
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from tests.servers.postgres import new_database

Two = tuple[Ledger, Ledger]
Open = Callable[[], Documents]
# What another process changed is read again after this time.
_SOON_S = 1.1


@pytest.fixture(params=["folder", "cluster"])
def open_documents(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Open]:
    address = ""
    if request.param == "cluster":
        address = new_database(request.getfixturevalue("postgres"))
    with contextlib.ExitStack() as stack:

        def open_one() -> Documents:
            if not address:
                return stack.enter_context(contextlib.closing(FolderDocuments(tmp_path)))
            database = stack.enter_context(contextlib.closing(Database(address)))
            database.prepare()
            return ClusterDocuments(database)

        yield open_one


@pytest.fixture
def documents(open_documents: Open) -> Documents:
    return open_documents()


@pytest.fixture
def two(open_documents: Open) -> Two:
    """The ledgers of two hubs, or of a hub and of a command beside it."""
    return Ledger(open_documents()), Ledger(open_documents())


def test_documents_are_listed_by_key_the_last_ones_first(documents: Documents) -> None:
    for key in ("b/1", "a/2", "a/1", "a"):
        documents.put("one", key, {"key": key})
    documents.put("other", "a/3", {})
    documents.put("one", "a/1", {"key": "again"})
    documents.put("one", "b/1", None)
    assert documents.get("one", "a/1") == {"key": "again"}
    assert documents.get("one", "b/1") is None
    assert documents.get("two", "a") is None
    assert [key for key, _ in documents.all("one")] == ["a/2", "a/1", "a"]
    assert documents.all("one", prefix="a/", limit=1) == [("a/2", {"key": "a/2"})]
    assert documents.all("none") == []


def test_a_token_is_valid_until_another_process_revokes_it(two: Two) -> None:
    here, there = two
    token = here.add_token("cluster", "write", ["q", "p"])
    assert there.principal("ep_other") is None
    for ledger in two:
        found = ledger.principal(token)
        assert found is not None
        assert (found.name, found.role, found.projects) == ("cluster", "write", frozenset("pq"))
    with pytest.raises(UsageError, match="revoke it first"):
        there.add_token("cluster", "write")
    there.revoke_token("cluster")
    assert there.principal(token) is None
    time.sleep(_SOON_S)
    assert here.principal(token) is None
    with pytest.raises(UsageError, match="no valid token"):
        here.revoke_token("cluster")
    again = here.add_token("cluster", "read")
    assert here.principal(again) is not None
    assert [(row.name, row.role, row.revoked) for row in there.tokens()] == [
        ("cluster", "read", None)
    ]


def test_a_removed_run_is_known_to_another_process(two: Two) -> None:
    here, there = two
    assert here.removed_at("a") is None
    here.note_removed("a", "p")
    removed = there.removed_at("a")
    assert removed is not None
    assert abs(time.time() - removed) < 60
    there.forget_removed("a")
    assert here.removed_at("a") is None


def test_a_request_is_for_the_companion_that_takes_it_first(two: Two) -> None:
    here, there = two
    first = here.add_request("run", "suspend", "alice", now=1000.0)
    second = there.add_request("run", "stop", "bob", now=1001.0)
    here.add_request("run-2", "stop", "bob", now=1001.0)
    time.sleep(_SOON_S)
    assert not there.end_request("run", first.id, "early", is_done=True)
    taken = there.take_requests("run", taker="one", now=1002.0, since=900.0)
    assert [row.id for row in taken] == [first.id, second.id]
    assert here.take_requests("run", taker="two", now=1003.0, since=900.0) == []
    assert here.take_requests("run", taker="one", now=1003.0, since=900.0) == taken
    assert here.end_request("run", first.id, "suspended", is_done=True)
    assert not there.end_request("run", first.id, "again", is_done=False)
    assert not there.end_request("run-2", second.id, "of another run", is_done=False)
    left = there.take_requests("run", taker="one", now=1004.0, since=900.0)
    assert [row.id for row in left] == [second.id]
    assert here.take_requests("run", taker="one", now=2000.0, since=1500.0) == []
    assert [(row.action, row.outcome, row.is_done) for row in there.requests("run")] == [
        ("stop", None, False),
        ("suspend", "suspended", True),
    ]


def test_without_a_name_a_request_is_taken_once(two: Two) -> None:
    two[0].add_request("run", "stop", "alice", now=1000.0)
    assert len(two[0].take_requests("run", now=1001.0, since=900.0)) == 1
    assert two[0].take_requests("run", now=1002.0, since=900.0) == []


def test_a_hub_knows_which_companions_listen(two: Two) -> None:
    hub, _ = two
    hub.hear("run")
    assert hub.hears("run")
    assert not hub.hears("other")


def test_the_audit_log_is_one_by_time(two: Two) -> None:
    here, there = two
    assert here.audit() == []
    for number in range(3):
        here.note("alice", f"here {number}", run="a")
        there.note("bob", f"there {number}", details="why")
    lines = here.audit()
    assert [line["what"] for line in lines] == [
        f"{place} {number}" for number in (2, 1, 0) for place in ("there", "here")
    ]
    assert (lines[0]["run"], lines[0]["details"]) == (None, "why")
    assert [line["t"] for line in lines] == sorted((line["t"] for line in lines), reverse=True)
    assert there.audit(limit=2) == lines[:2]


def test_a_link_is_shown_until_another_process_revokes_it(documents: Documents) -> None:
    here, there = Links(documents), Links(documents)
    link = here.make(["a", "b"], until=time.time() + 600)
    found = there.principal(link)
    assert found is not None
    assert found.runs == frozenset("ab")
    here.revoke_all()
    assert here.principal(link) is None
    time.sleep(_SOON_S)
    assert there.principal(link) is None
    assert there.refused(link) is not None


def test_of_several_who_swap_a_document_one_succeeds(documents: Documents) -> None:
    for before, after in ((None, {"a": 1.5}), ({"a": 1.5}, {"a": 2})):
        assert documents.swap("one", "key", before, after)
        assert not documents.swap("one", "key", before, {"a": 3})
        assert documents.get("one", "key") == after


def test_hubs_that_start_at_once_make_links_with_one_key(open_documents: Open) -> None:
    links = [Links(open_documents()) for _ in range(6)]
    made: list[str] = []
    barrier = threading.Barrier(len(links))

    def make(own: Links) -> None:
        barrier.wait()
        made.append(own.make(["a"], until=time.time() + 600))

    threads = [threading.Thread(target=make, args=(own,)) for own in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) <= 2  # the second may change in between
    assert all(own.principal(link) is not None for own in links for link in made)
