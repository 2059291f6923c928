"""Derives the status of a run from its records and processes; it is never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from epochal.journal.process import is_suspended, liveness
from epochal.journal.row import State, Status
from epochal.records import HEARTBEAT_EVERY_S

# A companion writes every 30 s that its process is alive: one may be late, one may be lost.
RUNNING_FOR_S = 3 * HEARTBEAT_EVERY_S
# A companion that wrote nothing for so long has more than a slow disk.
GONE_AFTER_S = 3600.0
# The text for a run that crashed, as far as another machine can tell.
GONE = "gone"
FOREIGN_RUNNING_FOR_S = 60.0
# Nothing says that the process of another tracker's run is gone: pauses of hours are rare.
ENDED_AFTER_S = 6 * 3600.0
_ENDINGS: tuple[State, ...] = ("finished", "failed", "interrupted", "terminated")
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


def derive_status(
    *,
    finish: Mapping[str, Any] | None,
    process: Mapping[str, Any] | None,
    updated: float | None,
    now: float,
    vanished: str | None = None,
    source: Mapping[str, Any] | None = None,
    written: float | None = None,
    grew: float | None = None,
    has_companion: bool = False,
) -> Status:
    """The status of a run; times in Unix seconds.

    ``finish`` is the last record of its newest attempt if that ended. ``process`` identifies the
    process that wrote it. Three clocks say when it was last active. ``updated`` is the time of its
    newest record, by its own machine. ``written`` is when its journal was written, by the disk.
    ``grew`` is when a reader saw it grow, by this machine. ``vanished`` is the companion's sentence
    about a process that was gone. ``source`` names the tracker whose files it is read or was copied
    from.
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
    if seen == "alive":
        word = "suspended" if is_suspended(process) else "running"
        return Status("running", word, since=updated)
    signs = [updated, *(sign for sign in (written, grew) if sign is not None)]
    return _out_of_sight(process, signs, now, has_companion=has_companion)


def _out_of_sight(
    process: Mapping[str, Any], signs: Sequence[float], now: float, *, has_companion: bool
) -> Status:
    """The status of a run whose process is on another machine, by its newest sign of life.

    The clocks of its machine and of the disk may differ from ours: a time in the future has no age,
    and the newest of the others counts.
    """
    updated, host = signs[0], process.get("host") or "an unknown machine"
    past = [sign for sign in signs if sign <= now + RUNNING_FOR_S]
    age_s = now - max(past) if past else 0.0
    if age_s < RUNNING_FOR_S:
        return Status("running", "running", reason=_skew(updated, now, host), since=updated)
    age = format_age(age_s)
    if has_companion and age_s >= GONE_AFTER_S:
        reason = f"neither the process nor its companion on {host} has written for {age}"
        return Status("crashed", GONE, reason=reason, since=updated)
    reason = f"its process on {host} cannot be seen from here, and nothing was written for {age}"
    return Status("silent", f"silent {age}", reason=reason, since=updated)


def _skew(updated: float, now: float, host: object) -> str | None:
    """A sentence about a run that is written now by a machine whose clock differs."""
    apart_s = updated - now
    if abs(apart_s) < RUNNING_FOR_S:
        return None
    where = "ahead of" if apart_s > 0 else "behind"
    return f"the clock of {host} is {format_age(abs(apart_s))} {where} ours, or its records are old"


def _elsewhere(source: Mapping[str, Any], updated: float | None, now: float) -> Status:
    """The status of another tracker's run whose files do not say how it ended."""
    reason = f"the files of {source.get('format')} do not say how it ended"
    if not source.get("in_place"):
        return Status("finished", "imported", reason=reason, since=updated)
    if updated is None:
        return Status("waiting", "waiting", since=updated)
    age_s = now - updated
    if age_s < FOREIGN_RUNNING_FOR_S:
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
    state: State = next((one for one in _ENDINGS if one == finish.get("status")), "finished")
    reason = finish.get("reason")
    return Status(state, state, reason=None if reason is None else str(reason), since=updated)
