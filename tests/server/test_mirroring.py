"""Files of runs are handed out for copies, and no other files."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from epochal.shipping.protocol import RunState
from epochal.store.row import RunPage
from tests.server.live import Server, serving
from tests.store.journals import Journal


def test_a_run_that_is_being_written_is_offered_up_to_its_last_whole_line(
    server: Server, tmp_path: Path
) -> None:
    journal = Journal(tmp_path).metrics(1, a=1).metrics(2, a=2)
    whole = journal.path().read_bytes()
    with journal.path().open("ab") as file:
        file.write(b'{"log":"metr')
    state = msgspec.json.decode(server.ask("/api/hub/runs/id-x").body, type=RunState)
    assert state.parts["loop.0001.0000"].lines == 3
    path = "/api/hub/runs/id-x/parts/loop.0001.0000"
    assert server.ask(path).body == whole
    assert server.ask(path, first=2).body == whole.splitlines(keepends=True)[2]
    assert server.ask(path, first=3).body == b""
    assert journal.path().read_bytes() == whole + b'{"log":"metr'


@pytest.mark.parametrize(
    "path",
    [
        "parts/..%2F..%2Frun",
        "parts/loop",
        "blobs/..%2Frun.json",
        "blobs/.hidden",
        "segments/run.json",
        "journal/loop.0001.0000.jsonl",
        "live/..%2Frun.json",
        "blobs/link.png",
        "parts/rank-0001.0001.0000",
    ],
)
def test_only_files_of_the_run_are_handed_out(server: Server, tmp_path: Path, path: str) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    secret = tmp_path.parent / f"{tmp_path.name}-secret"
    secret.write_text("secret\n")
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "link.png").symlink_to(secret)
    journal.path(writer="rank-0001").symlink_to(secret)
    answer = server.ask(f"/api/hub/runs/id-x/{path}")
    assert answer.status in (400, 404, 500, 503)
    assert b"secret\n" not in answer.body


def test_uncommitted_changes_and_unnamed_files_stay_on_the_machine(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path).add({"log": "file", "step": 1, "name": "a", "file": "a.txt"})
    journal.folder.blobs.mkdir()
    for name in ("a.txt", "uncommitted.patch", "uncommitted-ab.patch", "unnamed.txt"):
        (journal.folder.blobs / name).write_text("text")

    def offered() -> list[str]:
        found = msgspec.json.decode(server.ask("/api/hub/runs/id-x").body, type=RunState).blobs
        for path in journal.folder.blobs.iterdir():
            status = server.ask(f"/api/hub/runs/id-x/blobs/{path.name}").status
            assert status == (200 if path.name in found else 404)
        return list(found)

    assert offered() == ["a.txt"]
    monkeypatch.setenv("EPOCHAL_HUB_PATCH", "true")
    assert offered() == ["a.txt", "uncommitted-ab.patch", "uncommitted.patch"]


def test_a_list_for_another_machine_needs_the_token(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1)
    with serving(tmp_path, token="a-long-token") as server:
        for path in ("/api/infos", "/api/hub/runs/id-x"):
            assert server.ask(path).status == 401
        answer = server.ask("/api/infos", headers={"Authorization": "Bearer a-long-token"})
        page = msgspec.msgpack.decode(answer.body, type=RunPage)
        assert [one.name for one in page.runs] == ["x"]


def test_a_run_in_another_trackers_files_is_listed_but_not_copied(
    server: Server, tmp_path: Path
) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "lines.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    page = msgspec.msgpack.decode(server.ask("/api/infos", fresh=1).body, type=RunPage)
    assert [one.name for one in page.runs] == ["lines"]
    answer = server.ask(f"/api/hub/runs/{page.runs[0].id}")
    assert (answer.status, "cannot be copied" in answer.json["error"]) == (400, True)
