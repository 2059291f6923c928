"""Every kind of record, declared once; a new one is declared in the file of its concept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from epochal.records.kind import Field, Kind
from epochal.records.kinds.lifecycle import LIFECYCLE
from epochal.records.kinds.machine import MACHINE
from epochal.records.kinds.samples import SAMPLES
from epochal.records.kinds.training import TRAINING

KINDS: Mapping[str, Kind] = {
    kind.name: kind for kind in (*LIFECYCLE, *TRAINING, *MACHINE, *SAMPLES)
}
# The kinds that the log of a run shows, on the page and in the terminal.
LOG_KINDS = ("message", "event", "epoch", "eval", "resume", "finish", "finding")
DENSE_KINDS = frozenset(kind.name for kind in KINDS.values() if kind.dense)


def declared_series() -> Iterator[tuple[str, Field]]:
    """Every series with a fixed name, and the field it is declared by."""
    for kind in KINDS.values():
        for name in () if kind.by_id else kind.scalars:
            yield kind.prefix + name, kind[name]
