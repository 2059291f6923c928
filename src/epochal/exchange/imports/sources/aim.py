"""Aim's repositories (a folder ``.aim``), read through the package aim, which must be installed.

Aim keeps each run in a database of its own. Its interface for reading uses an index that only
``aim up`` makes; here the databases of the runs are read. Nothing is written to the repository.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from epochal.errors import FormatError, MissingPackageError
from epochal.exchange.imports.foreign import (
    Batch,
    FileRun,
    FileSignature,
    Identity,
    RecordList,
    batches_of,
    file_signature,
    stable_id,
)
from epochal.exchange.imports.histogram import histogram_record
from epochal.journal.blobs import PLOTLY, blob_record, media_type_of
from epochal.records import Record

# What Aim calls the values of a sequence.
_NUMBERS, _TEXT, _HISTOGRAM = "float", "aim.text", "aim.distribution"
_FILES = ("aim.image", "aim.audio", "aim.figure")
_SYSTEM = "__system__"


def find(place: str) -> AimRepository | None:
    """The runs of a repository: the folder ``.aim``, or one that has it; None for others."""
    folder = Path(place).expanduser().absolute()
    if folder.name != ".aim":
        folder = folder / ".aim"
    return AimRepository(folder) if (folder / "meta" / "chunks").is_dir() else None


class AimRepository:
    """A repository on disk."""

    label = "Aim"

    def __init__(self, path: Path) -> None:
        self.path = path

    def runs(self) -> Sequence[AimRun]:
        """Every run; raises ``MissingPackageError`` without Aim, ``FormatError`` for damage."""
        repo = _opened(self.path)
        hashes = sorted(folder.name for folder in (self.path / "meta" / "chunks").iterdir())
        return [AimRun(repo, self.path, hash_) for hash_ in hashes]


class AimRun(FileRun):
    """One run of a repository; raises ``FormatError`` where its database is damaged."""

    def __init__(self, repo: Any, path: Path, hash_: str) -> None:
        super().__init__(path, hash_)
        self._repo = repo

    @cached_property
    def _run(self) -> Any:
        return self._repo.opened(self.key)

    @cached_property
    def identity(self) -> Identity:
        """Name, experiment, tags and notes; the attributes are the configuration."""
        with self._explained():
            props = self._run.props
            attributes = dict(self._run.get(...) or {})
            system = attributes.pop("__system_params", None)
            hparams = attributes.pop("hparams", None)
            lifted = hparams if isinstance(hparams, Mapping) else {"hparams": hparams}
            return Identity(
                id=self.key,
                # Aim's own name of a run has the hash in it.
                name=self.key if props.name in (None, "", f"Run: {self.key}") else str(props.name),
                project=str(props.experiment or "aim"),
                created=float(props.creation_time),
                config={**attributes, **{k: v for k, v in lifted.items() if v is not None}},
                tags=tuple(props.tags),
                notes=props.description or None,
                facts={"source": str(self.path), "aim_system_params": system or {}},
            )

    def signature(self) -> FileSignature:
        """A digest of the names, sizes and times of the run's files."""
        folders = [self.path / part / "chunks" / self.key for part in ("meta", "seqs")]
        files = sorted(file for folder in folders if folder.is_dir() for file in folder.iterdir())
        return ((stable_id(file_signature(*files)), 0, 0),)

    def read_new(self) -> Iterator[Batch]:
        """Metrics, texts, distributions, images and sounds; the end, if the run was closed."""
        latest = self.identity.created or 0.0
        with self._explained():
            for records in self._metrics():
                latest = max(latest, float(records[-1]["t"]))
                yield Batch(records)
            yield from batches_of(self._records())
            end = None
            with contextlib.suppress(KeyError):
                end = self._run.meta_run_tree["end_time"]
            if isinstance(end, (int, float)) and math.isfinite(end):
                record: Record = {"log": "finish", "t": max(end, latest), "status": "finished"}
                yield Batch([record])

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        from aim.sdk.errors import RepoIntegrityError
        from aimrocks import errors

        damage = (errors.Corruption, errors.RocksIOError, errors.NotFound, errors.InvalidArgument)
        unlike = (KeyError, ValueError, TypeError, AttributeError, SystemError, AssertionError)
        try:
            yield
        except (RepoIntegrityError, *damage, *unlike) as error:
            raise FormatError(
                f"run {self.key} of the Aim repository {self.path} cannot be read: {error}."
            ) from error

    def _sequences(self, kind: str) -> Iterator[tuple[str, Any]]:
        from aim.sdk.sequences.sequence_type_map import SEQUENCE_TYPE_MAP

        for name, context, _ in self._run.iter_sequence_info_by_type(kind):
            sequence = self._run._get_sequence(SEQUENCE_TYPE_MAP[kind], name, context)
            if sequence is not None:
                yield series_name(name, context.to_dict()), sequence

    def _metrics(self) -> Iterator[RecordList]:
        for name, sequence in self._sequences(_NUMBERS):
            steps, (values, _, times) = sequence.data.numpy()
            records = RecordList()
            for number in np.argsort(times, kind="stable").tolist():
                step, t = int(steps[number]), round(float(times[number]), 3)
                records.add_point(name, float(values[number]), step=step, t=t)
            if records:
                yield records

    def _records(self) -> Iterator[Record]:
        for kind in (_TEXT, _HISTOGRAM, *_FILES):
            for name, sequence in self._sequences(kind):
                steps, (values, _, times) = sequence.data.items_list()
                for step, given, t in zip(steps, values, times, strict=True):
                    for index, value in enumerate(given if isinstance(given, list) else [given]):
                        record = self._record(kind, name, value, t=float(t), step=int(step))
                        yield {**record, "index": index} if isinstance(given, list) else record

    def _record(self, kind: str, name: str, value: Any, *, t: float, step: int) -> Record:
        if kind == _TEXT:
            return {"log": "text", "t": t, "step": step, "name": name, "text": str(value.data)}
        if kind == _HISTOGRAM:
            counts, edges = value.to_np_histogram()
            return histogram_record(name, t=t, step=step, edges=edges, counts=counts)
        data = value.storage["data"]
        content = data.load() if hasattr(data, "load") else bytes(data)
        content = content.encode() if isinstance(content, str) else content
        media_type = PLOTLY if kind == "aim.figure" else media_type_of(content)
        record = blob_record(name, content, t=t, step=step, media_type=media_type)
        self._blobs[record["file"]] = content
        if getattr(value, "caption", ""):
            record["caption"] = value.caption
        return record


