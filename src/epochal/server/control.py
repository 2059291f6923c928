"""What people ask of a training on the page of a hub; other servers control no run."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import EpochalError
from epochal.server.access import Principal, principal_of
from epochal.server.changes import body_of
from epochal.server.responses import error_response, json_response, run_id_of
from epochal.server.state import server_state
from epochal.store.answers import LIVE_STATES

Action = Literal["stop", "suspend", "continue", "checkpoint"]
# Nobody took it yet; its companion has it; it was done; it was not; nobody took it in time.
RequestState = Literal["waiting", "taken", "done", "failed", "expired"]


class ControlRequest(msgspec.Struct, frozen=True):
    """What someone asked of a training, and what became of it; ``t`` is a time."""

    id: str
    action: Action
    who: str
    t: float
    state: RequestState
    outcome: str | None


class Control(msgspec.Struct, frozen=True):
    """Whether this person may control this training, and the newest requests, newest first.

    ``listens``: the training's companion has asked for requests in the last seconds.
    """

    allowed: bool
    listens: bool
    requests: list[ControlRequest]


class ControlChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST …/control``."""

    action: Action


class ControlRefusedError(EpochalError):
    """This server, or this person, may not control a training."""


class Controls(Protocol):
    """Keeps requests until companions take them; a hub has one."""

    def of(self, run_id: str, who: Principal) -> Control:
        """What may be asked of a run, and what was."""

    def ask(
        self, run_id: str, action: Action, who: Principal, *, is_live: bool = True
    ) -> ControlRequest | None:
        """Keep a request, None for a run that has ended; raises ``ControlRefusedError``."""


async def control(request: Request) -> Response:
    """``GET /api/runs/{id}/control``: what may be asked of a training, and what was."""
    state, who = server_state(request), principal_of(request)
    run_id = await state.reader.query_run(run_id_of(request), lambda view: view.id)
    controls, found = state.controls, Control(allowed=False, listens=False, requests=[])
    if controls is not None:
        found = await state.reader.call(lambda: controls.of(run_id, who))
    return await json_response(request, found)


async def request_control(request: Request) -> Response:
    """``POST /api/runs/{id}/control``: asks a training to stop, suspend, continue or save."""
    state, who = server_state(request), principal_of(request)
    run_id, status = await state.reader.query_run(
        run_id_of(request), lambda view: (view.id, view.status)
    )
    if (controls := state.controls) is None:
        return error_response(
            403, "this server controls no trainings: a hub with --allow-control does."
        )
    change = await body_of(request, ControlChange)

    def ask() -> ControlRequest | None:
        # A companion that asks is there, whatever records have arrived.
        is_live = status.state in LIVE_STATES or controls.of(run_id, who).listens
        return controls.ask(run_id, change.action, who, is_live=is_live)

    try:
        made = await state.reader.call(ask)
    except ControlRefusedError as error:
        return error_response(403, str(error))
    if made is None:
        return error_response(409, f"the run has ended: it is {status.text}.")
    return await json_response(request, made)
