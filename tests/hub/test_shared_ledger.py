"""What hubs over one cluster tell each other: operations of a fixed list, and nothing else."""

from __future__ import annotations

import contextlib
import json
import time
from pathlib import Path

import pytest

from epochal.hub.ledger import ADD_TOKEN, NOTE, Ledger, decode_change, encode_change
from epochal.hub.shared_ledger import SharedLedger
from epochal.store.clickhouse.tables import Tables
from tests.hub.clickhouse import ENGINES, new_database


def test_a_change_is_an_operation_with_values_of_its_types() -> None:
    values = ["name", "write", None, b"\x01\xff", 1.5]
    assert decode_change(encode_change(ADD_TOKEN, values)) == (ADD_TOKEN, values)
    # As hubs of the first version tell it.
    old = json.dumps([ADD_TOKEN.statement, [*values[:3], "01ff", 1.5], [0, 0, 0, 1, 0]])
    assert decode_change(old) == (ADD_TOKEN, values)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(["delete from tokens", [], []]),
        json.dumps(["insert into tokens select 1,2,3,4,5,6 -- ?", [1], [0]]),
        json.dumps({"operation": "drop", "values": []}),
        json.dumps({"operation": NOTE.name, "values": ["now", "who", "what", None, ""]}),
        json.dumps({"operation": NOTE.name, "values": [1.0, "who"]}),
        json.dumps({"operation": ADD_TOKEN.name, "values": ["a", "write", None, "no hex", 1]}),
        json.dumps({"operation": NOTE.name}),
        json.dumps([]),
        json.dumps(7),
        "{",
    ],
)
def test_anything_else_is_not_applied(text: str) -> None:
    assert decode_change(text) is None


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_hubs_have_one_ledger_whatever_else_stands_in_the_table(
    engine: str, tmp_path: Path
) -> None:
    with contextlib.closing(Ledger(tmp_path / "one")) as alone:
        before = alone.add_token("before", "read", ["p"])
    with contextlib.ExitStack() as stack:
        tables = stack.enter_context(contextlib.closing(Tables(new_database(engine), every_s=0.0)))
        one, other = (
            stack.enter_context(contextlib.closing(SharedLedger(tmp_path / name)))
            for name in ("one", "other")
        )
        token = one.add_token("later", "write")
        one.claim("run", "p", "later")
        one.note("later", "registered", run="run")
        request = one.add_request("run", "stop", "later", now=time.time())
        tables.put_change("x", json.dumps(["delete from tokens", [], []]))
        for ledger in (one, other):
            ledger.exchange(tables)
        assert other.principal(before) is not None
        assert other.principal(token) is not None
        assert other.writer_of("run") == "later"
        assert [taken.id for taken in other.take_requests("run", now=1.0, since=0.0)] == [
            request.id
        ]
        assert other.end_request("run", request.id, "stopped", is_done=True)
        other.revoke_token("later")
        for ledger in (other, one):
            ledger.exchange(tables)
        assert [row.name for row in one.tokens() if row.revoked is not None] == ["later"]
        assert one.requests("run")[0].outcome == "stopped"
        assert [row["what"] for row in one.audit()] == ["registered"]
