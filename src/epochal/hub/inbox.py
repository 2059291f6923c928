"""What a hub receives, whatever it keeps runs in: a folder, or a database and a bucket.

An acknowledgement names only what a reader of the hub finds, and what survives a power cut. The
hub states what it really has, also after it was restored from an older copy; senders send the rest
again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from epochal.errors import EpochalError, FormatError, UsageError
from epochal.records.format import format_bytes
from epochal.shipping import protocol

MAX_LIVE_BYTES = 1 << 20
_MAX_FILE_BYTES = 8 << 30
_SHA256 = re.compile("[0-9a-f]{64}")


class ConflictError(EpochalError):
    """The hub has something else under this name than what a shipper sends."""


class UnknownRunError(EpochalError, LookupError):
    """No run of this id was registered."""


class RemovedError(EpochalError):
    """The run was deleted here: its sender keeps it, and sends no more."""


class BusyError(EpochalError):
    """The hub has more to do than it can: senders keep what they have and come back."""


class Readiness(NamedTuple):
    """Sentences about what is missing to store anything now, and what else one should know.

    They are shown to anybody, so they name no address and no path.
    """

    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Inbox(Protocol):
    """The runs of a hub, as shippers see them; several threads may use it.

    ``num_threads`` may wait in it at once. Except for the first two, every method raises
    ``UnknownRunError`` for a run that is not here.
    """

    num_threads: int

    def known_project(self, run_id: str) -> str | None:
        """The project of a run that was received or asked for before; it waits for nothing."""

    def project_of(self, run_id: str) -> str | None:
        """The project of a run that is here; None for an unknown run."""

    def register(
        self, run_id: str, identity: Mapping[str, Any], *, writer: str = ""
    ) -> protocol.RunState:
        """Take in who a run is, at its start and when it changes; what is here of it.

        ``writer`` is the token that sends it first, to whose quota it counts.
        Raises ``ConflictError`` for a run that belongs to another project.
        """

    def launched(self, launch_id: str, project: str, *, age_s: float) -> str:
        """The run of rank 0 of a launch that began so long ago; ids of launches come again."""

    def state(self, run_id: str) -> protocol.RunState:
        """What is here of a run."""

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        """Append lines of a part that are not here yet; how many lines are stored then.

        Lines beyond a gap are not taken: the answer says from where to send. Nothing is appended
        to a part that was sealed: its sender has to send the segment.
        """

    def put_file(
        self,
        run_id: str,
        kind: protocol.FileKind,
        name: str,
        chunk: bytes,
        *,
        offset: int,
        size: int,
        sha256: str,
    ) -> int:
        """Take in a piece of a file; how many bytes of it are here then.

        The file appears under its name when it is whole, has the stated digest, and is stored; only
        then is its whole size returned. An empty piece asks how much is here. A segment replaces
        one with fewer lines; of blobs, only damaged ones are replaced.
        """

    def put_labels(
        self,
        run_id: str,
        labels: Mapping[str, Any],
        base: Mapping[str, Any],
        *,
        on_change: Callable[[list[str]], object] = lambda _fields: None,
    ) -> dict[str, Any]:
        """Merge labels that were changed elsewhere; what holds for both sides then.

        ``on_change`` is called with the fields that changed here.
        """

    def put_summary(self, run_id: str, body: bytes) -> bool:
        """Take in ``summary.json`` as its sender has it; False for lines that are not here yet.

        Raises ``FormatError`` for one that is not valid, ``UsageError`` for that of another run.
        """

    def put_metrics(self, run_id: str, body: bytes) -> bool:
        """The same for ``metrics.json``."""

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Whole lines of a part from an ordinal on, about as many as fit in one batch."""

    def file(self, run_id: str, kind: protocol.FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on."""

    def rescan(self) -> None:
        """Find runs again that a person has moved."""

    def readiness(self) -> Readiness:
        """Whether anything can be stored now; asks the disk, or the database and the bucket."""


def check_lines(lines: bytes) -> None:
    """Raise ``FormatError`` unless the last line has an end."""
    if lines and not lines.endswith(b"\n"):
        raise FormatError("the last line has no end: send whole lines.")


def check_piece(kind: str, name: str, chunk: bytes, *, offset: int, size: int, sha256: str) -> None:
    """Raise ``UsageError`` unless these bytes can be a piece of a file that a hub takes."""
    if not _SHA256.fullmatch(sha256):  # it becomes part of a path
        raise UsageError(f"sha256 must have 64 hexadecimal digits, not {sha256!r}.")
    if not protocol.is_file_name(kind, name):
        raise UsageError(f"{name!r} is not a name of a file in {kind}.")
    if size > _MAX_FILE_BYTES:
        most = format_bytes(_MAX_FILE_BYTES)
        raise UsageError(f"{kind}/{name} is larger than the {most} that a hub takes.")
    if not 0 <= offset <= size - len(chunk):
        raise UsageError(f"{len(chunk)} bytes at {offset} do not fit a file of {size} bytes.")
    if kind == "live" and (size != len(chunk) or size > MAX_LIVE_BYTES):
        raise UsageError(f"live readings have at most {MAX_LIVE_BYTES:,} bytes.")


def other_project(run_id: str, project: str) -> ConflictError:
    """The answer to a sender that names another project than the one that a run came in."""
    return ConflictError(f"the run {run_id} belongs to the project {project!r}.")


def other_content(kind: str, name: str) -> ConflictError:
    """The answer to a sender whose file has other contents than the one that is here."""
    return ConflictError(f"{kind}/{name} is here already with other contents.")


def fewer_records(name: str, sent: int, have: int) -> ConflictError:
    """The answer to a sender whose segment lacks lines that are here."""
    return ConflictError(
        f"segments/{name} has {sent:,} records, and the hub has {have:,} of this part."
    )
