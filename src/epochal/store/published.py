"""What a bucket says of its runs, so that they can be read without the hub that filled it.

<prefix>/bucket.json                     the projects, and the number of the index of each
<prefix>/<project>/index.jsonl.zst       a line for every run of the project
<prefix>/<project>/<run>/parts.json      which objects the run has; written after all others
<prefix>/<project>/<run>/run.json  labels.json  summary.json  metrics.json
<prefix>/<project>/<run>/segments/  blobs/  uploads/

Readers believe these files and never list objects. A key is relative to the prefix, so a copy of
all objects is readable elsewhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from epochal.errors import FormatError, UsageError
from epochal.shipping.protocol import FileKind
from epochal.store.bucket import Bucket, ObjectNotFoundError

VERSION = 1
BUCKET_FILE = "bucket.json"
# What the bucket has of every run beside its objects.
RUN_FILES = ("parts.json", "run.json", "labels.json", "summary.json", "metrics.json")
_DIGEST_CHARS = 16
INDEX_NAME = "index.jsonl.zst"
_LEVEL = 1
# An optional ``Raw`` is decoded as null alone.
_NULL = msgspec.Raw(b"null")
T = TypeVar("T")


class PublishedPart(msgspec.Struct, frozen=True, kw_only=True):
    """A part: the first ``sealed`` of its ``records`` lines are in an object, if there is one.

    ``last_crc`` is of the last of these lines; 0 where the sender has sealed the part.
    """

    records: int
    sealed: int = 0
    object: str | None = None
    size: int = 0
    sha256: str = ""
    last_crc: int = 0


class PublishedBlob(msgspec.Struct, frozen=True, kw_only=True):
    """A blob: its object, size in bytes and digest."""

    object: str
    size: int
    sha256: str


class PublishedParts(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``parts.json``: parts by stem, and blobs by name.

    ``changed`` is the number of the last change that it has.
    """

    v: int = VERSION
    id: str
    changed: int
    parts: Mapping[str, PublishedPart] = {}
    blobs: Mapping[str, PublishedBlob] = {}


class PublishedRun(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A line of an index; times in Unix seconds. ``identity`` is what lists need of ``run.json``.

    ``summary`` is null for a run whose sender has sent none. ``removed`` is when the run was moved
    to the trash, and ``writer`` the name of the token that sent it first.
    """

    id: str
    slug: str
    changed: int
    received: float
    identity: msgspec.Raw
    labels: msgspec.Raw
    summary: msgspec.Raw = _NULL
    writer: str = ""
    stored_bytes: int = 0
    removed: float | None = None


class PublishedBucket(msgspec.Struct, frozen=True, kw_only=True):
    """The content of ``bucket.json``: the number of each project's index, another for another.

    ``database`` identifies the database whose hubs fill the bucket, and ``changed`` is the number
    of its newest change.
    """

    v: int = VERSION
    database: str = ""
    changed: int = 0
    projects: Mapping[str, int] = {}


def summary_of(run: PublishedRun) -> bytes | None:
    """The summary of a run as its sender sent it."""
    text = bytes(run.summary)
    return None if text == b"null" else text


def object_key(folder: str, kind: FileKind, name: str, sha256: str) -> str:
    """The key of a whole file: another content has another one."""
    stem, dot, ending = name.rpartition(".")
    digest = sha256[:_DIGEST_CHARS]
    return f"{folder}/{kind}/{stem or ending}-{digest}{dot}{ending if stem else ''}"


def upload_prefix(folder: str, kind: FileKind, name: str, sha256: str) -> str:
    """Below which the pieces of a file are, until all of them are there."""
    digest = hashlib.sha256(f"{kind}/{name}/{sha256}".encode()).hexdigest()
    return f"{folder}/uploads/{digest[: 2 * _DIGEST_CHARS]}"


def is_bucket_folder(path: str | Path) -> bool:
    """Whether a folder is a bucket, or the copy of one."""
    return (Path(path) / BUCKET_FILE).is_file()


def write_parts(bucket: Bucket, folder: str, parts: PublishedParts) -> None:
    """Replace ``parts.json`` of a run; all objects that it names are there."""
    bucket.put(f"{folder}/parts.json", msgspec.json.encode(parts), replace=True)


def read_parts(bucket: Bucket, folder: str) -> PublishedParts:
    """Which objects a run has; raises ``ObjectNotFoundError``."""
    return _decoded(bucket, f"{folder}/parts.json", PublishedParts)


def read_metrics(bucket: Bucket, folder: str) -> bytes | None:
    """What its sender said of all series of a run; None where it said nothing."""
    try:
        return bucket.get(f"{folder}/metrics.json")
    except ObjectNotFoundError:
        return None


def write_bucket(bucket: Bucket, content: PublishedBucket) -> None:
    """Replace ``bucket.json``; the indexes that it names are there."""
    bucket.put(BUCKET_FILE, msgspec.json.encode(content), replace=True)


def read_bucket(bucket: Bucket) -> PublishedBucket:
    """The projects of a bucket; raises ``UsageError`` where no hub has filled it."""
    content = find_bucket(bucket)
    if content is None:
        raise UsageError(f"{bucket.address} has no {BUCKET_FILE}: no hub has published runs there.")
    return content


def find_bucket(bucket: Bucket) -> PublishedBucket | None:
    """The projects of a bucket; None where no hub has filled it."""
    try:
        return _decoded(bucket, BUCKET_FILE, PublishedBucket)
    except ObjectNotFoundError:
        return None


def write_index(bucket: Bucket, project: str, runs: Iterable[PublishedRun]) -> None:
    """Replace the index of a project."""
    import pyarrow as pa

    text = msgspec.json.Encoder().encode_lines(runs)
    packed = pa.Codec("zstd", compression_level=_LEVEL).compress(text, asbytes=True)
    bucket.put(f"{project}/{INDEX_NAME}", packed, replace=True)


def read_index(bucket: Bucket, project: str) -> Sequence[PublishedRun]:
    """The runs of a project, those in the trash as well; none where there is no index."""
    import pyarrow as pa

    key = f"{project}/{INDEX_NAME}"
    try:
        packed = pa.BufferReader(bucket.get(key))
        text = pa.input_stream(packed, compression="zstd").read()
        return msgspec.json.Decoder(PublishedRun).decode_lines(text)
    except ObjectNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise FormatError(f"{key} of {bucket.address} is damaged: {error}.") from error


def _decoded(bucket: Bucket, key: str, kind: type[T]) -> T:
    try:
        content = msgspec.json.decode(bucket.get(key), type=kind)
    except msgspec.DecodeError as error:
        raise FormatError(f"{key} of {bucket.address} is damaged: {error}.") from error
    if getattr(content, "v", VERSION) > VERSION:
        raise FormatError(
            f"{bucket.address} was filled by a newer Epochal: upgrade with 'pip install -U"
            " epochal'."
        )
    return content
