"""Finds stretches in which a device did nothing, and what the run was doing meanwhile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from epochal.records import Record, finite

Sample = tuple[float, float]  # Unix seconds, percent

START_UP_S = 30.0
_BOUNDARY_S = 0.5
_BUSY_PCT = 80.0
# Overlap below this share of a gap explains nothing.
_LEAST_SHARE = 0.3


class Gap(NamedTuple):
    """A time in which a device did nothing, in Unix seconds."""

    start: float
    end: float


class Doing(NamedTuple):
    """Something the run did, and when."""

    name: str
    start: float
    end: float


def idle_gaps(samples: Sequence[Sample], *, below_pct: float, least_s: float) -> list[Gap]:
    """Where a device's use stayed below a share for long enough; samples in the order of time."""
    gaps: list[Gap] = []
    start: float | None = None
    last: float | None = None
    for at, percent in samples:
        if percent < below_pct:
            start = at if start is None else start
            last = at
        else:
            if start is not None and at - start >= least_s:
                gaps.append(Gap(start, at))
            start = None
    if start is not None and last is not None and last - start >= least_s:
        gaps.append(Gap(start, last))
    return gaps


def doing_of(record: Record) -> Doing | None:
    """The activity that a record shows, with its time; None for other records."""
    at, kind = finite(record.get("t")), record.get("log")
    if at is None:
        return None
    seconds = (finite(record.get("duration_ms")) or 0.0) / 1000.0
    if kind == "span":
        start = finite(record.get("start"))
        return Doing(str(record.get("name")), at - seconds if start is None else start, at)
    if kind == "eval":
        return Doing("eval", at - seconds, at)
    if kind == "epoch":
        return Doing("epoch boundary", at - _BOUNDARY_S, at + _BOUNDARY_S)
    if kind == "message" and seconds:
        return Doing(str(record.get("text")), at - seconds, at)
    if kind == "event" and str(record.get("name", "")).startswith("checkpoint"):
        return Doing("save", at - max(seconds, _BOUNDARY_S), at + _BOUNDARY_S)
    return None


def cause_of(
    gap: Gap, *, doings: Iterable[Doing], cpu: Sequence[Sample], started: float | None
) -> str:
    """What most of a gap is explained by: a thing done, the start, the host; else unexplained."""
    shares: dict[str, float] = {}
    for doing in doings:
        overlap = min(gap.end, doing.end) - max(gap.start, doing.start)
        if overlap > 0:
            shares[doing.name] = shares.get(doing.name, 0.0) + overlap
    length = max(gap.end - gap.start, 1e-9)
    name = max(shares, key=lambda one: shares[one], default="")
    if shares and shares[name] / length >= _LEAST_SHARE:
        return name
    if started is not None and gap.start - started < START_UP_S:
        return "start-up"
    meanwhile = [percent for at, percent in cpu if gap.start <= at <= gap.end]
    if meanwhile and sum(meanwhile) / len(meanwhile) >= _BUSY_PCT:
        return "host"
    return "unexplained"
