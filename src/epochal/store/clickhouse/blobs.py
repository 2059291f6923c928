"""Files of runs in the tables, in pieces: pictures, tables, kept files, uncommitted changes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

from epochal.store.clickhouse.connection import literal
from epochal.store.clickhouse.rows import text, unpacked, whole
from epochal.store.clickhouse.schema import BLOBS
from epochal.store.clickhouse.tables import Database


class StoredBlob(NamedTuple):
    """A file as far as it was received; ``have`` bytes of it without a gap."""

    name: str
    sha256: str
    size: int
    have: int


def stored_blobs(database: Database, run_id: str, name: str | None = None) -> list[StoredBlob]:
    """The files of a run, or those of one name, also those that are not whole."""
    where = f"run = {literal(run_id)}" + ("" if name is None else f" AND name = {literal(name)}")
    answer = database.server.query(
        f"SELECT name, sha256, offset, max(size), max(length) FROM {_table(database)}"
        f" WHERE {where} GROUP BY name, sha256, offset ORDER BY name, sha256, offset"
        " FORMAT RowBinary"
    )
    found: dict[tuple[str, str], StoredBlob] = {}
    for named, sha256, offset, size, length in unpacked(answer, "ssQQQ"):
        key = (named.decode(), sha256.decode())
        blob = found.get(key) or StoredBlob(*key, size, 0)
        found[key] = blob._replace(have=offset + length) if offset <= blob.have else blob
    return list(found.values())


def whole_blobs(database: Database, run_id: str, name: str | None = None) -> list[StoredBlob]:
    """The files of a run that are whole, the one that counts of each name."""
    found = stored_blobs(database, run_id, name)
    return [blob for blob in found if blob.have == blob.size]


def put_piece(database: Database, run_id: str, blob: StoredBlob, offset: int, data: bytes) -> None:
    """Store a piece of a file; returns when it is stored."""
    row = text(run_id) + text(blob.name) + text(blob.sha256)
    row += whole(offset, blob.size, len(data)) + text(data)
    database.server.insert(_table(database), BLOBS.columns, row)


def piece(database: Database, run_id: str, blob: StoredBlob, offset: int) -> bytes:
    """The piece of a file that holds the byte at an offset, from there on; empty at its end."""
    where = f"run = {literal(run_id)} AND name = {literal(blob.name)}"
    where += f" AND sha256 = {literal(blob.sha256)} AND offset <= {offset}"
    answer = database.server.query(
        f"SELECT offset, data FROM {_table(database)} WHERE {where} AND offset + length > {offset}"
        " ORDER BY offset DESC LIMIT 1 FORMAT RowBinary"
    )
    return next((data[offset - start :] for start, data in unpacked(answer, "Qs")), b"")


def digest_of(database: Database, run_id: str, blob: StoredBlob, last: bytes) -> str:
    """The SHA-256 of what is stored of a file, and of its last piece behind that."""
    digest, offset = hashlib.sha256(), 0
    while offset < blob.have:
        data = piece(database, run_id, blob, offset)
        digest.update(data)
        offset += len(data)
    digest.update(last)
    return digest.hexdigest()


def write_blob(database: Database, run_id: str, name: str, path: Path) -> None:
    """Write a whole file of a run into a file here; raises ``FileNotFoundError``."""
    found = whole_blobs(database, run_id, name)
    if not found:
        raise FileNotFoundError(2, f"the hub has not received {name} yet")
    offset = 0
    with open(path, "wb") as file:
        while data := piece(database, run_id, found[0], offset):
            file.write(data)
            offset += len(data)


def _table(database: Database) -> str:
    return f"{database.address.database}.{BLOBS.name}"
