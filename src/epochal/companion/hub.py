"""What a companion does with a hub: ships the run while it is recorded, and obeys requests.

Nothing of the training waits for it. Requests are obeyed only if ``EPOCHAL_CONTROL`` is set. The
companion asks the hub: no port is open here. Each request is recorded in the run before it is
carried out, with the signals that ``epochal stop`` sends, and its outcome afterwards.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import threading
import time
from typing import cast

from epochal.base.guard import Guard
from epochal.companion.config import CompanionConfig
from epochal.companion.own_journal import OwnJournal, run_title
from epochal.errors import EpochalError
from epochal.journal.layout import read_json
from epochal.journal.process_action import (
    ProcessAction,
    SentAction,
    signal_processes,
    training_processes,
)
from epochal.settings import read_settings
from epochal.shipping.client import HubClient, HubError, hub_token
from epochal.shipping.protocol import (
    CONTROL_ACTIONS,
    CONTROL_EXPIRES_S,
    ControlOutcome,
    ControlRequest,
)
from epochal.shipping.shipper import Shipper
from epochal.shipping.worker import NodeShipper, ShippingWorker

ASK_EVERY_S = 1.0
_LONGEST_PAUSE_S = 10.0
_REFUSED_PAUSE_S = 60.0
_DONE: dict[str, str] = {
    "stop": "asked to stop",
    "suspend": "suspended",
    "continue": "continued",
    "checkpoint": "asked to save after its step",
}
_FAILED = ControlOutcome("the companion failed to carry it out.", False)


class RemoteControl:
    """A thread that takes requests for one run from its hub, and carries them out."""

    def __init__(
        self, config: CompanionConfig, journal: OwnJournal, client: HubClient, guard: Guard
    ) -> None:
        self._config = config
        self._journal = journal
        self._client = client
        self._guard = guard
        self._run_id = ""
        self._stopping = threading.Event()
        # The hub hands a request to one companion: a later attempt of the run gets no old ones.
        self._taker = secrets.token_hex(8)
        self._outcomes: dict[str, ControlOutcome] = {}
        self._unreported: list[str] = []
        self._pause_s = ASK_EVERY_S
        self._thread = threading.Thread(target=self._run, name="epochal-control", daemon=True)

    def start(self) -> None:
        """Begin to ask the hub."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more: the training has ended."""
        self._stopping.set()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._pause_s * random.uniform(0.9, 1.1)):
                self._guard.run("control", self._ask)
            self._guard.run("control", self._report_rest)
        finally:
            self._client.close()

    def _ask(self) -> None:
        try:
            if not self._run_id:
                self._run_id = str(read_json(self._config.folder.identity).get("id", ""))
            self._report()
            taken = self._client.take_requests(self._run_id, taker=self._taker)
        except (EpochalError, OSError) as error:
            # 404: the run was not sent yet. Another refusal is one that a person has to mend.
            is_refused = isinstance(error, HubError) and error.is_final and error.status != 404
            longer_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
            if isinstance(error, HubError):
                longer_s = error.pause_s(longer_s)
            self._pause_s = _REFUSED_PAUSE_S if is_refused else longer_s
            return
        self._pause_s = ASK_EVERY_S
        for request in taken:
            if self._stopping.is_set():
                break
            if request.id not in self._outcomes:
                self._outcomes[request.id] = _FAILED  # nothing is carried out twice
                self._outcomes[request.id] = self._obey(request)
            self._unreported.append(request.id)  # handed out again: the report was lost
        if taken:
            try:
                self._report()
            except HubError:
                return  # reported with the next look

    def _report_rest(self) -> None:
        """Say what became of the last requests, while the companion does its last work."""
        for pause_s in (0.0, ASK_EVERY_S, _LONGEST_PAUSE_S):
            time.sleep(pause_s)
            with contextlib.suppress(EpochalError, OSError):
                self._report()
                return

    def _report(self) -> None:
        while self._unreported:
            request_id = self._unreported[0]
            try:
                outcome = self._outcomes[request_id]
                self._client.report_outcome(self._run_id, request_id, outcome)
            except HubError as error:
                if not error.is_final:
                    raise
            del self._unreported[0]

    def _obey(self, request: ControlRequest) -> ControlOutcome:
        self._journal.event(
            "control-request",
            request=request.id,
            action=request.action,
            who=request.who,
            asked=request.t,
        )
        outcome = self._outcome(request)
        self._journal.event(
            "control-outcome",
            request=request.id,
            action=request.action,
            outcome=outcome.outcome,
            is_done=outcome.is_done,
        )
        return outcome

    def _outcome(self, request: ControlRequest) -> ControlOutcome:
        if request.action not in CONTROL_ACTIONS:
            return ControlOutcome(f"this version does not know {request.action!r}.", False)
        if not 0 <= request.age_s <= CONTROL_EXPIRES_S:
            return ControlOutcome("the request is too old.", False)
        folder = self._config.folder
        try:
            processes = training_processes(folder, self._config.attempt)
            action = cast(ProcessAction, request.action)
            sent = signal_processes(run_title(folder), folder.path, processes, action)
        except (EpochalError, OSError) as error:
            return ControlOutcome(str(error), False)
        return ControlOutcome(_sentence(sent), True)


def _sentence(sent: SentAction) -> str:
    elsewhere = (
        f" {sent.elsewhere} more processes are on other machines and end with their launcher."
        if sent.elsewhere and sent.action == "stop"
        else ""
    )
    return f"{_DONE[sent.action]} ({sent.receivers}).{elsewhere}"


def open_control(
    config: CompanionConfig, journal: OwnJournal, guard: Guard
) -> RemoteControl | None:
    """The control that the settings allow; None unless they do."""
    settings = read_settings()
    if not settings.control or settings.hub is None or not config.is_main:
        return None
    try:
        client = HubClient(settings.hub, hub_token(settings))
    except (EpochalError, OSError):
        return None  # the shipping says why
    return RemoteControl(config, journal, client, guard)


class HubShipping(ShippingWorker):
    """The shipping of one run, from its start to its last job."""

    @property
    def command(self) -> str:
        """The command that sends the rest."""
        return f"epochal hub push {self.folder.path} --to {self.url}"

    def go_on(self) -> bool:
        """No more will be written: whether something is still to be sent."""
        if not self._finishing.is_set():
            self.finish()
        return self.is_busy

    def left(self) -> str | None:
        """What the hub does not have, and why."""
        if self.is_complete:
            return None
        return f"not everything was sent to the hub: {self.error or 'it takes longer'}"


def open_shipping(config: CompanionConfig, journal: OwnJournal, guard: Guard) -> HubShipping | None:
    """The shipping that the settings ask for; None without a hub."""
    settings = read_settings()
    if settings.hub is None:
        return None
    try:
        client = HubClient(settings.hub, hub_token(settings))
    except (EpochalError, OSError) as error:
        journal.event("hub-failed", reason=str(error))
        return None
    return HubShipping(
        config.folder,
        client,
        bytes_per_s=settings.hub_bytes_per_s,
        on_error=lambda sentence: journal.event("hub-failed", reason=sentence),
        guard=guard,
        shipper_type=NodeShipper if config.is_aside else Shipper,
    )
