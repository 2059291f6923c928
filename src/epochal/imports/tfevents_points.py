"""Collects points of scalars as columns, in any order, and hands them out in that of the file."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.imports.foreign import Points, empty_points
from epochal.imports.tfevents_event import Event
from epochal.imports.tfevents_template import Bytes, Template

RecordIndex = NDArray[np.int64]


class PointTable:
    """Points of some events; the place of an event in its file orders them."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._columns: list[tuple[RecordIndex, NDArray[np.int32], RecordIndex, Any, Any]] = []
        self._single: list[tuple[int, int, int, float, float]] = []

    def add(self, template: Template, rows: Bytes, places: RecordIndex) -> NDArray[np.bool_]:
        """Add the points of rows of one shape; True for rows whose tag is no proper text.

        These have to be parsed by themselves.
        """
        unsure = np.zeros(len(rows), dtype=bool)
        tags = [template.tags(rows, slot) for slot in template.slots]
        names = []
        for different, which in tags:
            ids = np.array([self._id(tag) for tag in different])
            names.append(ids[which])
            unsure |= names[-1] < 0
        times, steps = template.times(rows), template.steps(rows)
        times = np.where(np.isfinite(times), times, 0.0)
        for slot, ids in zip(template.slots, names, strict=True):
            values = template.values(rows, slot)
            columns = (places, ids.astype(np.int32), steps, times, values)
            if unsure.any():
                columns = tuple(column[~unsure] for column in columns)  # type: ignore[assignment]
            self._columns.append(columns)
        return unsure

    def add_event(self, place: int, event: Event) -> None:
        """Add the points of one event."""
        for name, value in event.points:
            number = self._names.setdefault(name, len(self._names))
            self._single.append((place, number, event.step, event.t, value))

    def points(self) -> tuple[Points, RecordIndex]:
        """All points in the order of the file, and the places of their events."""
        if self._single:
            places, which, steps, times, values = zip(*self._single, strict=True)
            self._columns.append(
                (
                    np.array(places, dtype=np.int64),
                    np.array(which, dtype=np.int32),
                    np.array(steps, dtype=np.int64),
                    np.array(times, dtype=np.float64),
                    np.array(values, dtype=np.float64),
                )
            )
            self._single = []
        if not self._columns:
            return empty_points(), np.zeros(0, dtype=np.int64)
        joined = [np.concatenate(columns) for columns in zip(*self._columns, strict=True)]
        order = np.argsort(joined[0], kind="stable")
        place, which_, steps_, times_, values_ = (column[order] for column in joined)
        return Points(*self._by_appearance(which_), steps_, times_, values_), place

    def _by_appearance(self, which: NDArray[np.int32]) -> tuple[tuple[str, ...], NDArray[np.int32]]:
        """Names in the order in which they come up, and the numbers of that order."""
        known = list(self._names)
        used, first = np.unique(which, return_index=True)
        ordered = used[np.argsort(first)]
        numbers = np.zeros(len(known), dtype=np.int32)
        numbers[ordered] = np.arange(len(ordered), dtype=np.int32)
        return tuple(known[number] for number in ordered.tolist()), numbers[which]

    def _id(self, tag: bytes) -> int:
        """The number of a tag; -1 for one that is no text."""
        try:
            name = tag.decode()
        except UnicodeDecodeError:
            return -1
        return self._names.setdefault(name, len(self._names))
