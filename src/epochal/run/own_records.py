"""Reads the journal of a run in the process that writes it, a little more at each call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, RunFolder, rank_writer
from epochal.records import Record
from epochal.run.writing import RunWriter

if TYPE_CHECKING:
    from epochal.journal.diagnosis import Diagnosis
    from epochal.journal.reader import PartReader

_CHILD = "child-"


class OwnRecords:
    """The records of a run's own rank; each call of ``read`` continues where the last one ended.

    With ``writer``, they are those of another writer.
    """

    def __init__(self, *, writer: str | None = None) -> None:
        self._readers: dict[PartName, PartReader] = {}
        self._writer = writer

    def read(
        self, recorder: RunWriter, *, attempt: int | None = None
    ) -> Iterator[tuple[int, list[Record]]]:
        """Blocks of records with their attempt, older attempts first; of one attempt, if given."""
        folder, rank = recorder.folder, max(recorder.rank, 0)
        if not recorder.is_recorded:
            return
        writer = self._writer or rank_writer(rank)
        for name in sorted(folder.all_parts(), key=_by_attempt):
            is_own = name.writer == writer or (writer == LOOP and name.writer.startswith(_CHILD))
            if is_own and attempt in (None, name.attempt):
                for block in self._new_blocks(folder, name):
                    yield name.attempt, block

    def _new_blocks(self, folder: RunFolder, name: PartName) -> Iterator[list[Record]]:
        from epochal.journal.reader import PartReader, ShorterFileError

        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = PartReader(folder.part_path(name), name)
        try:
            yield from reader.read_blocks()
        except ShorterFileError:
            reader.recover()
        except FileNotFoundError:
            yield _sealed_records(folder, reader)


def _sealed_records(folder: RunFolder, reader: PartReader) -> list[Record]:
    from epochal.journal.segments.read import Segment  # loads pyarrow, for runs of many parts only

    records: list[Record] = []
    try:
        with Segment(folder.sealed_path(reader.name)) as segment:
            if reader.ordinal < segment.num_records:
                records = [record for _, record in segment.records(first=reader.ordinal)]
            reader.ordinal = segment.num_records
    except (FileNotFoundError, FormatError):  # being moved, or damaged: readers report that
        pass
    return records


def _by_attempt(name: PartName) -> tuple[int, bool, PartName]:
    """Older attempts first, children before rank 0 itself."""
    return name.attempt, not name.writer.startswith(_CHILD), name


def carried_diagnosis(recorder: RunWriter) -> Diagnosis:
    """The diagnosis that the companion wrote last; unknown before it has written any."""
    from epochal.journal.diagnosis import NOT_JUDGED
    from epochal.journal.summaries import read_summary

    row = recorder.guard.run("run.diagnosis", read_summary, str(recorder.folder.path))
    return NOT_JUDGED if row is None else row.diagnosis
