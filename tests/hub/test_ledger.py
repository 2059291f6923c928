"""The ledger of a hub while it is being written."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path

from epochal.hub.ledger import Ledger

WAIT_S = 60.0


def test_tokens_are_known_while_a_change_waits_for_the_disk(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        token = ledger.add_token("load", "write")
        found: list[str] = []

        def look() -> None:
            principal = ledger.principal(token)
            found.append("" if principal is None else principal.name)

        with ledger._lock, ledger._transaction():
            looking = threading.Thread(target=look, daemon=True)
            looking.start()
            looking.join(WAIT_S)
            assert found == ["load"]


def test_what_was_changed_is_read_at_once(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        for number in range(20):
            ledger.claim(f"run{number}", "p", f"writer{number}")
            assert ledger.writer_of(f"run{number}") == f"writer{number}"
