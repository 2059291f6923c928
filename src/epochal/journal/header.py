"""The first record of every part of a journal: whose part it is, and which process writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.journal.layout import PartName, RunFolder, json_or_empty
from epochal.journal.line import decode, encode, now
from epochal.journal.process import process_identity
from epochal.journal.regular_file import regular_only
from epochal.records import FORMAT_VERSION, Record

_OF_RUN = ("id", "name", "project")
_MAX_HEADER_BYTES = 1 << 20


def part_header(
    part: PartName,
    *,
    identity: Mapping[str, Any],
    rank: int,
    t: float | None = None,
    process: Mapping[str, Any] | None = None,
    **fields: Any,
) -> bytes:
    """Encode the header of a part; `identity` is what run.json says of the run.

    Time and process are those of the caller unless they are given; `fields` follow them.
    """
    return encode(
        {
            "log": "run",
            "t": now() if t is None else t,
            "v": FORMAT_VERSION,
            **{key: identity[key] for key in _OF_RUN if key in identity},
            "writer": part.writer,
            "attempt": part.attempt,
            "part": part.part,
            "rank": rank,
            **(process_identity() if process is None else process),
            **fields,
        }
    )


def read_header(path: Path) -> Record:
    """Read the first record of a journal part; empty where it cannot be read."""
    try:
        with open(path, "rb", opener=regular_only) as file:
            return decode(file.readline(_MAX_HEADER_BYTES)) or {}
    except OSError:
        return {}


def read_identity(folder: RunFolder) -> dict[str, Any]:
    """Read id, name and project of a run; empty where run.json cannot be read."""
    identity = json_or_empty(folder.identity)
    return {key: identity.get(key) for key in _OF_RUN} if identity else {}
