from __future__ import annotations

import io
from pathlib import Path

from epochal.exports import lines
from epochal.store.local.catalog import folder_store
from tests.doubles.every_kind import write_every_kind
from tests.store.journals import Journal
from tests.store.sealing import seal_all


def test_every_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=float("nan"), b=3, c=1e-9)
    journal.add({"log": "from-the-future", "zeta": [1, 2.0, None], "alpha": {"b": True, "a": "ü"}})
    out = io.StringIO()
    lines.write([folder_store(tmp_path).run("x")], out)
    assert out.getvalue().encode() == journal.path().read_bytes()


def test_sealed_and_unsealed_records_come_back_alike(tmp_path: Path) -> None:
    write_every_kind(tmp_path)
    before, after = io.StringIO(), io.StringIO()
    lines.write(folder_store(tmp_path).runs(), before)
    seal_all(tmp_path)
    lines.write(folder_store(tmp_path).runs(), after)
    assert after.getvalue() == before.getvalue() != ""
