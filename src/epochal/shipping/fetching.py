"""Fetches a run from a hub into a folder, as often as wanted: what is there already stays."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from epochal.base.atomic_file import replaced_file
from epochal.errors import FormatError, RunNotFoundError, UsageError
from epochal.journal.layout import (
    RunFolder,
    create_run_folder,
    is_patch,
    parse_part_name,
    read_json,
    run_folders,
    slugify,
    write_json,
)
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.offering import PartCounts, named_part, sizes
from epochal.shipping.protocol import FileKind, PartState, RunState, is_file_name
from epochal.shipping.shipper import HUB_FILE


class RunReader(Protocol):
    """What a run is copied from: a hub, a database with a bucket, or a bucket alone."""

    def state(self, run_id: str) -> RunState:
        """What is there of a run."""

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Lines of a part from an ordinal on, about as many as one request holds."""

    def file(self, run_id: str, kind: FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on; empty at its end."""


def fetch_run(client: HubClient, run_id: str, root: Path) -> RunFolder:
    """Copy what the hub has of a run and ``root`` has not; the folder of the run.

    A copy of a run that is recorded on this machine is never touched: its journal is the truth.
    """
    state = client.state(run_id)
    folder = _folder_of(client, state, root)
    _Fetch(client, run_id, state, folder).fetch(state.identity, with_blobs=True)
    return folder


def mirror_run(
    client: RunReader,
    run_id: str,
    folder: RunFolder,
    *,
    counts: PartCounts | None = None,
    before: RunState | None = None,
) -> RunState:
    """Make a copy of what the hub has, but for blobs: ``fetch_blob`` has these.

    Returns what the hub has. ``before`` is what it had when this copy was last made: if that is
    the same, only readings of machines are fetched. With ``counts``, what was counted of the copy
    before is not read again. What differs from the hub is fetched anew.
    """
    state = client.state(run_id)
    fetch = _Fetch(client, run_id, state, folder, counts)
    if state == before and folder.identity.is_file():
        fetch.live()
        return state
    folder.segments.mkdir(parents=True, exist_ok=True)
    fetch.drop_what_differs()
    fetch.fetch(state.identity, with_blobs=False)
    return state


def fetch_blob(
    client: RunReader, run_id: str, state: RunState, folder: RunFolder, name: str
) -> None:
    """Have a file that a hub has in a mirror, too."""
    _Fetch(client, run_id, state, folder).file("blobs", name, state.blobs[name])


def _folder_of(client: HubClient, state: RunState, root: Path) -> RunFolder:
    folder = _found(state, root)
    if folder is None:
        return _made(client, state, root)
    kept = read_json(folder.path / HUB_FILE) if (folder.path / HUB_FILE).is_file() else {}
    if kept.get("fetched_from") != client.url:
        raise UsageError(
            f"{folder.path} is the run {state.id} already, and was not fetched from"
            f" {client.url}: it is left as it is."
        )
    return folder


def _found(state: RunState, root: Path) -> RunFolder | None:
    for folder in run_folders(root):
        if folder.identity.is_file() and read_json(folder.identity).get("id") == state.id:
            return folder
    return None


def _made(client: HubClient, state: RunState, root: Path) -> RunFolder:
    project = root / slugify(state.project)
    folder, _ = create_run_folder(project, str(state.identity.get("name", state.id)))
    write_json(folder.path / HUB_FILE, {"fetched_from": client.url})
    write_json(folder.identity, state.identity)
    return folder


class _Fetch:
    """One copy of a run; files that are there already are left alone, so readers see no change."""

    def __init__(
        self,
        client: RunReader,
        run_id: str,
        state: RunState,
        folder: RunFolder,
        counts: PartCounts | None = None,
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._state = state
        self._folder = folder
        self._counts = PartCounts() if counts is None else counts

    def fetch(self, identity: Mapping[str, Any], *, with_blobs: bool) -> None:
        state, folder = self._state, self._folder
        _write_changed(folder.identity, identity)
        for name, size in state.blobs.items() if with_blobs else ():
            self.file("blobs", name, size)
        for stem, part in state.parts.items():
            if f"{stem}.parquet" not in state.segments:
                self._part(stem, part)
        for name, segment in state.segments.items():
            self.file("segments", name, segment.size)
            sealed = parse_part_name(name, ".parquet")
            if sealed is not None:
                folder.part_path(sealed).unlink(missing_ok=True)
        if state.labels or folder.labels.exists():
            _write_changed(folder.labels, state.labels)
        self.live()

    def live(self) -> None:
        """Fetch the newest readings of machines."""
        for name in self._state.live:
            self._live(name)

    def drop_what_differs(self) -> None:
        """Remove copies of parts and segments that the hub no longer has, or has otherwise."""
        state, folder = self._state, self._folder
        for name in folder.parts():
            path, there = folder.part_path(name), state.parts.get(name.stem)
            if f"{name.stem}.parquet" in state.segments:
                continue  # it is replaced when the segment is here
            here = self._counts.state(path)
            is_same = there is not None and (here.lines < there.lines or here == there)
            if not is_same:
                path.unlink()
        for file, size in sizes(folder.segments, "segments").items():
            sealed = state.segments.get(file)
            if sealed is None or sealed.size != size:
                (folder.segments / file).unlink()

    def _part(self, stem: str, there: PartState) -> None:
        name = named_part(stem)
        path, sealed = self._folder.part_path(name), self._folder.sealed_path(name)
        if sealed.exists() and self._counts.sealed(sealed).lines >= there.lines:
            return
        path.parent.mkdir(exist_ok=True)
        have = self._cut_to_lines(path)
        while have < there.lines:
            lines = self._client.lines(self._run_id, stem, first=have)
            if not lines:
                return  # sealed meanwhile: the next fetch gets the segment
            with open(path, "ab") as file:
                file.write(lines)
            have += lines.count(b"\n")
        sealed.unlink(missing_ok=True)  # it was sealed here when it had fewer lines

    def _cut_to_lines(self, path: Path) -> int:
        """The whole lines of a copy; one that was interrupted ends within a line: that is cut."""
        lines, end = self._counts.whole(path)
        if path.exists() and path.stat().st_size > end:
            os.truncate(path, end)
        return lines

    def file(self, kind: FileKind, name: str, size: int) -> None:
        if not is_file_name(kind, name):
            raise UsageError(f"the hub names a file that no run has: {name!r}.")
        target = self._folder.path / kind / name
        if target.exists() and target.stat().st_size == size:
            return
        target.parent.mkdir(exist_ok=True)
        with replaced_file(target) as temporary, open(temporary, "wb") as out:
            if is_patch(name):
                temporary.chmod(0o600)
            offset = 0
            while offset < size:
                piece = self._client.file(self._run_id, kind, name, offset=offset)
                if not piece:
                    raise UsageError(f"{kind}/{name} became shorter on the hub meanwhile.")
                out.write(piece)
                offset += len(piece)

    def _live(self, name: str) -> None:
        if not is_file_name("live", name):
            raise UsageError(f"the hub names a file that no run has: {name!r}.")
        self._folder.live.mkdir(exist_ok=True)
        with contextlib.suppress(HubError, RunNotFoundError):  # gone since: the machine has ended
            data = self._client.file(self._run_id, "live", name, offset=0)
            with replaced_file(self._folder.live / name) as temporary:
                temporary.write_bytes(data)


def _write_changed(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON file unless it says the same already."""
    with contextlib.suppress(FileNotFoundError, FormatError):
        if read_json(path) == value:
            return
    write_json(path, value)
