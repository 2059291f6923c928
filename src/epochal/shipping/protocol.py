"""What a shipper and a hub say to each other; ``docs/explanation/hub-protocol.md`` describes it.

The unit is some lines of one journal part with the ordinal of the first. The hub answers with the
number of lines that it has on its disk. Sending lines again is harmless: it skips what it has.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from epochal.errors import FormatError, UsageError
from epochal.journal.layout import parse_part_name

PROTOCOL = 1
# Lines of one request before compression. One line may be longer, and travels alone.
BATCH_BYTES = 1 << 20
# The longest body of a request, and the longest with lines, before and after compression.
MAX_BODY_BYTES = 4 << 20
MAX_LINES_BYTES = 16 << 20
# Of a segment or a blob, in one request.
CHUNK_BYTES = 1 << 20
_MAX_NAME = 200
SIZE_HEADER = "x-epochal-size"
# What a file is called on a hub until it is whole; the digest has 16 digits.
PARTIAL_NAME = ".{name}.{digest}.partial"
# What a hub may ask of a training, and for how long: a run that comes back later goes on.
CONTROL_ACTIONS = ("stop", "suspend", "continue", "checkpoint")
CONTROL_EXPIRES_S = 600.0
# The word for the newest run is no id of one.
_RUN_ID = re.compile(r"(?!latest$)[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
# Raw pixels are encoded before they are sent.
_BLOB_NAME = re.compile(r"(?!.*\.raw$)[A-Za-z0-9][A-Za-z0-9._-]{0,149}")
_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

# What a file of a run is; ``live`` is overwritten, the others never change.
FileKind = Literal["segments", "blobs", "live"]


class PartState(msgspec.Struct, frozen=True):
    """How much of a part a hub has: whole lines, and the checksum of the last of them."""

    lines: int
    crc: int = 0


class SegmentState(msgspec.Struct, frozen=True):
    """A sealed part: its size in bytes, and how many lines were sealed into it."""

    size: int
    lines: int


class RunState(msgspec.Struct, frozen=True):
    """What a hub has of a run; blobs by name with their sizes in bytes.

    A part that the hub has sealed by itself is in ``segments`` and in ``parts``: its sender may
    append to it. ``live`` names the files with the newest readings of machines.
    """

    id: str
    project: str
    folder: str
    parts: dict[str, PartState]
    segments: dict[str, SegmentState]
    blobs: dict[str, int]
    labels: dict[str, Any]
    identity: dict[str, Any]
    protocol: int = PROTOCOL
    live: list[str] = []


class Ack(msgspec.Struct, frozen=True):
    """The number of lines of a part, or bytes of a file, that a hub has on its disk.

    All bytes of a file are acknowledged only when readers of the hub find it under its name.
    """

    have: int


class Taken(msgspec.Struct, frozen=True):
    """Whether a hub has taken a summary, which it does when it has the lines that this covers."""

    is_taken: bool


class LabelsOffer(msgspec.Struct, frozen=True):
    """Labels as they are at the sender, and as both sides last knew them."""

    labels: dict[str, Any]
    base: dict[str, Any]


class ControlRequest(msgspec.Struct, frozen=True):
    """What someone asks of a training: an action, their name, and when by the hub's clock.

    ``age_s`` is how long ago that was when the hub answered: clocks of machines differ.
    """

    id: str
    action: str
    who: str
    t: float
    age_s: float


class ControlRequests(msgspec.Struct, frozen=True):
    """Requests that nobody has taken yet, and those again whose outcome the taker has not reported.

    Who takes them acts on each id once.
    """

    requests: list[ControlRequest]


class ControlOutcome(msgspec.Struct, frozen=True):
    """What became of a request, in a sentence."""

    outcome: str
    is_done: bool


def is_run_id(text: str) -> bool:
    """Whether a text can be the id of a run: it becomes part of a path."""
    return _RUN_ID.fullmatch(text) is not None


def checked_identity(run_id: str, identity: Mapping[str, Any]) -> dict[str, Any]:
    """What a sender says about a run, as it may stand in ``run.json`` here."""
    if not is_run_id(run_id):
        raise UsageError(f"{run_id!r} is not an id of a run.")
    if identity.get("id") != run_id:
        raise UsageError(f"run.json is of the run {identity.get('id')!r}, not of {run_id!r}.")
    for key in ("project", "name"):
        value = identity.get(key)
        if not isinstance(value, str) or not 0 < len(value) <= _MAX_NAME:
            raise UsageError(f"run.json has no {key} of 1 to {_MAX_NAME} characters.")
    return dict(identity)


def is_file_name(kind: str, name: str) -> bool:
    """Whether a file of this name may lie in this folder of a run."""
    if kind == "segments":
        part = parse_part_name(name, ".parquet")
        return part is not None and name == f"{part.stem}.parquet"
    if kind == "live":
        return name.endswith(".json") and _NODE_NAME.fullmatch(name[:-5]) is not None
    return kind == "blobs" and _BLOB_NAME.fullmatch(name) is not None


def lines_after(lines: bytes, num_known: int) -> bytes:
    """A block of whole lines without the first so many."""
    start = 0
    for _ in range(num_known):
        start = lines.find(b"\n", start) + 1
        if not start:
            return b""
    return lines[start:]


def compress(lines: bytes) -> bytes:
    """Lines as the body of a request: gzip."""
    return gzip.compress(lines, 3, mtime=0)


def decompress(encoding: str, body: bytes, *, size: int) -> bytes:
    """The ``size`` bytes of a body; raises ``FormatError`` when it holds anything else."""
    if not 0 <= size <= MAX_LINES_BYTES:
        raise FormatError(f"a request holds at most {MAX_LINES_BYTES:,} bytes of lines.")
    if encoding not in ("", "identity", "gzip"):
        raise FormatError(f"the encoding {encoding!r} is unknown; use gzip or none.")
    try:
        lines = zlib.decompressobj(31).decompress(body, size + 1) if encoding == "gzip" else body
    except zlib.error as error:
        raise FormatError(f"the body is not gzip: {error}.") from error
    if len(lines) != size:
        raise FormatError(f"the body does not hold the {size:,} bytes that its header states.")
    return lines


def merged_labels(
    *, ours: Mapping[str, Any], theirs: Mapping[str, Any], base: Mapping[str, Any]
) -> dict[str, Any]:
    """What holds after both sides changed the labels they last had in common.

    A field that one side changed is that side's. Of tags, both sides' additions and removals count.
    Where both changed another field, theirs counts: it is the later one to arrive.
    """
    merged: dict[str, Any] = {}
    for field in dict.fromkeys((*ours, *theirs)):
        mine, other, before = ours.get(field), theirs.get(field), base.get(field)
        value = mine if other == before else other
        if field == "tags" and mine != before and other != before:
            value = _merged_tags(mine, other, before)
        if value is not None:
            merged[field] = value
    return merged


def _merged_tags(ours: Any, theirs: Any, base: Any) -> list[Any]:
    mine, other, before = (
        [*side] if isinstance(side, list) else [] for side in (ours, theirs, base)
    )
    gone = [tag for tag in before if tag not in mine or tag not in other]
    return [tag for tag in dict.fromkeys((*mine, *other)) if tag not in gone]
