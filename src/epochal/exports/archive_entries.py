"""What of a run is not a number, for an archive: as much of it as there is room for.

Histograms, texts, expert loads and phases are thinned evenly over steps, the log and the timeline
keep their newest; findings and the newest picture of the model stay. A blob that has no room is
left out together with its entry.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from epochal.errors import EpochalError
from epochal.server.entries import LOG_KINDS, TIMELINE_KINDS, by_time
from epochal.server.updates import entry_row
from epochal.server.wire import EntryKind, EntryList, EntryRow
from epochal.store.answers import Entry
from epochal.store.store import RunView

# How many entries of one name are kept, tried from the left.
_CAPS = (5000, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2, 1)
# Log lines are many and small beside histograms.
_LOG_FACTOR = 5
# Thinned evenly over steps, each name and rank by itself.
_BY_NAME: Mapping[EntryKind, str] = {
    "histograms": "histogram",
    "texts": "text",
    "experts": "experts",
    "phases": "phases",
}
# What a browser may be handed as an image; anything else is a file to download.
_IMAGES = frozenset(
    {"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/svg+xml"}
)
_DATA_URL_BYTES = 64


@dataclass(frozen=True, slots=True)
class _Group:
    """Entries of one kind and name that are thinned together."""

    run_id: str
    kind: EntryKind
    rows: Sequence[EntryRow]
    sizes: Sequence[int]

    def kept(self, cap: int) -> list[int]:
        """The places of those that stay under a cap."""
        last = len(self.rows) - 1
        if self.kind == "findings":
            return list(range(last + 1))
        most = cap * _LOG_FACTOR if self.kind == "log" else cap
        if last < most:
            return list(range(last + 1))
        if self.kind in ("log", "graph", "timeline"):
            return list(range(last + 1 - most, last + 1))
        return [last - last * back // max(most - 1, 1) for back in range(most - 1, -1, -1)]


def pack_entries(
    runs: Sequence[RunView], *, budget_bytes: int
) -> dict[str, dict[EntryKind, EntryList]]:
    """By run and kind, as the page asks for them; blobs are not among them."""
    groups = [group for run in runs for group in _groups(run)]
    kept: list[list[int]] = []
    for cap in _CAPS:
        kept = [group.kept(cap) for group in groups]
        if _total(groups, kept) <= budget_bytes:
            break
    else:
        kept = _without_largest(groups, kept, budget_bytes=budget_bytes)
    chosen: dict[str, dict[EntryKind, list[EntryRow]]] = {}
    names: dict[str, dict[EntryKind, Counter[str]]] = {}
    for group, places in zip(groups, kept, strict=True):
        rows = chosen.setdefault(group.run_id, {}).setdefault(group.kind, [])
        rows.extend(group.rows[place] for place in places)
        counted = names.setdefault(group.run_id, {}).setdefault(group.kind, Counter())
        counted.update(row.name for row in group.rows if row.name is not None)
    return {
        run_id: {kind: _list(kind, rows, names[run_id][kind]) for kind, rows in by_kind.items()}
        for run_id, by_kind in chosen.items()
    }


def pack_blobs(
    runs: Sequence[RunView], *, budget_bytes: int
) -> tuple[dict[str, EntryList], dict[str, dict[str, str]]]:
    """Entries and ``data:`` addresses of blobs by run: the newest of each name first."""
    candidates = [
        (age, run, entry) for run in runs for age, entry in _by_age(run.entries("blob", rank=None))
    ]
    candidates.sort(key=lambda candidate: candidate[0])
    addresses: dict[str, dict[str, str]] = {run.info.id: {} for run in runs}
    entries: dict[str, list[EntryRow]] = {run.info.id: [] for run in runs}
    left = budget_bytes
    for _, run, entry in candidates:
        run_id, file = run.info.id, str(entry.record.get("file"))
        if file not in addresses[run_id]:
            address = _data_address(run, entry, most=left)
            if address is None:
                continue
            left -= len(address) + _DATA_URL_BYTES
            addresses[run_id][file] = address
        entries[run_id].append(entry_row(entry))
    lists = {
        run_id: _list("blobs", rows, Counter(row.name or "" for row in rows))
        for run_id, rows in entries.items()
    }
    return lists, addresses


def _groups(run: RunView) -> Iterable[_Group]:
    run_id = run.info.id
    for kind, record_kind in _BY_NAME.items():
        by_name: dict[tuple[str, int], list[Entry]] = {}
        for entry in run.entries(record_kind, rank=None):
            by_name.setdefault((entry.name or "", entry.rank), []).append(entry)
        for entries in by_name.values():
            yield _group(run_id, kind, entries)
    yield _group(run_id, "log", by_time(run, *LOG_KINDS))
    yield _group(run_id, "findings", [*run.findings(most=None), *run.internal_errors()])
    yield _group(run_id, "graph", by_time(run, "graph"))
    yield _group(run_id, "timeline", by_time(run, *TIMELINE_KINDS))


def _group(run_id: str, kind: EntryKind, entries: Sequence[Entry]) -> _Group:
    rows = [entry_row(entry) for entry in entries]
    return _Group(run_id, kind, rows, [len(msgspec.json.encode(row)) for row in rows])


def _total(groups: Sequence[_Group], kept: Sequence[Sequence[int]]) -> int:
    return sum(
        group.sizes[place] for group, places in zip(groups, kept, strict=True) for place in places
    )


def _without_largest(
    groups: Sequence[_Group], kept: Sequence[list[int]], *, budget_bytes: int
) -> list[list[int]]:
    """The same without the largest entries, until the rest has room."""
    by_size = sorted(
        ((groups[g].sizes[place], g, place) for g, places in enumerate(kept) for place in places),
        reverse=True,
    )
    total = sum(size for size, _, _ in by_size)
    dropped: set[tuple[int, int]] = set()
    for size, group, place in by_size:
        if total <= budget_bytes:
            break
        total -= size
        dropped.add((group, place))
    return [
        [place for place in places if (group, place) not in dropped]
        for group, places in enumerate(kept)
    ]


def _list(kind: EntryKind, rows: Sequence[EntryRow], names: Mapping[str, int]) -> EntryList:
    if kind == "blobs" or kind in _BY_NAME:
        rows = sorted(rows, key=lambda row: (-1 if row.step is None else row.step, row.t or 0.0))
    return EntryList(list(rows), dict(names), total=len(rows), offset=0)


def _by_age(entries: Sequence[Entry]) -> Iterable[tuple[int, Entry]]:
    """Blobs with how many newer ones of their name there are."""
    seen: Counter[str | None] = Counter()
    for entry in reversed(entries):
        yield seen[entry.name], entry
        seen[entry.name] += 1


def _data_address(run: RunView, entry: Entry, *, most: int) -> str | None:
    size = entry.record.get("bytes")
    if isinstance(size, (int, float)) and size * 4 / 3 > most:
        return None
    try:
        content = run.blob(str(entry.record.get("file")))
    except (OSError, EpochalError):  # it went, or was never copied: the rest is worth saving
        return None
    media_type = entry.record.get("media_type")
    if media_type not in _IMAGES:
        media_type = "application/octet-stream"
    address = f"data:{media_type};base64,{base64.b64encode(content).decode()}"
    return address if len(address) <= most else None
