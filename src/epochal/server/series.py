"""``/api/series``: points of some series of many runs, as a chart of some width shows them.

The body is binary: a JSON head, then points as little-endian float64, or columns of pixels as
float32 with the steps of their extremes. ``docs/explanation/http.md`` has the layout to the byte
and a worked example.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import EpochalError, FormatError, MetricNotFoundError, UsageError
from epochal.series.blocks import Downsampled
from epochal.series.downsample import Buckets
from epochal.series.series import X_KINDS, X_OF_AXIS, Series
from epochal.series.smooth import Smoothing, parse_smoothing
from epochal.server import wire
from epochal.server.params import (
    bool_param,
    choice_param,
    float_param,
    int_param,
    ranks_param,
    required_param,
    str_param,
)
from epochal.server.responses import body_response, etag_of, matches_etag
from epochal.server.state import server_state
from epochal.server.updates import format_cursors
from epochal.store.run import RunView

MAGIC = b"EPS1"
# 16 million points are 384 MB; larger downloads are exports.
MAX_POINTS = 16_000_000
_ALIGNMENT = 8
# float32 may move a value by this share of what the series spans; no screen is that high.
_FINEST = 1 / 8192
# From here on, float32 and float64 leave out whole numbers.
_EXACT_FLOAT32, _EXACT_FLOAT64 = 2.0**24, 2.0**53
MAX_SERIES = 4000
_AXES: Sequence[wire.AxisName] = get_args(wire.AxisName)

Floats = NDArray[np.float64]

NAMES = required_param("name", most=64)
RUNS = required_param("run", most=MAX_SERIES)
RANKS = ranks_param()
X = str_param("x", note=f"`{'`, `'.join(X_KINDS)}` or a metric; by default as defined")
AXIS = choice_param("axis", _AXES, typescript="AxisName")
LO = float_param("lo")
HI = float_param("hi")
PIXELS = int_param("pixels", default=1000, most=20_000, note="1000; 0: every point")
IS_LOG = bool_param("log", note="1: logarithmic slices")
SMOOTH = str_param("smooth", note="such as `ema:0.9`")
PARAMS = (NAMES, RUNS, RANKS, X, AXIS, LO, HI, PIXELS, IS_LOG, SMOOTH)


class Slicing(msgspec.Struct, frozen=True):
    """How series are downsampled: at most ``pixels`` slices (0: every point), and smoothed.

    Slices come with ``averages`` as well: a saved page makes others from them.
    """

    pixels: int
    is_log: bool = False
    smoothing: Smoothing | None = None
    averages: Sequence[Smoothing] = ()


class SeriesBlock(msgspec.Struct, frozen=True, eq=False):
    """One series of a body: its head, and every point as columns, or slices as they are sent."""

    head: wire.SeriesHead
    points: Sequence[Floats] = ()
    slices: bytes = b""


class _RunBlocks(msgspec.Struct, frozen=True, eq=False):
    """The requested series of one run by name, and the position it was read to."""

    position: str | None
    blocks: Mapping[str, Sequence[SeriesBlock]] = {}
    missing: Mapping[str, Sequence[wire.Missing]] = {}


async def series(request: Request) -> Response:
    """Points of some series of many runs."""
    names, run_ids, ranks = NAMES(request), RUNS(request), RANKS(request)
    x, axis = X(request), AXIS(request)
    lo, hi = LO(request), HI(request)
    smooth = SMOOTH(request)
    slicing = Slicing(
        PIXELS(request),
        is_log=IS_LOG(request),
        smoothing=None if smooth is None else parse_smoothing(smooth),
    )
    if lo is not None and hi is not None and lo > hi:
        raise UsageError(f"lo={lo} must not be above hi={hi}.")
    if len(names) * len(run_ids) * len(ranks or (0,)) > MAX_SERIES:
        raise UsageError(f"more than {MAX_SERIES} series in one request: request fewer at once.")
    reader = server_state(request).reader

    def blocks_of(run: RunView) -> _RunBlocks:
        run_id = run.id
        blocks: dict[str, list[SeriesBlock]] = {}
        missing: dict[str, list[wire.Missing]] = {}
        for name in names:
            for rank in _ranks_of(run, name, axis) if ranks is None else ranks:
                try:
                    one = chart_block(run, name, rank, slicing, x=x, axis=axis, lo=lo, hi=hi)
                except (MetricNotFoundError, FormatError) as error:
                    absent = wire.Missing(run_id, name, rank, str(error))
                    missing.setdefault(name, []).append(absent)
                else:
                    blocks.setdefault(name, []).append(one)
        return _RunBlocks(_position(run), blocks, missing)

    async def query_all(query: Callable[[RunView], _RunBlocks]) -> dict[str, _RunBlocks]:
        found: dict[str, _RunBlocks] = {}
        results = await reader.query_runs(run_ids, query)
        for run_id, one in zip(run_ids, results, strict=True):
            if isinstance(one, EpochalError):
                missing = {name: [wire.Missing(run_id, name, 0, str(one))] for name in names}
                one = _RunBlocks(None, missing=missing)
            found[run_id] = one
        return found

    def tag_of(found: Mapping[str, _RunBlocks]) -> str:
        return etag_of(request.url.query.encode(), msgspec.json.encode(_positions(found)))

    if "if-none-match" in request.headers:
        # Points are read only where the client does not have them.
        tag = tag_of(await query_all(lambda run: _RunBlocks(_position(run))))
        if matches_etag(request, tag):
            return await body_response(request, b"", media_type=wire.SERIES_MEDIA_TYPE, tag=tag)
    found = await query_all(blocks_of)

    def body() -> bytes:
        by_name = [(name, one) for name in names for one in found.values()]
        return series_body(
            [block for name, one in by_name for block in one.blocks.get(name, ())],
            missing=[each for name, one in by_name for each in one.missing.get(name, ())],
            positions=_positions(found),
        )

    encoded = await reader.call(body)
    return await body_response(
        request, encoded, media_type=wire.SERIES_MEDIA_TYPE, tag=tag_of(found)
    )


def _position(run: RunView) -> str:
    return format_cursors({run.id: run.end()})


def _positions(found: Mapping[str, _RunBlocks]) -> dict[str, str]:
    return {run_id: one.position for run_id, one in found.items() if one.position is not None}


def defined_x(run: RunView, name: str) -> str:
    """The axis that a run defined for a metric; steps where it defined none."""
    metric = run.metric(name)
    return "step" if metric is None or metric.name != name else metric.x or "step"


def _ranks_of(run: RunView, name: str, axis: wire.AxisName | None) -> Sequence[int]:
    """The ranks that have a series; rank 0 where none has, to be reported as missing."""
    named = (one for one in run.metrics() if one.name == name and axis in (None, one.axis))
    metric = next(named, None) or run.metric(name)
    return (0,) if metric is None or metric.name != name else metric.ranks or (0,)


def chart_block(
    run: RunView,
    name: str,
    rank: int,
    slicing: Slicing,
    *,
    x: str | None = None,
    axis: wire.AxisName | None = None,
    lo: float | None = None,
    hi: float | None = None,
) -> SeriesBlock:
    """One series of a run between lo and hi; of a long one, as few points are read as possible.

    Raises ``MetricNotFoundError``, also for an ``x`` that is no metric, and ``FormatError``.
    """
    along, pixels = x or defined_x(run, name), slicing.pixels
    if along == "step" and pixels and not slicing.is_log and slicing.smoothing is None:
        found = run.downsample(name, pixels, rank=rank, axis=axis, lo=lo, hi=hi)
        if found is not None:
            if isinstance(found.shown, Series):
                block = series_block(run.id, found.shown, slicing, lo=lo, hi=hi)
                head = msgspec.structs.replace(block.head, lo=found.lo, hi=found.hi)
                return msgspec.structs.replace(block, head=head)
            return _block_of_slices(run.id, name, rank, found, found.shown, pixels)
    own = run.series(name, rank=rank, axis=axis)
    if x is not None and x not in X_KINDS:
        run.series(x)  # raises where there is no such metric
    return series_block(run.id, own.reindex(along, run), slicing, lo=lo, hi=hi)


def _block_of_slices(
    run_id: str, name: str, rank: int, found: Downsampled, slices: Buckets, pixels: int
) -> SeriesBlock:
    assert found.axis != "none"
    at = slices.nonfinite_steps.astype(np.float64, copy=False)
    head = wire.SeriesHead(
        run=run_id,
        name=name,
        rank=rank,
        axis=found.axis,
        x=X_OF_AXIS[found.axis],
        raw=False,
        count=len(slices),
        points=int(slices.count.sum()),
        nonfinite_points=int(slices.nonfinite.sum()),
        duplicates=0,
        hidden=found.hidden,
        lo=found.lo,
        hi=found.hi,
        smooth_state=None,
    )
    return _slices_block(head, slices, _marks(at, slices.nonfinite_values, most=pixels), {})


def series_block(
    run_id: str,
    series: Series,
    slicing: Slicing,
    *,
    lo: float | None = None,
    hi: float | None = None,
) -> SeriesBlock:
    """Downsample a series between lo and hi."""
    assert series.axis != "none"
    pixels, smoothing = slicing.pixels, slicing.smoothing
    chosen = series.between(lo, hi)
    at, values = chosen.at.astype("<f8", copy=False), chosen.floats
    is_raw = pixels == 0 or len(chosen) <= pixels
    nonfinite = np.flatnonzero(~np.isfinite(values))
    head = wire.SeriesHead(
        run=run_id,
        name=series.name,
        rank=series.rank,
        axis=series.axis,
        x=series.x,
        raw=is_raw,
        count=len(chosen),
        points=len(chosen),
        nonfinite_points=nonfinite.size,
        duplicates=series.duplicates,
        hidden=series.hidden,
        lo=float(series.at[0]) if len(series) else None,
        hi=float(series.at[-1]) if len(series) else None,
        smooth_state=None if smoothing is None else smoothing.state(series.floats, series.at),
    )
    wanted = [] if smoothing is None else [smoothing]
    if not is_raw:
        wanted.extend(slicing.averages)
    # Over every point of the series, not over slices or those in the range.
    smoothed = {str(one): series.smoothed(one).between(lo, hi).floats for one in wanted}
    if is_raw:
        columns = [at, values, chosen.times, *smoothed.values()]
        head = msgspec.structs.replace(head, columns=list(smoothed))
        return SeriesBlock(head, [column.astype("<f8", copy=False) for column in columns])
    slices = chosen.buckets(pixels, lo=lo, hi=hi, is_log=slicing.is_log)
    marks = _marks(at[nonfinite], values[nonfinite], most=pixels)
    return _slices_block(head, slices, marks, smoothed)


def _slices_block(
    head: wire.SeriesHead,
    slices: Buckets,
    marks: tuple[Floats, NDArray[np.intp]],
    smoothed: Mapping[str, Floats],
) -> SeriesBlock:
    first, last = slices.first_step, slices.last_step
    edges = [first, last, slices.min_step, slices.max_step]
    at, kinds = marks
    is_whole = _are_whole(np.concatenate((*edges, at)))
    if is_whole:
        edges = [first - np.append(0, last[:-1]), *(edge - first for edge in edges[1:])]
        at = np.diff(at, prepend=0)
    pack_x = _packed_whole if is_whole else _packed
    of_slices = [column[slices.last_index] for column in smoothed.values()]
    values = _shortened(np.stack([slices.mean, slices.min, slices.max, *of_slices]))
    packed = b"".join(
        (
            *map(pack_x, edges),
            _packed_whole(slices.finite),
            *map(_packed, values),
            pack_x(at),
            _packed_whole(kinds),
        )
    )
    known = slices.last[np.isfinite(slices.last)]
    head = msgspec.structs.replace(
        head,
        count=len(slices),
        nonfinite=at.size,
        whole=is_whole,
        last=float(known[-1]) if known.size else None,
        columns=list(smoothed),
    )
    return SeriesBlock(head, slices=packed + bytes(-len(packed) % _ALIGNMENT))


def _are_whole(at: NDArray[Any]) -> bool:
    return bool(np.all((at >= 0) & (at < _EXACT_FLOAT64) & (at == np.rint(at))))


def _shortened(values: Floats) -> NDArray[Any]:
    """Values as float32, where neither a chart nor a number beside it would show the difference."""
    known = values[np.isfinite(values)]
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
        off = np.abs(known - known.astype(np.float32)).max(initial=0.0)
    is_enough = (
        known.size > 0
        and off <= (known.max() - known.min()) * _FINEST
        and np.abs(known).max(initial=0.0) < _EXACT_FLOAT32
        and np.count_nonzero(short) == np.count_nonzero(values)
    )
    return short if is_enough else values


def _packed(column: NDArray[Any]) -> bytes:
    """Floats: how many bytes each has, the first byte of all, the second byte of all, and so on.

    Bytes that are alike then lie side by side, and gzip makes them smaller by a seventh.
    """
    column = column.astype("<f4" if column.dtype == np.float32 else "<f8")
    width = column.dtype.itemsize
    return bytes([width]) + column.view(np.uint8).reshape(-1, width).T.tobytes()


def _packed_whole(column: NDArray[Any]) -> bytes:
    """Whole numbers from 0 on, in the same order, with as many bytes as the largest needs."""
    width = max(1, -(-int(column.max(initial=0)).bit_length() // 8))
    planes = column.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
    return bytes([width]) + planes.T.tobytes()


def series_body(
    blocks: Sequence[SeriesBlock], *, missing: Sequence[wire.Missing], positions: Mapping[str, str]
) -> bytes:
    """Encode a whole body; raises ``UsageError`` when it would be too large."""
    if sum(one.head.count for one in blocks) > MAX_POINTS:
        raise UsageError(
            f"the response would have more than {MAX_POINTS} points: ask for a narrower range,"
            " with pixels=, or export the run."
        )
    header = wire.SeriesHeader(
        wire.WIRE_VERSION, [one.head for one in blocks], list(missing), dict(positions)
    )
    text = msgspec.json.encode(header)
    text += b" " * (-len(text) % _ALIGNMENT)
    columns = (
        column
        for one in blocks
        for column in (*(points.tobytes() for points in one.points), one.slices)
    )
    return b"".join((MAGIC, struct.pack("<I", len(text)), text, *columns))


def _marks(at: Floats, values: Floats, *, most: int) -> tuple[Floats, NDArray[np.intp]]:
    """Where points are not finite and what they are: 0 nan, 1 inf, 2 -inf.

    Beyond ``most`` the marks are thinned to the first of each kind in each of ``most`` slices: a
    chart of that width shows no more.
    """
    kinds = np.select([values > 0, values < 0], [1, 2])
    if at.size <= most:
        return at, kinds
    width = float(at[-1] - at[0]) or 1.0
    slices = np.minimum((at - at[0]) / width * most, most - 1).astype(np.int64)
    _, first = np.unique(slices * 3 + kinds, return_index=True)
    chosen = np.sort(first)
    return at[chosen], kinds[chosen]
