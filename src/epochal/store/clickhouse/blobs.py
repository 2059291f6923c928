"""Where the blobs of runs are: in the tables, in a folder that all hubs see, or in a bucket."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from epochal.atomic_file import replaced_file
from epochal.errors import MissingPackageError, UsageError
from epochal.store.clickhouse.connection import ClickHouseError

PIECE_BYTES = 1 << 20
_GIVE_UP_S = 20


class Blobs(Protocol):
    """The blobs of runs, by run and name; one that is there never changes."""

    def put(self, run_id: str, name: str, path: Path) -> None:
        """Store a file; returns when it is stored. Raises ``OSError``."""

    def sizes(self, run_id: str) -> dict[str, int]:
        """The blobs of a run that are whole, with their sizes in bytes."""

    def pieces(self, run_id: str, name: str, *, size: int) -> Iterator[bytes]:
        """The contents of a blob."""

    def erase(self, run_id: str) -> None:
        """Delete the blobs of a run for ever."""


class FolderBlobs:
    """Blobs in a folder on a disk that all hubs see: ``<run>/<name>``."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(parents=True, exist_ok=True)

    def put(self, run_id: str, name: str, path: Path) -> None:
        """Store a file."""
        target = self._root / run_id / name
        target.parent.mkdir(exist_ok=True)
        with replaced_file(target, durable=True) as temporary:
            shutil.copyfile(path, temporary)

    def sizes(self, run_id: str) -> dict[str, int]:
        """The blobs of a run, with their sizes in bytes."""
        folder = self._root / run_id
        files = folder.iterdir() if folder.is_dir() else ()
        return {path.name: path.stat().st_size for path in files if path.name[0] != "."}

    def pieces(self, run_id: str, name: str, *, size: int) -> Iterator[bytes]:
        """The contents of a blob."""
        with open(self._root / run_id / name, "rb") as file:
            yield from iter(lambda: file.read(PIECE_BYTES), b"")

    def erase(self, run_id: str) -> None:
        """Delete the blobs of a run for ever."""
        shutil.rmtree(self._root / run_id, ignore_errors=True)


class BucketBlobs:
    """Blobs in a bucket; account and endpoint come from the variables of AWS's own tools."""

    def __init__(self, url: str) -> None:
        try:
            import obstore
            from obstore import store as stores
            from obstore.exceptions import BaseError
        except ModuleNotFoundError as error:
            raise MissingPackageError("--blobs s3://", error) from None
        self._url = url
        self._obstore = obstore
        self._faults: tuple[type[Exception], ...] = (BaseError, OSError)
        # Its types differ between versions.
        from_url: Any = stores.from_url
        retries = {"max_retries": 2, "retry_timeout": timedelta(seconds=_GIVE_UP_S)}
        try:
            self._store: Any = from_url(
                url, client_options={"allow_http": True}, retry_config=retries
            )
        except BaseError as error:
            raise UsageError(f"--blobs {url}: {_first_line(error)}.") from error

    def put(self, run_id: str, name: str, path: Path) -> None:
        """Store a file."""
        with open(path, "rb") as file:
            self._try(self._obstore.put, self._store, f"{run_id}/{name}", file)

    def sizes(self, run_id: str) -> dict[str, int]:
        """The blobs of a run, with their sizes in bytes."""
        found: list[dict[str, Any]] = self._try(
            lambda: [one for many in self._obstore.list(self._store, f"{run_id}/") for one in many]
        )
        return {one["path"].rpartition("/")[2]: int(one["size"]) for one in found}

    def pieces(self, run_id: str, name: str, *, size: int) -> Iterator[bytes]:
        """The contents of a blob."""
        for start in range(0, size, PIECE_BYTES):
            length = min(PIECE_BYTES, size - start)
            place = f"{run_id}/{name}"
            yield bytes(
                self._try(self._obstore.get_range, self._store, place, start=start, length=length)
            )

    def erase(self, run_id: str) -> None:
        """Delete the blobs of a run for ever."""
        paths = [f"{run_id}/{name}" for name in self.sizes(run_id)]
        if paths:
            self._try(self._obstore.delete, self._store, paths)

    def _try(self, call: Any, *args: Any, **named: Any) -> Any:
        try:
            return call(*args, **named)
        except self._faults as error:
            raise ClickHouseError(
                f"the bucket {self._url} refuses: {_first_line(error)}."
            ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")[:300]


def open_blobs(place: str) -> Blobs:
    """The blobs in a folder or in a bucket; raises ``UsageError``."""
    if place.startswith("s3://"):
        return BucketBlobs(place)
    if "://" in place:
        raise UsageError(f"--blobs {place}: give a folder, or s3://bucket/prefix.")
    return FolderBlobs(Path(place).expanduser().absolute())
