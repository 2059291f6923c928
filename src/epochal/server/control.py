"""What people ask of a training on the page of a hub; other servers control no run."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from epochal.errors import EpochalError
from epochal.server.access import Principal

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
