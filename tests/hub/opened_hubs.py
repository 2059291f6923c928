"""A hub over a folder and one over a database and a bucket, for what both do alike."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epochal.hub.limits import Limits
from epochal.hub.opening import OpenedHub, open_folder_hub, open_shared_hub
from epochal.hub.retention import set_rules
from epochal.journal.layout import RunFolder
from tests.servers.postgres import new_database

STEM = "loop.0001.0000"
# Opens the hub; what it prints is appended to a list.
Open = Callable[..., OpenedHub]


def lines(first: int, last: int) -> bytes:
    """So many lines of 50 bytes each."""
    return b"".join(b'{"log":"metrics","t":1,"step":%018d}\n' % step for step in range(first, last))


@pytest.fixture(params=["folder", "shared"])
def open_hub(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))
    with contextlib.ExitStack() as stack:
        if request.param == "shared":
            address = new_database(request.getfixturevalue("postgres"))

        def open_one(
            limits: Limits | None = None, told: list[str] | None = None, rules: str = ""
        ) -> OpenedHub:
            limits, tell = limits or Limits(), ([] if told is None else told).append
            root = tmp_path / "hub"
            root.mkdir(exist_ok=True)
            (root / "epochal.toml").write_text(rules)
            if request.param == "folder":
                return stack.enter_context(open_folder_hub(root, limits=limits, tell=tell))
            bucket = str(tmp_path / "bucket")
            hub = stack.enter_context(open_shared_hub(address, bucket, limits=limits, tell=tell))
            if rules:
                set_rules(hub.ledger, root / "epochal.toml", "somebody")
            return hub

        yield open_one


def register(hub: OpenedHub, run_id: str, *, writer: str = "alice", project: str = "p") -> str:
    """Register a run as a sender with this token does."""
    hub.ledger.claim(run_id, project, writer)
    identity = {"id": run_id, "name": run_id, "project": project, "created": 1.0}
    hub.runs.inbox.register(run_id, identity, writer=writer)
    return run_id


def sealed(folder: Path, data: bytes) -> bytes:
    """The segment of a part with these lines."""
    from epochal.journal.layout import PartName
    from epochal.journal.segments.seal import seal_part

    run = RunFolder(folder)
    run.journal.mkdir(parents=True, exist_ok=True)
    part = run.part_path(PartName("loop", 1, 0))
    part.write_bytes(data)
    with seal_part(run, PartName("loop", 1, 0), into=run.segments) as segment:
        return segment.path.read_bytes()
