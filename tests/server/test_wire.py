from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from epochal.server import wire
from tests.server.live import Server
from tests.store.journals import Journal
from tools.wire import EVENTS

ROOT = Path(__file__).resolve().parents[2]


def test_what_is_generated_from_the_types_is_fresh() -> None:
    tool = ROOT / "tools" / "wire.py"
    done = subprocess.run(
        [sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_page_s_types_leave_nothing_open() -> None:
    text = (ROOT / "web" / "src" / "wire.ts").read_text(encoding="utf-8")
    assert " any" not in text
    assert "name?: string | null;" in text


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/api/runs?config=1&summary=role:loss", wire.RunList),
        ("/api/runs/id-x", wire.RunDetail),
        ("/api/runs/id-x/log", wire.EntryList),
        ("/api/runs/id-x/marks", wire.MarkList),
        ("/api/runs/id-x/records", wire.RecordPage),
        ("/api/runs/nobody", wire.Problem),
        ("/healthz", wire.Health),
    ],
)
def test_answers_are_of_their_types(
    tmp_path: Path, server: Server, path: str, kind: type[msgspec.Struct]
) -> None:
    Journal(tmp_path).metrics(1, loss=float("nan")).epoch(1, loss=1.0).finish()
    msgspec.json.decode(server.ask(path).body, type=kind, strict=True)


def test_events_are_of_their_types(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    with server.listen(run="id-x", since="id-x:loop.1.0.0") as events:
        journal.epoch(1, loss=2.0).add({"log": "text", "step": 1, "name": "a", "text": "b"})
        for _, event in zip(range(4), events, strict=False):
            msgspec.convert(event.data, EVENTS[event.name])
