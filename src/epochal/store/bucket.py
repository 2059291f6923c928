"""A bucket: objects under keys, in a folder or in an object store (S3, GCS, Azure).

Keys are relative paths with ``/`` between their parts. An object appears whole or not at all, and
what ``put`` has returned for survives a power cut.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from epochal.base.atomic_file import make_folder, sync_folder
from epochal.errors import EpochalError, MissingPackageError, UsageError

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ObjectStore

_KEY_PART = re.compile(r"(?!\.{1,2}$)[^/\0]{1,255}")
BUCKET_SCHEMES = ("s3://", "gs://", "abfs://", "abfss://", "az://")
# A request is tried again for so long; then whoever waits is told that the bucket is away.
_RETRY_S = 10.0
_TIMEOUT_S = 30.0
_PART_BYTES = 16 << 20


class BucketError(EpochalError):
    """A bucket cannot be reached, or refuses a request."""


class ObjectNotFoundError(EpochalError, LookupError):
    """There is no object under a key."""


class StoredObject(NamedTuple):
    """An object of a listing; ``modified`` is in Unix seconds by the clock of the bucket."""

    key: str
    size: int
    modified: float


class Bucket(Protocol):
    """Objects under keys; several threads may use it.

    Every method raises ``BucketError`` where the bucket cannot be reached or refuses.
    """

    @property
    def address(self) -> str:
        """The address, without credentials."""

    def put(self, key: str, data: bytes | Path, *, replace: bool = False) -> bool:
        """Store an object, the content of a file if ``data`` is a path.

        False if there is one under this key, which stays unless ``replace`` is set.
        """

    def get(self, key: str) -> bytes:
        """The content of an object; raises ``ObjectNotFoundError``."""

    def get_ranges(self, key: str, ranges: Sequence[range]) -> list[bytes]:
        """Some ranges of an object, those beyond its end cut; raises ``ObjectNotFoundError``."""

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """The objects whose keys begin with a prefix, in no particular order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete objects; those that are not there are no error."""


def is_bucket_address(text: str) -> bool:
    """Whether a text is the address of an object store."""
    return text.startswith(BUCKET_SCHEMES)


def open_bucket(address: str) -> Bucket:
    """The bucket of an address such as ``s3://bucket/prefix``, or of a folder.

    Credentials and the endpoint come from the environment, as the store's own tools read them.
    """
    return ObjectBucket(address) if is_bucket_address(address) else FolderBucket(Path(address))


def pieces_of(bucket: Bucket, key: str, num_bytes: int) -> Iterator[bytes]:
    """The content of an object of so many bytes, in pieces: it may be larger than the memory."""
    for start in range(0, num_bytes, _PART_BYTES):
        yield from bucket.get_ranges(key, [range(start, min(start + _PART_BYTES, num_bytes))])


class FolderBucket:
    """Objects as files below a folder, which several machines may share."""

    def __init__(self, root: Path) -> None:
        self._root = root.expanduser().absolute()
        make_folder(self._root)

    @property
    def address(self) -> str:
        return str(self._root)

    def put(self, key: str, data: bytes | Path, *, replace: bool = False) -> bool:
        path = self._path(key)
        with _folder_errors(self.address):
            if not replace and path.exists():
                return False
            make_folder(path.parent)
            # A name of its own: machines that share the folder may write one key at a time.
            temporary = path.with_name(f".{secrets.token_hex(8)}.partial")
            try:
                _write_durably(temporary, data)
                if replace:
                    os.replace(temporary, path)
                else:
                    os.link(temporary, path)
            except FileExistsError:
                return False
            finally:
                with suppress(FileNotFoundError):
                    temporary.unlink()
            sync_folder(path.parent)
        return True

    def get(self, key: str) -> bytes:
        with _folder_errors(self.address, key):
            return self._path(key).read_bytes()

    def get_ranges(self, key: str, ranges: Sequence[range]) -> list[bytes]:
        with _folder_errors(self.address, key), open(self._path(key), "rb") as file:
            return [os.pread(file.fileno(), len(one), one.start) for one in ranges]

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        if not self._root.is_dir():
            raise BucketError(f"{self.address} is not there.")
        folder = self._root / prefix.rpartition("/")[0]
        for above, _, names in os.walk(folder):
            for name in names:
                path = Path(above, name)
                key = path.relative_to(self._root).as_posix()
                if key.startswith(prefix) and not name.endswith(".partial"):
                    with suppress(FileNotFoundError):  # deleted meanwhile
                        status = path.stat()
                        yield StoredObject(key, status.st_size, status.st_mtime)

    def delete(self, keys: Iterable[str]) -> None:
        with _folder_errors(self.address):
            for key in keys:
                self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._root / checked_key(key)


class ObjectBucket:
    """Objects in S3, GCS or Azure, or in a store that speaks the protocol of S3."""

    def __init__(self, address: str) -> None:
        self._store = _connect(address)
        self._address = address.rstrip("/")
        # Whether the store can be asked to store an object only if there is none.
        self.has_conditions = True

    @property
    def address(self) -> str:
        return self._address

    def put(self, key: str, data: bytes | Path, *, replace: bool = False) -> bool:
        if replace:
            self._send(key, data, "overwrite")
            return True
        if not self.has_conditions or _size_of(data) > _PART_BYTES:
            # Parts of a large object have no condition, and some stores know none at all. Keys of
            # objects that are never replaced name their content, so a second writer does no harm.
            if self._size(key) is not None:
                return False
            self._send(key, data, "overwrite")
            return True
        return self._create(key, data)

    def _create(self, key: str, data: bytes | Path) -> bool:
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        try:
            self._send(key, data, "create")
        except (AlreadyExistsError, PreconditionError) as error:
            # A store also says so of two that write at once, and of our own lost answer.
            if self._size(key) is None:
                raise BucketError(f"{self.address} refuses {key!r} for now: {error}.") from error
            return False
        except BucketError as error:
            if "501 Not Implemented" not in str(error.__cause__):
                raise
            self.has_conditions = False
            return self.put(key, data)
        return True

    def _send(self, key: str, data: bytes | Path, mode: PutMode) -> None:
        import obstore

        is_large = _size_of(data) > _PART_BYTES
        content = data.read_bytes() if isinstance(data, Path) and not is_large else data
        try:
            with self._errors(key):
                obstore.put(
                    self._store,
                    checked_key(key),
                    content,
                    mode=mode,
                    use_multipart=is_large,
                    chunk_size=_PART_BYTES,
                )
        except ObjectNotFoundError as error:
            raise BucketError(f"there is no bucket {self.address}: make it first.") from error

    def get(self, key: str) -> bytes:
        import obstore

        with self._errors(key):
            return bytes(obstore.get(self._store, checked_key(key)).bytes())

    def get_ranges(self, key: str, ranges: Sequence[range]) -> list[bytes]:
        import obstore

        starts, ends = [one.start for one in ranges], [one.stop for one in ranges]
        with self._errors(key):
            found = obstore.get_ranges(self._store, checked_key(key), starts=starts, ends=ends)
            return [bytes(piece) for piece in found]

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        import obstore

        # An object store lists below whole parts of keys.
        folder = prefix.rpartition("/")[0]
        with self._errors(prefix):
            for page in obstore.list(self._store, prefix=folder or None):
                for meta in page:
                    if meta["path"].startswith(prefix):
                        modified = meta["last_modified"].timestamp()
                        yield StoredObject(meta["path"], meta["size"], modified)

    def delete(self, keys: Iterable[str]) -> None:
        import obstore

        if checked := [checked_key(key) for key in keys]:
            with suppress(ObjectNotFoundError), self._errors(checked[0]):
                obstore.delete(self._store, checked)

    def _size(self, key: str) -> int | None:
        """The size of an object; None where there is none."""
        import obstore

        try:
            with self._errors(key):
                return int(obstore.head(self._store, checked_key(key))["size"])
        except ObjectNotFoundError:
            return None

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        """Raise what the store's client raises as our own errors."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            NotFoundError,
            PreconditionError,
        )

        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except (NotFoundError, FileNotFoundError) as error:
            raise ObjectNotFoundError(f"{self.address} has no object {key!r}.") from error
        except (BaseError, PermissionError) as error:
            reason = str(error).partition("\n")[0]
            raise BucketError(f"{self.address} cannot be used: {reason}.") from error


