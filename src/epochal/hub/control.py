"""Requests to control trainings: kept here until the companion of the run takes them.

A request is for the companion that takes it first, which gets it again until it has reported an
outcome, and only for ten minutes: a run that comes back a week later goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

from epochal.hub.ledger import Ledger, RequestRow
from epochal.server.access import Principal
from epochal.server.control import (
    Action,
    Control,
    ControlRefusedError,
    ControlRequest,
    RequestState,
)
from epochal.shipping.protocol import CONTROL_EXPIRES_S
from epochal.shipping.protocol import ControlRequest as TakenRequest

# A companion asks every second; longer ago, it has ended or may not obey.
_LISTENS_S = 15.0
_MAX_OUTCOME = 1000


class HubControls:
    """The requests of one hub; ``is_allowed`` is its option --allow-control."""

    def __init__(
        self, ledger: Ledger, *, is_allowed: bool, clock: Callable[[], float] = time.time
    ) -> None:
        self._ledger = ledger
        self._is_allowed = is_allowed
        self._clock = clock
        self._asked_s: dict[str, float] = {}

    # -- people -----------------------------------------------------------------------------------

    def of(self, run_id: str, who: Principal) -> Control:
        """What this person may ask of a run that they see, and what was asked."""
        return Control(
            allowed=self._is_allowed and _may_control(who),
            listens=time.monotonic() - self._asked_s.get(run_id, -_LISTENS_S) < _LISTENS_S,
            # Who asked is nothing for those who were only sent a link.
            requests=[]
            if who.runs is not None
            else [self._shown(row) for row in self._ledger.requests(run_id)],
        )

    def ask(
        self, run_id: str, action: Action, who: Principal, *, is_live: bool = True
    ) -> ControlRequest | None:
        """Keep a request about a run that this person sees; one that waits is not doubled.

        None for a run that has ended; raises ``ControlRefusedError``.
        """
        self._check_allowed()
        if not _may_control(who):
            raise ControlRefusedError(f"the token {who.name!r} may {who.role}, not write.")
        if not is_live:
            return None
        for row in self._ledger.requests(run_id):
            shown = self._shown(row)
            if shown.state == "waiting" and row.action == action:
                return shown
        row = self._ledger.add_request(run_id, action, who.name, now=self._clock())
        self._ledger.note(who.name, f"control {action}", run=run_id, details=f"request {row.id}")
        return self._shown(row)

    # -- companions -------------------------------------------------------------------------------

    def take(self, run_id: str, taker: str | None = None) -> list[TakenRequest]:
        """The requests that wait for a run, and those whose outcome ``taker`` has not reported."""
        self._check_allowed()
        self._asked_s[run_id] = time.monotonic()
        now = self._clock()
        since = now - CONTROL_EXPIRES_S
        rows = self._ledger.take_requests(run_id, taker=taker, now=now, since=since)
        return [
            TakenRequest(row.id, row.action, row.who, row.t, max(0.0, now - row.t)) for row in rows
        ]

    def end(self, run_id: str, request_id: str, who: str, outcome: str, *, is_done: bool) -> bool:
        """Note the outcome of a request; False for one that is unknown or has ended."""
        said = outcome[:_MAX_OUTCOME]
        if not self._ledger.end_request(run_id, request_id, said, is_done=is_done):
            return False
        details = f"request {request_id}: {said}"
        self._ledger.note(who, "control outcome", run=run_id, details=details)
        return True

    def _check_allowed(self) -> None:
        if not self._is_allowed:
            raise ControlRefusedError(
                "this hub controls no trainings: it was started without --allow-control."
            )

    def _shown(self, row: RequestRow) -> ControlRequest:
        state: RequestState
        if row.outcome is not None:
            state = "done" if row.is_done else "failed"
        elif row.taken is not None:
            state = "taken"
        else:
            is_late = self._clock() - row.t > CONTROL_EXPIRES_S
            state = "expired" if is_late else "waiting"
        return ControlRequest(row.id, cast(Action, row.action), row.who, row.t, state, row.outcome)


def _may_control(who: Principal) -> bool:
    """Whoever sees a run may control it with the role write; a shared link never."""
    return who.runs is None and who.may("write")
