"""The names and units under which trackers other than TensorBoard get a run's numbers.

Series keep their names (``train/loss``, ``eval/loss``, ``moe/aux_loss``). Telemetry of a GPU is
``gpu/<id>/<name>``, of a GPU of another node ``<node>/gpu/<id>/<name>``, so that no two collide;
its memory is in MiB and its PCIe traffic in MiB/s. Memory by segment is
``allocator/<segment>_mib``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.records import ALLOCATOR_PLACES, KINDS, scalars_of
from epochal.sinks.sink import Entry, NotHeldError
from epochal.values import as_float

MIB = 1024 * 1024
_IN_BYTES = frozenset(
    field.name for field in KINDS["gpu"].fields if field.unit in ("bytes", "bytes/s")
)
# Where a segment's memory lies; what lies on the device needs no further word.
_PLACES = {place: "" if place == "device" else f"_{place}" for place in ALLOCATOR_PLACES}


def keyed_scalars(entry: Entry) -> dict[str, float]:
    """Every number of a record under the name and in the unit that trackers get."""
    if entry.kind == "allocator":
        return dict(_allocations(entry.record))
    prefix = "" if entry.node is None else f"{entry.node}/"
    values = {f"{prefix}{name}": value for name, value in scalars_of(entry.record)}
    if entry.kind != "gpu":
        return values
    return {
        name: value / MIB if name.rpartition("/")[2] in _IN_BYTES else value
        for name, value in values.items()
    }


def histogram_bins(record: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Counts and edges of a histogram; raises ``NotHeldError`` for one without any bins."""
    counts = record.get("counts") or []
    if not counts:
        raise NotHeldError("the histogram has no finite values.")
    lo, hi = as_float(record["lo"]), as_float(record["hi"])
    return counts, [lo + (hi - lo) * index / len(counts) for index in range(len(counts) + 1)]


def segments_of(record: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The named segments of an allocator record."""
    for segment in record.get("stats") or ():
        if isinstance(segment, Mapping) and segment.get("name"):
            yield str(segment["name"]), segment


def allocator_prefix(record: Mapping[str, Any]) -> str:
    """``allocator/``, with the GPU's id where the record has one."""
    return f"allocator/gpu{record['id']}/" if "id" in record else "allocator/"


def _allocations(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    prefix = allocator_prefix(record)
    for name, segment in segments_of(record):
        for place, word in _PLACES.items():
            size = segment.get(place)
            # Every segment has a figure on the device; elsewhere only what is there.
            if isinstance(size, (int, float)) and (size or not word):
                yield f"{prefix}{name}{word}_mib", size / MIB
