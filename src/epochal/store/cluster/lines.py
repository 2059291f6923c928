"""The newest lines of runs as rows of the database: blocks that zstd compresses.

What keeps lines unique is the row of their part, which counts them and is locked meanwhile.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from epochal.errors import EpochalError, FormatError, RunNotFoundError
from epochal.journal.line import decode
from epochal.shipping.protocol import BATCH_BYTES, lines_after
from epochal.store.cluster.usage import add_bytes, bytes_by

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor


# Called with a writer and the bytes that are about to be stored; raises where they do not fit.
Charge: TypeAlias = Callable[[str, int], None]
# Makes one, given how much is stored of each writer.
Charging: TypeAlias = Callable[[Mapping[str, int]], Charge]


class Block(NamedTuple):
    """Whole lines of a part, the first with this ordinal."""

    run: str
    stem: str
    first: int
    lines: bytes


def unknown_run(run_id: str) -> RunNotFoundError:
    """The error about a run that is not here."""
    return RunNotFoundError(f"the hub does not know the run {run_id}.")


def append_lines(
    cursor: Cursor, blocks: Sequence[Block], charging: Charging | None = None
) -> list[int | EpochalError]:
    """Store blocks of many parts; how many lines each has then, or why it was not stored."""
    found = _lock_parts(cursor, {(block.run, block.stem) for block in blocks})
    charge = None if charging is None else charging(bytes_by(cursor, "writer"))
    have = {key: records for key, (records, _) in found.items()}
    before = dict(have)
    answers: list[int | EpochalError] = []
    new: list[Block] = []
    for block in blocks:
        known = have.get((block.run, block.stem))
        if known is None:
            answers.append(unknown_run(block.run))
            continue
        if block.first <= known and (lines := lines_after(block.lines, known - block.first)):
            try:
                if charge is not None:
                    charge(found[block.run, block.stem][1], len(lines))
            except EpochalError as error:  # the blocks of others are stored
                answers.append(error)
                continue
            new.append(Block(block.run, block.stem, known, lines))
            known += lines.count(b"\n")
            have[block.run, block.stem] = known
        answers.append(known)
    if new:
        _store(cursor, new, {key: num for key, num in have.items() if num != before[key]})
    return answers


def _lock_parts(
    cursor: Cursor, keys: set[tuple[str, str]]
) -> dict[tuple[str, str], tuple[int, str]]:
    """How many lines some parts have, which are locked, and whose they are.

    Nothing for runs that are not here.
    """
    text = (
        "select run, stem, records, writer from epochal.parts"
        " join unnest(%s::text[], %s::text[]) as asked(run, stem) using (run, stem)"
        " join epochal.runs on runs.id = parts.run"
        " where runs.removed is null order by run, stem for update of parts"
    )

    def lock(some: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[int, str]]:
        runs, stems = [run for run, _ in some], [stem for _, stem in some]
        rows = cursor.execute(text, (runs, stems)).fetchall()
        return {(run, stem): (records, writer) for run, stem, records, writer in rows}

    found = lock(sorted(keys))
    if missing := sorted(keys - found.keys()):
        cursor.execute(
            "insert into epochal.parts (run, stem)"
            " select id, stem from unnest(%s::text[], %s::text[]) as asked(id, stem)"
            " join epochal.runs using (id) where removed is null"
            " order by id, stem on conflict do nothing",
            ([run for run, _ in missing], [stem for _, stem in missing]),
        )
        found |= lock(missing)
    return found


def _store(cursor: Cursor, new: Sequence[Block], have: Mapping[tuple[str, str], int]) -> None:
    """Store blocks that follow what is there, and count them."""
    last_lines = {(block.run, block.stem): block.lines for block in new}
    ends = [_last_line(last_lines[key]) for key in have]
    text = (
        "copy epochal.lines (run, stem, first, num_lines, num_bytes, data)"
        " from stdin (format binary)"
    )
    codec = _codec()
    with cursor.copy(text) as copy:
        copy.set_types(["text", "text", "int8", "int4", "int4", "bytea"])
        for block in new:
            sizes = block.lines.count(b"\n"), len(block.lines)
            copy.write_row((*block[:3], *sizes, codec.compress(block.lines, asbytes=True)))
    cursor.execute(
        "update epochal.parts set records = new.records, last_crc = new.crc, received = now(),"
        " is_finished = new.is_finished, unsealed = coalesce(unsealed, now())"
        " from unnest(%s::text[], %s::text[], %s::int8[], %s::int8[], %s::bool[])"
        " as new(run, stem, records, crc, is_finished)"
        " where parts.run = new.run and parts.stem = new.stem",
        (
            *([run for run, _ in have], [stem for _, stem in have], list(have.values())),
            *(list(map(zlib.crc32, ends)), list(map(_is_finish, ends))),
        ),
    )
    added: Counter[str] = Counter()
    for block in new:
        added[block.run] += len(block.lines)
    add_bytes(cursor, added, is_received=True)


def _codec() -> Any:
    import pyarrow as pa

    return pa.Codec("zstd", compression_level=1)


def _is_finish(line: bytes) -> bool:
    """Whether a line is the end of an attempt."""
    record = decode(line[:-1]) if b'"finish"' in line else None
    return record is not None and record.get("log") == "finish"


def _last_line(lines: bytes) -> bytes:
    return lines[lines.rfind(b"\n", 0, -1) + 1 :]


def read_lines(cursor: Cursor, run_id: str, stem: str, first: int) -> bytes:
    """Lines of a part that are not in an object, about as many as fit in one batch."""
    text = (
        "select first, num_lines, num_bytes, data from (select first, num_lines, num_bytes, data,"
        " sum(num_bytes) over (order by first) - num_bytes as before from epochal.lines"
        " where run = %s and stem = %s and first + num_lines > %s and first >= coalesce(("
        "select max(first) from epochal.lines where run = %s and stem = %s and first <= %s), 0)"
        ") as blocks where before < %s order by first"
    )
    found, expected, codec = b"", first, _codec()
    asked = (run_id, stem, first)
    rows = cursor.execute(text, (*asked, *asked, BATCH_BYTES))
    for start, num_lines, num_bytes, data in rows:
        if start > expected:
            raise FormatError(f"lines {expected} to {start - 1} of {stem} are missing.")
        lines = codec.decompress(data, num_bytes, asbytes=True)
        found += lines_after(lines, expected - start)
        expected = start + num_lines
    return found
