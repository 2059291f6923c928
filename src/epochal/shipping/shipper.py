"""Ships one run to a hub: what is new, each time it is called.

The hub is asked what it has, and nothing is remembered between processes but the labels that both
sides last had in common. Reads at most one batch at a time, and never changes the journal.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.journal.blobs import encode_pending
from epochal.journal.layout import PartName, RunFolder, is_patch, read_json, write_json
from epochal.journal.row import Mark
from epochal.records.format import format_bytes
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.offering import PartCounts, json_or_empty, sizes
from epochal.shipping.protocol import (
    BATCH_BYTES,
    CHUNK_BYTES,
    MAX_LINES_BYTES,
    FileKind,
    PartState,
    RunState,
    SegmentState,
)
from epochal.shipping.summaries import SummaryShipping

HUB_FILE = "hub.json"
_LIVE_EVERY_S = 2.0
_LABELS_EVERY_S = 10.0
# A hub that was restored from an older copy has less than it said, and tells nobody.
_VERIFY_EVERY_S = 300.0


@dataclass(slots=True)
class _Sent:
    """Where the unsent lines of a part begin: their ordinal, and their place in the file."""

    lines: int
    offset: int


class BandwidthLimit:
    """Keeps sending below a number of bytes per second; None for no limit."""

    def __init__(
        self,
        bytes_per_s: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._rate = bytes_per_s
        self._clock = clock
        self._sleep = sleep
        self._free_at_s = clock()

    def wait(self, num_bytes: int) -> None:
        """Return when so many bytes may be sent."""
        if not self._rate:
            return
        now_s = self._clock()
        self._sleep(max(0.0, self._free_at_s - now_s))
        self._free_at_s = max(self._free_at_s, now_s) + num_bytes / self._rate


class Shipper:
    """Ships one run folder over one connection; one thread uses it.

    With ``unless_removed``, a run that was deleted on the hub stays deleted there. With
    ``compare_files``, the contents of segments and blobs that the hub has are compared, not only
    their names and sizes.
    """

    def __init__(
        self,
        folder: RunFolder,
        client: HubClient,
        *,
        limit: BandwidthLimit | None = None,
        unless_removed: bool = False,
        compare_files: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._unless_removed = unless_removed
        self._compare_files = compare_files
        self._folder = folder
        self._client = client
        self._limit = BandwidthLimit(None) if limit is None else limit
        self._clock = clock
        self._sends_patch = read_settings().hub_patch
        self._run_id: str | None = None
        self._identity_seen: tuple[int, int] | None = None
        self._is_forgotten = False
        self._sent: dict[str, _Sent] = {}
        self._counts = PartCounts()
        # Files of the hub with their sizes, and those that are known to have the same contents.
        self._files: dict[tuple[FileKind, str], int] = {}
        self._same: dict[tuple[FileKind, str], int] = {}
        self._live_due_s = self._labels_due_s = self._verify_due_s = 0.0
        self._labels_seen: dict[str, Any] | None = None
        self._summaries = SummaryShipping(folder, client, clock=clock)
        self.num_lines = self.num_files = 0
        # Parts and files that differ from what the hub has under their names: a sentence each.
        self.conflicts: dict[str, str] = {}

    def ship(self, *, should_stop: Callable[[], bool] = lambda: False) -> bool:
        """Send what the hub does not have; whether it had everything when this began.

        Raises ``HubError`` when the hub cannot be reached or refuses; the next call goes on there.
        """
        self._register()
        is_complete = True
        for name in self._folder.parts():
            if should_stop():
                return False
            if name.stem not in self.conflicts:
                is_complete &= self._ship_part(name, should_stop)
        is_complete &= self._ship_files("segments", should_stop)
        encode_pending(self._folder)
        is_complete &= self._ship_files("blobs", should_stop)
        if self._run_id is not None:
            self._summaries.ship(self._run_id, self._covers if not is_complete else _covers_all)
        self._ship_live()
        self._exchange_labels()
        return is_complete and not should_stop()

    # -- the run ----------------------------------------------------------------------------------

    def _register(self) -> None:
        """Say who the run is, at first and whenever that changes; take note of what is there."""
        state = self._registered()
        if state is None:
            return
        self.conflicts.clear()
        self._verify_due_s = self._clock() + _VERIFY_EVERY_S
        before, self._sent = self._sent, {}
        for name in self._folder.parts():
            there = state.parts.get(self._stem(name), PartState(0))
            sealed = state.segments.get(f"{self._stem(name)}.parquet")
            known = before.get(name.stem)
            if sealed is not None and not there.lines:
                self._compare_with_segment(name, sealed)
            elif known is not None and known.lines == there.lines:
                self._sent[name.stem] = known
            else:
                self._find_place(name, there)
        self._files = _files_of(state)
        self._same = {} if self._compare_files else dict(self._files)

    def _registered(self) -> RunState | None:
        """What the hub has of the run; None when that was asked before and nothing has changed."""
        try:
            status = self._folder.identity.stat()
        except FileNotFoundError:
            raise HubError(f"{self._folder.path} has no run.json yet.") from None
        seen = (status.st_mtime_ns, status.st_size)
        if self._identity_seen == seen and not self._is_asked_again:
            return None
        identity = read_json(self._folder.identity)
        run_id = str(identity.get("id", ""))
        state = self._client.register(run_id, identity, unless_removed=self._unless_removed)
        self._run_id, self._identity_seen, self._is_forgotten = run_id, seen, False
        return state

    def _stem(self, name: PartName) -> str:
        """What a part is called on the hub."""
        return name.stem

    def forget(self) -> None:
        """Ask the hub again what it has: it may have been restored from an older copy."""
        self._is_forgotten = True
        self._summaries.forget()

    @property
    def _is_asked_again(self) -> bool:
        return self._is_forgotten or self._clock() >= self._verify_due_s

    # -- parts ------------------------------------------------------------------------------------

    def _find_place(self, name: PartName, there: PartState) -> None:
        """Go on behind the lines that the hub has, if they are the same lines."""
        offset, crc = self._counts.end_of(self._folder.part_path(name), there.lines)
        if offset is None or (there.lines and crc != there.crc):
            self.conflicts[name.stem] = (
                f"the hub has other lines than {self._folder.part_path(name)}: this folder is"
                " not the one that was shipped before, or was restored from an older copy."
            )
        else:
            self._sent[name.stem] = _Sent(there.lines, offset)

    def _compare_with_segment(self, name: PartName, there: SegmentState) -> None:
        """Send nothing of a part that is sealed on the hub; lines that it lacks are a conflict."""
        path = self._folder.part_path(name)
        num_lines, end = self._counts.whole(path)
        self._sent[name.stem] = _Sent(num_lines, end)
        if num_lines > there.lines:
            self.conflicts[name.stem] = (
                f"the hub has a sealed copy of {path.name} with {there.lines:,} records, and this"
                f" folder has {num_lines:,}. When the run has ended, seal it here with 'epochal"
                " pack' and push it again."
            )

    def _ship_part(self, name: PartName, should_stop: Callable[[], bool]) -> bool:
        sent = self._sent.setdefault(name.stem, _Sent(0, 0))
        is_first = True
        while not should_stop():
            block = _whole_lines(self._folder.part_path(name), sent.offset)
            if len(block) >= MAX_LINES_BYTES:
                self.conflicts[name.stem] = (
                    f"a line of {self._folder.part_path(name)} is longer than the"
                    f" {format_bytes(MAX_LINES_BYTES)} that a hub takes: it and what follows it"
                    " in this file stay here until the file is sealed."
                )
                return False
            if not block:
                return is_first
            is_first = False
            self._limit.wait(len(block))
            if should_stop():  # the wait was cut short
                return False
            num_lines = block.count(b"\n")
            have = self._append(name, first=sent.lines, lines=block)
            if have != sent.lines + num_lines:
                # The hub has less after a restore, more after another process sent the same, and a
                # segment in place of the part if that was sealed.
                self.forget()
                return False
            sent.lines, sent.offset = have, sent.offset + len(block)
            self.num_lines += num_lines
            if len(block) < BATCH_BYTES // 2:
                return False  # hardly anything is left, and more may be on its way
        return False

    def _append(self, name: PartName, *, first: int, lines: bytes) -> int:
        assert self._run_id is not None
        try:
            return self._client.append(self._run_id, self._stem(name), first=first, lines=lines)
        except HubError as error:
            if error.status == 404:
                self.forget()
            raise

    # -- files ------------------------------------------------------------------------------------

    def _ship_files(self, kind: FileKind, should_stop: Callable[[], bool]) -> bool:
        """Send segments or blobs that the hub does not have; whether there were none."""
        was_complete = True
        for name, size in sizes(self._folder.path / kind, kind).items():
            if is_patch(name) and not self._sends_patch:
                continue
            if should_stop():
                return False
            if self._same.get((kind, name)) != size and f"{kind}/{name}" not in self.conflicts:
                with contextlib.suppress(FileNotFoundError):  # sealed again, or removed
                    was_complete &= not self._ship_file(kind, name)
        return was_complete

    def _ship_file(self, kind: FileKind, name: str) -> bool:
        """Send what the hub lacks of a file; whether anything was sent."""
        path = self._folder.path / kind / name
        sha256, size = file_digest(path)
        # An empty piece asks whether the hub has just this file.
        is_question = (kind, name) in self._files
        offset = num_sent = 0
        with open(path, "rb") as file:
            while True:
                file.seek(offset)
                chunk = b"" if is_question else file.read(CHUNK_BYTES)
                if not (chunk or is_question) and offset < size:
                    return True  # it became shorter: the next call sees what it is now
                self._limit.wait(len(chunk))
                try:
                    offset = self._put_file(kind, name, chunk, offset, size, sha256)
                except HubError as error:
                    if error.status not in (400, 409):
                        raise
                    self.conflicts[f"{kind}/{name}"] = str(error)
                    return True
                num_sent += len(chunk)
                if offset == size:
                    break
                is_question = False
                if num_sent > 3 * size + CHUNK_BYTES:
                    raise HubError(f"{kind}/{name} does not arrive at the hub as it is here.")
        self._files[kind, name] = self._same[kind, name] = size
        self.num_files += num_sent > 0
        return num_sent > 0

    def _put_file(
        self, kind: FileKind, name: str, chunk: bytes, offset: int, size: int, sha256: str
    ) -> int:
        assert self._run_id is not None
        return self._client.put_file(
            self._run_id, kind, name, chunk, offset=offset, size=size, sha256=sha256
        )

    def verify(self) -> None:
        """Ask the hub what it has, and raise ``HubError`` if something is missing that was sent."""
        assert self._run_id is not None
        state = self._client.state(self._run_id)
        files, missing = _files_of(state), list[str]()
        for (kind, name), size in self._same.items():
            if files.get((kind, name)) != size and (self._folder.path / kind / name).exists():
                missing.append(f"{kind}/{name} is not there with its {size:,} bytes")
        for part in self._folder.parts():
            stem, sent = self._stem(part), self._sent.get(part.stem, _Sent(0, 0)).lines
            sealed = state.segments.get(f"{stem}.parquet", SegmentState(0, 0))
            have = max(state.parts.get(stem, PartState(0)).lines, sealed.lines)
            if have < sent and part.stem not in self.conflicts:
                missing.append(f"only {have:,} of {sent:,} records of {stem} are there")
        if missing:
            raise HubError(f"the hub does not have everything: {'; '.join(missing)}.")

    def _ship_live(self) -> None:
        """Send the newest readings of the machines, now and then."""
        if self._clock() < self._live_due_s:
            return
        self._live_due_s = self._clock() + _LIVE_EVERY_S
        for name in sizes(self._folder.live, "live"):
            with contextlib.suppress(FileNotFoundError):
                data = (self._folder.live / name).read_bytes()
                if data:
                    sha256 = hashlib.sha256(data).hexdigest()
                    self._put_file("live", name, data, 0, len(data), sha256)

    def _covers(self, marks: Mapping[str, Mark]) -> bool:
        """Whether the hub has acknowledged what lies before some positions."""
        return bool(marks) and all(
            ("segments", f"{stem}.parquet") in self._same
            or self._sent.get(stem, _Sent(0, 0)).offset >= mark.bytes
            for stem, mark in marks.items()
        )

    # -- labels -----------------------------------------------------------------------------------

    def _exchange_labels(self) -> None:
        labels = json_or_empty(self._folder.labels)
        if self._clock() < self._labels_due_s and labels == self._labels_seen:
            return
        assert self._run_id is not None
        kept = json_or_empty(self._folder.path / HUB_FILE)
        base = kept.get("labels")
        base = base if isinstance(base, dict) and kept.get("url") == self._client.url else {}
        try:
            merged = self._client.merge_labels(self._run_id, labels, base)
        except HubError as error:
            if error.status != 400:
                raise
            # Nothing else waits for them: the hub is asked again when they have changed.
            self.conflicts["labels.json"] = f"the hub refuses labels.json: {error.answered}"
            self._labels_seen, self._labels_due_s = labels, math.inf
            return
        self.conflicts.pop("labels.json", None)
        if json_or_empty(self._folder.labels) != labels:
            return  # changed meanwhile: the next look sees it
        if merged != labels:
            write_json(self._folder.labels, merged)
        if merged != base or kept.get("url") != self._client.url:
            write_json(self._folder.path / HUB_FILE, {"url": self._client.url, "labels": merged})
        self._labels_seen, self._labels_due_s = merged, self._clock() + _LABELS_EVERY_S


def _covers_all(marks: Mapping[str, Mark]) -> bool:
    """Whether a hub that has everything has what lies before some positions."""
    return True


def _whole_lines(path: Path, offset: int) -> bytes:
    """Whole lines from an offset on, about a batch of them; none where none is complete.

    Of a line that is too long to be sent, as much as could be sent.
    """
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            block = file.read(BATCH_BYTES)
            end = block.rfind(b"\n") + 1
            if not end and len(block) == BATCH_BYTES:  # one line, longer than a batch
                block += file.readline(MAX_LINES_BYTES - len(block))
                is_whole = block.endswith(b"\n") or len(block) == MAX_LINES_BYTES
                end = len(block) if is_whole else 0
            return block[:end]
    except FileNotFoundError:
        return b""  # sealed since the look: the segment is sent


def _files_of(state: RunState) -> dict[tuple[FileKind, str], int]:
    """The segments and blobs that a hub has, with their sizes in bytes."""
    segments = {name: segment.size for name, segment in state.segments.items()}
    files: dict[tuple[FileKind, str], int] = {("segments", n): size for n, size in segments.items()}
    return files | {("blobs", name): size for name, size in state.blobs.items()}


def file_digest(path: Path) -> tuple[str, int]:
    """The SHA-256 of a file in hexadecimal digits, and its size."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(CHUNK_BYTES), b""):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
