"""What can be changed in a ledger: a fixed list of operations, each with the types of its values.

Hubs that share a ledger tell each other operations and values, never statements. A change of
another hub that is not on the list, or whose values have other types, is not applied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

_TEXT, _TIME = (str,), (int, float)
_MAYBE_TEXT, _MAYBE_TIME = (str, type(None)), (int, float, type(None))
_NUMBER, _BYTES = (int,), (bytes,)
_Types = tuple[type, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """A change of one table; ``types`` are those of the values in the order of the statement."""

    name: str
    table: str
    statement: str
    types: Sequence[_Types]

    def accepts(self, values: Sequence[Any]) -> bool:
        """Whether values can be those of this operation."""
        return len(values) == len(self.types) and all(
            isinstance(value, allowed) for value, allowed in zip(values, self.types, strict=True)
        )


ADD_TOKEN = Operation(
    "add token",
    "tokens",
    "insert into tokens (name, role, projects, sha256, created) values (?,?,?,?,?)",
    (_TEXT, _TEXT, _MAYBE_TEXT, _BYTES, _TIME),
)
REVOKE_TOKEN = Operation(
    "revoke token",
    "tokens",
    "update tokens set revoked=? where name=? and revoked is null",
    (_TIME, _TEXT),
)
# A name that a revoked token had is used again: the same machine has a new token.
RENEW_TOKEN = Operation(
    "renew token",
    "tokens",
    "update tokens set role=?, projects=?, sha256=?, created=?, revoked=null"
    " where name=? and revoked is not null",
    (_TEXT, _MAYBE_TEXT, _BYTES, _TIME, _TEXT),
)
CLAIM_RUN = Operation(
    "claim run",
    "runs",
    # Of a run of which nothing is stored, whoever sends it again is charged.
    "insert into runs values (?,?,?,0) on conflict (id) do update"
    " set project=excluded.project, writer=excluded.writer where bytes=0",
    (_TEXT, _TEXT, _TEXT),
)
NOTE_REMOVED = Operation(
    "note removed", "removed", "insert or replace into removed values (?,?)", (_TEXT, _TIME)
)
FORGET_REMOVED = Operation("forget removed", "removed", "delete from removed where id=?", (_TEXT,))
ADD_REQUEST = Operation(
    "add request",
    "requests",
    "insert into requests (id, run, action, who, t) values (?,?,?,?,?)",
    (_TEXT, _TEXT, _TEXT, _TEXT, _TIME),
)
TAKE_REQUEST = Operation(
    "take request",
    "requests",
    "update requests set taken=? where id=? and taken is null",
    (_TIME, _TEXT),
)
NOTE_TAKER = Operation(
    "note taker",
    "requests",
    "update requests set taker=? where id=? and taker is null",
    (_TEXT, _TEXT),
)
END_REQUEST = Operation(
    "end request",
    "requests",
    "update requests set outcome=?, is_done=?"
    " where id=? and run=? and taken is not null and outcome is null",
    (_TEXT, _NUMBER, _TEXT, _TEXT),
)
NOTE = Operation(
    "note",
    "audit",
    "insert into audit values (?,?,?,?,?)",
    (_TIME, _TEXT, _TEXT, _MAYBE_TEXT, _MAYBE_TEXT),
)
# Whole rows, by table: a hub that had a ledger of its own tells them when it joins.
COPIES = {
    table: Operation(
        f"copy {table}",
        table,
        f"insert or ignore into {table} values ({','.join('?' * len(types))})",
        types,
    )
    for table, types in {
        "tokens": (_TEXT, _TEXT, _MAYBE_TEXT, _BYTES, _TIME, _MAYBE_TIME),
        "runs": (_TEXT, _TEXT, _TEXT, _NUMBER),
        "removed": (_TEXT, _TIME),
        "audit": (_TIME, _TEXT, _TEXT, _MAYBE_TEXT, _MAYBE_TEXT),
    }.items()
}
_ALL = (
    ADD_TOKEN,
    REVOKE_TOKEN,
    RENEW_TOKEN,
    CLAIM_RUN,
    NOTE_REMOVED,
    FORGET_REMOVED,
    ADD_REQUEST,
    TAKE_REQUEST,
    NOTE_TAKER,
    END_REQUEST,
    NOTE,
    *COPIES.values(),
)
_BY_NAME = {one.name: one for one in _ALL}
# Hubs of the first version told statements; those that they could tell are on the list.
_BY_STATEMENT = {one.statement: one for one in _ALL}


def encode_change(operation: Operation, values: Sequence[Any]) -> str:
    """A change as hubs tell it to each other."""
    sent = [value.hex() if isinstance(value, bytes) else value for value in values]
    return msgspec.json.encode({"operation": operation.name, "values": sent}).decode()


def decode_change(text: str) -> tuple[Operation, list[Any]] | None:
    """A change that another hub told; None for one that is not applied."""
    try:
        told = msgspec.json.decode(text)
        if isinstance(told, Mapping):
            operation, sent = _BY_NAME.get(str(told.get("operation"))), told.get("values")
        else:
            operation, sent = _BY_STATEMENT.get(str(told[0])), told[1]
        if operation is None or not isinstance(sent, list):
            return None
        values = [
            bytes.fromhex(value) if allowed == _BYTES else value
            for value, allowed in zip(sent, operation.types, strict=True)
        ]
    except (msgspec.DecodeError, ValueError, TypeError, IndexError, KeyError):
        return None
    return (operation, values) if operation.accepts(values) else None
