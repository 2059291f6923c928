"""Batches as records: what a journal of ours would hold of another tracker's run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from epochal.imports.foreign import Batch, Points
from epochal.records import Record


def records_of(batch: Batch) -> Iterator[Record]:
    """Every record of a batch; times are cut to the millisecond, as in a journal.

    Points that follow each other with the same step, at the same millisecond and under different
    names are one record.
    """
    yield from metrics_of(batch.points)
    yield from others_of(batch)


def others_of(batch: Batch) -> Iterator[Record]:
    """The records of a batch that are not points."""
    for record in batch.records:
        yield {**record, "t": round(float(record["t"]), 3)}


def metrics_of(points: Points) -> Iterator[Record]:
    """The records that hold these points."""
    if not len(points):
        return
    millis = np.rint(points.times * 1000.0)
    is_new = (np.diff(points.steps) != 0) | (np.diff(millis) != 0)
    names = points.names
    record: Record = {}
    metrics: dict[str, float] = {}
    columns = (points.which, points.steps, millis / 1000.0, points.values)
    rows = zip([True, *is_new.tolist()], *(column.tolist() for column in columns), strict=True)
    for starts, which, step, t, value in rows:
        name = names[which]
        if starts or name in metrics:
            if metrics:
                yield record
            metrics = {}
            record = {"log": "metrics", "t": t, "step": step, "m": metrics}
        metrics[name] = value
    yield record
