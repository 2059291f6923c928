"""How the newest attempt of a run ended, where it did not end well: as a finding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.health.ending import BAD_ENDINGS, BadEnding, ending_finding
from epochal.health.finding import Finding
from epochal.health.rules.out_of_memory import EVENT as OUT_OF_MEMORY
from epochal.store.answers import Status
from epochal.store.entries import entries_of
from epochal.store.state import RunState


def bad_ending(state: RunState, status: Status, *, now: float) -> Finding | None:
    """The finding of a newest attempt that failed, crashed or was stopped; None of any other.

    ``now`` in Unix seconds.
    """
    header = state.header
    if header is None or "pid" not in header:
        return None  # of another tracker's run nobody knows whether a process is gone
    how = _bad(status.state)
    if how is None:
        return None
    vanished = _event(state, "vanished")
    return ending_finding(
        how,
        run=str(header.get("name") or header.get("id")),
        attempt=state.attempts,
        step=state.reached("step"),
        epoch=state.reached("epoch"),
        t=state.updated or now,
        reason=status.reason,
        facts=vanished if how == "crashed" else _event(state, "exception"),
        memory=_event(state, OUT_OF_MEMORY),
        has_checkpoint=bool(entries_of(state, ("event",), name="checkpoint", rank=None)),
    )


def _bad(state: str) -> BadEnding | None:
    return next((how for how in BAD_ENDINGS if how == state), None)


def _event(state: RunState, name: str) -> Mapping[str, Any]:
    """The newest event of this name in the newest attempt."""
    events = entries_of(state, ("event",), name=name, rank=None)
    return next((e.record for e in reversed(events) if e.position.attempt == state.attempts), {})
