"""Files that a hub is receiving: each has a name of its own until it is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from epochal.errors import FormatError
from epochal.hub.inbox import ConflictError, Inbox
from epochal.journal.layout import RunFolder, read_json
from epochal.shipping.protocol import PARTIAL_NAME, FileKind
from epochal.shipping.shipper import file_digest

_PARTIAL = re.compile(
    re.escape(PARTIAL_NAME).replace(r"\{name\}", "(.+)").replace(r"\{digest\}", "([0-9a-f]{16})")
)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file that was not received to its end; all its bytes may be here all the same."""

    folder: RunFolder
    kind: FileKind
    name: str
    path: Path
    size: int
    sha256: str
    is_whole: bool


def interrupted_uploads(folder: RunFolder) -> Iterator[Upload]:
    """The uploads of a run that were not completed."""
    for kind in get_args(FileKind):
        for path in sorted((folder.path / kind).glob(".*.partial")):
            named = _PARTIAL.fullmatch(path.name)
            if named is not None:
                sha256, size = file_digest(path)
                yield Upload(
                    folder, kind, named[1], path, size, sha256, sha256.startswith(named[2])
                )


def settle_upload(root: Path, upload: Upload) -> str:
    """Complete an upload whose bytes are all here, else delete it; what was done, as a sentence.

    Only while no hub runs over ``root``. A complete upload is deleted only if its contents cannot
    be used. If the run itself cannot be identified, the upload stays and an error is raised.
    """
    if not upload.is_whole:
        upload.path.unlink()
        return f"{upload.kind}/{upload.name}: deleted an incomplete upload; push the run again."
    run_id = str(read_json(upload.folder.identity).get("id"))
    try:
        Inbox(root).put_file(
            run_id, upload.kind, upload.name, b"", offset=0, size=upload.size, sha256=upload.sha256
        )
    except (ConflictError, FormatError) as error:
        upload.path.unlink(missing_ok=True)
        return f"{upload.kind}/{upload.name}: deleted an upload that cannot be used: {error}"
    return f"{upload.kind}/{upload.name}: completed an upload of {upload.size:,} bytes."
