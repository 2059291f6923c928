"""The entries of an archive: as many as fit, chosen as the endpoint table says.

A source keeps its entries evenly over steps, the newest, or all. An entry that would take more than
a quarter of the space is left out. A sample whose files do not fit is left out with its entry;
files that the user keeps are listed without their bytes.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from epochal.errors import EpochalError
from epochal.journal.blobs import files_of
from epochal.server.downloads import INLINE_TYPE
from epochal.server.endpoints import ENDPOINTS
from epochal.server.entries import EntrySource, evenly
from epochal.server.updates import entry_row
from epochal.server.wire import EntryList, EntryRow
from epochal.store.answers import Entry
from epochal.store.store import RunView

# Limits of entries per name, tried from the left.
_CAPS = (5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)
# Log lines are small beside histograms, so more of them are kept.
_LOG_FACTOR = 5
SOURCES: Mapping[str, EntrySource] = {
    endpoint.name: endpoint.archive
    for endpoint in ENDPOINTS
    if isinstance(endpoint.archive, EntrySource)
}
_DATA_URL_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Group:
    """Entries of one endpoint that share one limit."""

    run_id: str
    endpoint: str
    rows: Sequence[EntryRow]
    sizes: Sequence[int]

    def kept(self, cap: int) -> list[int]:
        """The indices of the entries that stay under a limit."""
        keep, num_rows = SOURCES[self.endpoint].keep, len(self.rows)
        if keep == "evenly":
            return list(evenly(num_rows, cap))
        limit = cap * _LOG_FACTOR if self.endpoint == "log" else cap
        first = 0 if keep == "all" else max(num_rows - limit, 0)
        return list(range(first, num_rows))


def pack_entries(runs: Sequence[RunView], *, budget_bytes: int) -> dict[str, dict[str, EntryList]]:
    """Entries by run and endpoint, without those of samples that are files."""
    groups = [group for run in runs for group in _groups(run)]
    kept: list[list[int]] = []
    for cap in _CAPS:
        kept = [
            [place for place in group.kept(cap) if group.sizes[place] <= budget_bytes / 4]
            for group in groups
        ]
        pairs = zip(groups, kept, strict=True)
        if sum(group.sizes[place] for group, places in pairs for place in places) <= budget_bytes:
            break
    chosen: dict[str, dict[str, list[EntryRow]]] = {}
    names: dict[str, dict[str, Counter[str]]] = {}
    for group, places in zip(groups, kept, strict=True):
        rows = chosen.setdefault(group.run_id, {}).setdefault(group.endpoint, [])
        rows.extend(group.rows[place] for place in places)
        counted = names.setdefault(group.run_id, {}).setdefault(group.endpoint, Counter())
        counted.update(row.name for row in group.rows if row.name is not None)
    return {
        run_id: {name: _list(name, rows, names[run_id][name]) for name, rows in by_name.items()}
        for run_id, by_name in chosen.items()
    }


def pack_samples(
    runs: Sequence[RunView], *, budget_bytes: int
) -> tuple[dict[str, EntryList], dict[str, dict[str, str]]]:
    """Entries of blobs and ``data:`` URLs of their files by run; the newest of each name first.

    A sample is kept with all of its files or not at all; ``names`` counts those left out too.
    """
    blobs = {run.info.id: run.entries("blob", rank=None) for run in runs}
    candidates = [(age, run, entry) for run in runs for age, entry in _by_age(blobs[run.info.id])]
    candidates.sort(key=lambda candidate: candidate[0])
    urls: dict[str, dict[str, str]] = {run.info.id: {} for run in runs}
    entries: dict[str, list[EntryRow]] = {run.info.id: [] for run in runs}
    left = budget_bytes
    for _, run, entry in candidates:
        run_id = run.info.id
        found = _data_urls(run, entry, urls[run_id], most=left)
        if found is not None:
            left -= sum(map(len, found.values()))
            urls[run_id].update(found)
            entries[run_id].append(entry_row(entry))
    names = {run_id: Counter(one.name or "" for one in found) for run_id, found in blobs.items()}
    lists = {run_id: _list("blobs", rows, names[run_id]) for run_id, rows in entries.items()}
    return lists, urls


def _groups(run: RunView) -> Iterable[_Group]:
    for endpoint, source in SOURCES.items():
        if source.keep == "evenly":
            by_name: dict[tuple[str, int], list[Entry]] = {}
            for entry in source.read(run):
                by_name.setdefault((entry.name or "", entry.rank), []).append(entry)
            for entries in by_name.values():
                yield _group(run, endpoint, entries)
        elif source.keep != "files":
            yield _group(run, endpoint, source.read(run, is_complete=True))


def _group(run: RunView, endpoint: str, entries: Sequence[Entry]) -> _Group:
    rows = [entry_row(entry) for entry in entries]
    return _Group(run.info.id, endpoint, rows, [len(msgspec.json.encode(row)) for row in rows])


def _list(endpoint: str, rows: Sequence[EntryRow], names: Mapping[str, int]) -> EntryList:
    if SOURCES[endpoint].is_by_rank:
        rows = sorted(rows, key=lambda row: (-1 if row.step is None else row.step, row.t or 0.0))
    return EntryList(list(rows), dict(names), total=len(rows), offset=0)


def _by_age(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    """Blobs with the number of newer ones of their name."""
    seen: Counter[str | None] = Counter()
    for entry in reversed(entries):
        yield seen[entry.name], entry
        seen[entry.name] += 1


def _data_urls(
    run: RunView, entry: Entry, known: Mapping[str, str], *, most: int
) -> dict[str, str] | None:
    """The files of a sample that are not known yet; None where one is missing or too large."""
    found: dict[str, str] = {}
    for file, media_type in files_of(entry.record).items():
        if file in known:
            continue
        try:
            with run.open_blob(file) as opened:
                most -= _DATA_URL_BYTES + 4 * opened.seek(0, 2) // 3
                if most < 0:
                    return None
                opened.seek(0)
                content = base64.b64encode(opened.read()).decode()
        except (OSError, EpochalError):  # the file is missing; the rest is still worth saving
            return None
        if media_type == "text/html":  # shown in a frame without scripts
            media_type = "text/html;charset=utf-8"
        elif not INLINE_TYPE.fullmatch(media_type):
            media_type = "application/octet-stream"
        found[file] = f"data:{media_type};base64,{content}"
    return found