def checked_key(key: str) -> str:
    """A key that can be part of a path; raises ``UsageError`` for any other text."""
    if not all(_KEY_PART.fullmatch(part) for part in key.split("/")):
        raise UsageError(f"{key!r} is not the key of an object.")
    return key


def _connect(address: str) -> ObjectStore:
    try:
        from obstore.store import from_url
    except ModuleNotFoundError as error:
        raise MissingPackageError(address, error, extra="hub") from error
    options: Any = {}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        options = {"endpoint": endpoint} if address.startswith("s3://") else {}
    return from_url(
        address,
        client_options={
            "allow_http": True,
            "timeout": timedelta(seconds=_TIMEOUT_S),
            "connect_timeout": timedelta(seconds=5),
        },
        retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=_RETRY_S)},
        **options,
    )


@contextmanager
def _folder_errors(address: str, key: str = "") -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise ObjectNotFoundError(f"{address} has no object {key!r}.") from error
    except OSError as error:
        raise BucketError(f"{address} cannot be used: {error.strerror or error}.") from error


def _size_of(data: bytes | Path) -> int:
    return len(data) if isinstance(data, bytes) else data.stat().st_size


def _write_durably(path: Path, data: bytes | Path) -> None:
    with open(path, "xb") as file:
        if isinstance(data, Path):
            with open(data, "rb") as source:
                while block := source.read(_PART_BYTES):
                    file.write(block)
        else:
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
