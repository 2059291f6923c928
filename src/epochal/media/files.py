"""What kind of file some bytes are, and the name under which a run keeps them."""

from __future__ import annotations

import hashlib

from epochal.atomic_file import replaced_file
from epochal.journal.layout import RunFolder, is_patch
from epochal.records import Record

_SIGNATURES = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
}
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/bmp": ".bmp",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "audio/wav": ".wav",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/mpeg": ".mp3",
    "video/mp4": ".mp4",
    "application/json": ".json",
    "application/vnd.epochal.table+json": ".table.json",
    "text/html": ".html",
    "video/webm": ".webm",
    "video/ogg": ".ogv",
    "application/x-protobuf": ".pb",
    "application/onnx": ".onnx",
    "application/x-npy": ".npy",
    "application/x-npz": ".npz",
    "text/tab-separated-values": ".tsv",
}
UNKNOWN = "application/octet-stream"
# Columns and rows, which the page shows as a table.
TABLE = "application/vnd.epochal.table+json"
# The columns of a table that is a precision-recall curve, as ``add_pr_curve`` records it.
PR_CURVE_COLUMNS = ("threshold", "tp", "fp", "tn", "fn", "precision", "recall")


def media_type_of(data: bytes, *, otherwise: str = UNKNOWN) -> str:
    """The media type that the first bytes show."""
    if data.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], otherwise)
    return next((kind for sign, kind in _SIGNATURES.items() if data.startswith(sign)), otherwise)


def media_type_of_name(name: str) -> str:
    """The media type of a file name's suffix."""
    import mimetypes  # which takes longer to import than all of this module

    if name.endswith(".table.json"):
        return TABLE
    kind = mimetypes.guess_type(name)[0] or UNKNOWN
    return {"audio/x-wav": "audio/wav"}.get(kind, kind)


def blob_record(name: str, data: bytes, *, t: float, step: int, media_type: str) -> Record:
    """The record that names some bytes by what they are, so that equal ones are kept once."""
    digest = hashlib.sha256(data).hexdigest()[:32]
    return {
        "log": "blob",
        "t": t,
        "step": step,
        "name": name,
        "file": digest + _SUFFIXES.get(media_type, ".bin"),
        "media_type": media_type,
        "bytes": len(data),
    }


def store_blob(folder: RunFolder, file_name: str, data: bytes) -> None:
    """Write a blob once, under a name that says what it holds; raises OSError when it cannot."""
    path = folder.blobs / file_name
    if path.exists():
        return
    folder.blobs.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as temporary:
        if is_patch(file_name):
            temporary.touch(0o600)
        temporary.write_bytes(data)
