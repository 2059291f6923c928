"""Works out how a run stands; nothing about it is ever stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.journal.process import is_suspended, liveness
from epochal.store.answers import State, Status

RUNNING_FOR_S = 60.0
# Nobody says of another tracker's run that its process is gone: hours between two records are rare.
ENDED_AFTER_S = 6 * 3600.0
_ENDINGS: Mapping[str, State] = {
    "finished": "finished",
    "failed": "failed",
    "interrupted": "interrupted",
    "terminated": "terminated",
}
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def derive_status(
    *,
    finish: Mapping[str, Any] | None,
    process: Mapping[str, Any] | None,
    updated: float | None,
    now: float,
    vanished: str | None = None,
    source: Mapping[str, Any] | None = None,
) -> Status:
    """How a run stands.

    ``finish`` is the last record of its newest attempt if that ended, ``process`` the identity of
    the one that wrote it, ``updated`` the time of its newest record; ``now`` in Unix seconds.
    ``vanished`` is the companion's sentence about a process that was gone; ``source`` says whose
    files a run is read or was copied from.
    """
    if finish is not None:
        return _ended(finish, updated)
    if source is not None:
        return _elsewhere(source, updated, now)
    if process is None or updated is None:
        return Status("waiting", "waiting", since=updated)
    seen = liveness(process)
    # A companion sees a process go that is out of sight from here.
    if seen == "dead" or (vanished is not None and seen == "unknown"):
        reason = vanished or f"process {process.get('pid')} is gone and did not say why"
        return Status("crashed", "crashed", reason=reason, since=updated)
    age_s = now - updated
    if seen == "alive" or age_s < RUNNING_FOR_S:
        is_held = seen == "alive" and is_suspended(process)
        return Status("running", "suspended" if is_held else "running", since=updated)
    return Status("silent", f"silent {format_age(age_s)}", since=updated)


def _elsewhere(source: Mapping[str, Any], updated: float | None, now: float) -> Status:
    """How another tracker's run stands whose files do not say how it ended."""
    reason = f"the files of {source.get('format')} do not say how it ended"
    if not source.get("in_place"):
        return Status("finished", "imported", reason=reason, since=updated)
    if updated is None:
        return Status("waiting", "waiting", since=updated)
    age_s = now - updated
    if age_s < RUNNING_FOR_S:
        return Status("running", "running", since=updated)
    if age_s < ENDED_AFTER_S:
        return Status("silent", f"silent {format_age(age_s)}", since=updated)
    return Status("finished", "ended", reason=reason, since=updated)


def format_age(age_s: float) -> str:
    """How long ago something was, in its largest unit: ``40 s``, ``12 min``, ``3 h``, ``9 d``."""
    for unit_s, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min")):
        if age_s >= unit_s:
            return f"{int(age_s // unit_s)} {unit}"
    return f"{max(int(age_s), 0)} s"


def _ended(finish: Mapping[str, Any], updated: float | None) -> Status:
    state = _ENDINGS.get(str(finish.get("status")), "finished")
    reason = finish.get("reason")
    return Status(state, state, reason=None if reason is None else str(reason), since=updated)
