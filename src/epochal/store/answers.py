"""What a store returns: plain frozen data, the same for every engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from epochal.journal.row import Labels

LabelsEdit = Callable[[Labels], Labels]


class TrashedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was deleted and can be restored; times in Unix seconds.

    ``folder`` is where it lies, ``origin`` where it was. ``id`` is the one that it recorded.
    """

    id: str
    name: str
    project: str
    folder: str
    origin: str
    deleted: float


class Machine(msgspec.Struct, frozen=True):
    """The newest readings of one machine; ``t`` is when they were written, in Unix seconds.

    ``gpus`` and ``system`` have the fields of ``gpu`` and ``system`` records, and a ``t`` of their
    own: when they were measured. Readings that are too old are left out.
    """

    node: str
    rank: int
    t: float
    gpus: tuple[Mapping[str, float | str], ...]
    system: Mapping[str, float | str]