def series_name(name: str, context: Mapping[str, Any]) -> str:
    """A name in which the context stands: ``train/loss`` for a subset, else ``loss/gpu=0``."""
    if name.startswith(_SYSTEM):
        name = f"system/{name.removeprefix(_SYSTEM)}"
    if list(context) == ["subset"]:
        return f"{context['subset']}/{name}"
    return "/".join([name, *(f"{key}={value}" for key, value in sorted(context.items()))])


def _opened(path: Path) -> Any:
    try:
        from aim import Repo, Run
    except ModuleNotFoundError as error:
        raise MissingPackageError(f"importing the Aim repository {path}", error) from error

    class ChunkRepo(Repo):  # type: ignore[misc]
        """A repository that reads a run's own database where Aim would read the index."""

        _chunk: str | None = None

        def request_tree(self, name: str, sub: str | None = None, **options: Any) -> Any:
            return super().request_tree(name, sub or self._chunk, **options)

        def opened(self, hash_: str) -> Any:
            self._chunk = hash_
            return Run(hash_, repo=self, read_only=True)

    try:
        return ChunkRepo(str(path.parent))
    except (OSError, RuntimeError, ValueError, AssertionError) as error:
        raise FormatError(f"{path} cannot be opened as an Aim repository: {error}.") from error
