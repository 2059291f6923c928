"""The series and entries of an archive: all of them where they fit, else as many as fit.

A long series keeps the mean, the smallest and the largest value of each slice, and moving averages.
"""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import EpochalError, MetricNotFoundError
from epochal.journal.blobs import files_of
from epochal.journal.entries import Entry
from epochal.query.formula import is_formula
from epochal.series.series import Series
from epochal.series.smooth import Smoothing
from epochal.server.downloads import INLINE_TYPE
from epochal.server.endpoints import ENDPOINTS
from epochal.server.entries import EntrySource, evenly
from epochal.server.series import SeriesBlock, Slicing, series_block, series_body
from epochal.server.updates import entry_row
from epochal.server.wire import EntryList, EntryRow, Knots, XKind
from epochal.store.run import RunView

Floats = NDArray[np.float64]

# Beyond this many series only the lowest rank of each is kept.
MAX_SERIES = 4000
MAX_KNOTS = 2000
# A point is 24 bytes; nothing that training logs is compressed to less than a tenth.
_MAX_COMPRESSION = 10
# A slice is about so many bytes as base64, whether it is compressed or not.
_SLICE_TEXT_BYTES = 50
_MIN_PIXELS = 8
_MAX_ATTEMPTS = 8
_MIN_FILL = 0.85
_TARGET_FILL = 0.94
# Moving averages that are kept for each slice; that of weight 0 is its last point. The page makes
# those of other weights from them, to within about a hundredth of the noise.
SMOOTHED_WEIGHTS = (0, 1 / 3, 2 / 3, 7 / 8, 29 / 30, 109 / 110)
# Higher levels take several times as long for less than one percent.
_LEVEL = 4


# One series of a run, by the id of the run.
Line = tuple[str, Series]


def lines_of(run: RunView, *, all_ranks: bool, names: Sequence[str] = ()) -> Iterator[Line]:
    """Every series of a run on its own axis, or on the one that was defined for it.

    ``names`` may have formulas: their results are there as well, where the run has the metrics.
    """
    metrics = list(run.metrics())
    known = {metric.name for metric in metrics}
    asked = (run.metric(name) for name in dict.fromkeys(names) if name not in known)
    formulas = [one for one in asked if one is not None and one.name in names]
    for metric in (*metrics, *formulas):
        for rank in metric.ranks if all_ranks else metric.ranks[:1]:
            try:
                series = run.series(metric.name, rank=rank, axis=metric.axis)
            except MetricNotFoundError:  # a formula with an axis that the run did not record
                continue
            yield run.info.id, series.reindex(metric.x or "step", run)


def failed_formulas(runs: Sequence[RunView], names: Sequence[str]) -> dict[str, str]:
    """Formulas that have a result for none of the runs, and why."""
    found: dict[str, str] = {}
    for name in filter(is_formula, dict.fromkeys(names)):
        for run in runs:
            try:
                run.series(name)
            except MetricNotFoundError as error:
                found.setdefault(name, str(error))
            else:
                found.pop(name, None)
                break
    return found


def pack_series(lines: Sequence[Line], *, budget_bytes: int) -> list[str]:
    """Series bodies in base64, one per run: exact where they fit, else downsampled."""
    points = sum(len(series) for _, series in lines)
    if points * 24 < budget_bytes * _MAX_COMPRESSION:
        bodies = _bodies(lines, pixels=0)
        if sum(map(len, bodies)) <= budget_bytes:
            return bodies
    longest = max((len(series) for _, series in lines), default=0)
    pixels = budget_bytes // (_SLICE_TEXT_BYTES * max(len(lines), 1))
    best: list[str] | None = None
    tried: set[int] = set()
    for _ in range(_MAX_ATTEMPTS):
        pixels = max(_MIN_PIXELS, min(pixels, longest))
        if pixels in tried:
            break
        tried.add(pixels)
        bodies = _bodies(lines, pixels=pixels)
        size = sum(map(len, bodies))
        fits = size <= budget_bytes
        if best is None or fits:
            best = bodies
        if fits and size >= _MIN_FILL * budget_bytes:
            break
        pixels = int(pixels * max(0.2, min(4.0, _TARGET_FILL * budget_bytes / max(size, 1))))
    return best or []


def knots_of(run: RunView) -> dict[XKind, Knots]:
    """Knots that convert steps to the other axes by linear interpolation."""
    longest: Series | None = None
    for metric in run.metrics():
        if metric.axis == "step" and 0 in metric.ranks:
            try:
                series = run.series(metric.name, axis="step")
            except MetricNotFoundError:
                continue
            if longest is None or series.steps.size > longest.steps.size:
                longest = series
    if longest is None or longest.steps.size == 0:
        return {}
    found: dict[XKind, Knots] = {}
    kinds: tuple[XKind, ...] = ("wall", "epoch", "tokens")
    for kind in kinds:
        moved = longest.reindex(kind, run)
        # Points without x were dropped: then steps and x no longer correspond.
        if moved.x == kind and len(moved) == len(longest):
            found[kind] = _thinned(longest.steps.astype(np.float64), moved.at.astype(np.float64))
    return found


def _bodies(lines: Sequence[Line], *, pixels: int) -> list[str]:
    by_run: dict[str, list[SeriesBlock]] = {}
    slicing = Slicing(pixels, averages=[Smoothing("ema", weight) for weight in SMOOTHED_WEIGHTS])
    for run_id, series in lines:
        by_run.setdefault(run_id, []).append(series_block(run_id, series, slicing))
    return [
        base64.b64encode(
            gzip.compress(series_body(blocks, missing=(), positions={}), _LEVEL, mtime=0)
        ).decode()
        for blocks in by_run.values()
    ]


def _thinned(steps: Floats, at: Floats) -> Knots:
    chosen = np.unique(np.linspace(0, steps.size - 1, min(steps.size, MAX_KNOTS)).round())
    which = chosen.astype(np.int64)
    return Knots(step=steps[which].tolist(), at=at[which].tolist())


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
