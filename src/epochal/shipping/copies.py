"""Restores damaged files of a run from the copy that a hub has.

A copy is read and verified before it takes the place of a file, so that a damaged copy never does.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from epochal.base.atomic_file import replaced_file, sync_folder
from epochal.errors import FormatError, UsageError
from epochal.journal.blobs import blob_is_whole
from epochal.journal.layout import PartName, RunFolder, is_patch, read_json
from epochal.journal.line import decode_whole
from epochal.journal.segments.parts import is_sealable
from epochal.journal.segments.read import Segment
from epochal.journal.segments.seal import seal_part
from epochal.journal.segments.verify import segment_fault
from epochal.shipping.client import HubClient
from epochal.shipping.offering import json_or_empty, named_part
from epochal.shipping.protocol import FileKind
from epochal.shipping.shipper import HUB_FILE


def hub_of(folder: RunFolder) -> str | None:
    """The address of the hub that has a copy of a run, as far as its folder says so."""
    kept = json_or_empty(folder.path / HUB_FILE)
    address = kept.get("url") or kept.get("fetched_from")
    return address if isinstance(address, str) else None


def seal_again(folder: RunFolder, name: PartName) -> None:
    """Make a damaged segment again from the journal part beside it.

    Raises ``UsageError`` if the two hold different records.
    """
    if is_sealable(folder, name):
        seal_part(folder, name).close()
    else:  # readers take the journal part, and it is sealed later
        folder.sealed_path(name).unlink()


class HubCopy:
    """The copy of one run on a hub; raises ``HubError`` where the hub cannot be asked."""

    def __init__(self, client: HubClient, folder: RunFolder) -> None:
        self._client = client
        self._folder = folder
        self._run_id = str(read_json(folder.identity).get("id", ""))
        self._state = client.state(self._run_id)

    def restore(self, file: str) -> None:
        """Fetch a file, such as ``blobs/NAME``, in place of what is here.

        Raises ``FormatError`` or ``UsageError`` if the hub has no good copy of it.
        """
        kind, _, name = file.partition("/")
        if kind == "blobs":
            self._fetch_file("blobs", name, self._state.blobs)
            return
        part = named_part(name.rpartition(".")[0])
        sizes = {name: segment.size for name, segment in self._state.segments.items()}
        if f"{part.stem}.parquet" in sizes and not self._folder.part_path(part).exists():
            self._fetch_file("segments", f"{part.stem}.parquet", sizes)
        elif part.stem not in self._state.parts:
            raise UsageError("it has no copy of this file")
        elif kind == "segments":
            self._fetch_lines_of_segment(part)
        else:
            self._fetch_lines(part)

    def _fetch_file(self, kind: FileKind, name: str, sizes: Mapping[str, int]) -> None:
        """Put a whole copy of a segment or a blob in its place."""
        if name not in sizes:
            raise UsageError("it has no copy of this file")
        target, folder = self._folder.path / kind / name, self._folder.path
        with tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as scratch:
            copy = Path(scratch) / name
            with open(copy, "wb") as out:
                while out.tell() < sizes[name] and (
                    piece := self._client.file(self._run_id, kind, name, offset=out.tell())
                ):
                    out.write(piece)
                out.flush()
                os.fsync(out.fileno())
            is_good = _is_same_part(copy, target) if kind == "segments" else blob_is_whole(copy)
            if is_good is False:
                raise FormatError("its copy is not whole, either")
            if is_patch(name):
                copy.chmod(0o600)
            target.parent.mkdir(exist_ok=True)
            os.replace(copy, target)
        sync_folder(target.parent)

    def _fetch_lines_of_segment(self, part: PartName) -> None:
        """Fetch the lines that a segment was made of, and make it again."""
        with Segment(self._folder.sealed_path(part)) as segment:
            made_of = (segment.footer.journal_bytes, segment.footer.journal_crc)
        text = self._lines(part)
        if (len(text), zlib.crc32(text)) != made_of:
            raise UsageError("its lines are not those that this file was made of")
        self._write_part(part, text)
        seal_again(self._folder, part)

    def _fetch_lines(self, part: PartName) -> None:
        """Fetch the lines of a journal part; what is whole here has to be the same there."""
        path = self._folder.part_path(part)
        ours = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
        text = self._lines(part)
        theirs = text.split(b"\n")[:-1]
        pairs = list(zip(ours, theirs, strict=False))
        if len(pairs) < len(ours) or any(a != b and decode_whole(a) is not None for a, b in pairs):
            raise UsageError("it has other lines than this file")
        if any(decode_whole(line) is None for line in theirs if line):
            raise FormatError("its copy is not whole, either")
        self._write_part(part, text)

    def _lines(self, part: PartName) -> bytes:
        text = b""
        while lines := self._client.lines(self._run_id, part.stem, first=text.count(b"\n")):
            text += lines
        return text

    def _write_part(self, part: PartName, text: bytes) -> None:
        path = self._folder.part_path(part)
        path.parent.mkdir(exist_ok=True)
        with replaced_file(path, durable=True) as temporary:
            temporary.write_bytes(text)


def _is_same_part(copy: Path, target: Path) -> bool:
    """Whether a segment is whole and, as far as the damaged one can tell, of the same records."""
    if segment_fault(copy) is not None:
        return False
    with contextlib.suppress(FormatError, FileNotFoundError):
        return _journal_crc(copy) == _journal_crc(target)
    return True


def _journal_crc(path: Path) -> int:
    with Segment(path) as segment:
        return segment.footer.journal_crc
