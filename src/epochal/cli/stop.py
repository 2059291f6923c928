"""``epochal stop``: stop, suspend or continue a training, or ask it for a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import ERROR, data_command, full_name, own_run
from epochal.cli.hub_transfer import hub_client, id_on_hub
from epochal.cli.output import answer, confirm, remark, said_json
from epochal.errors import UsageError
from epochal.journal.process_action import ProcessAction
from epochal.records.format import format_duration
from epochal.shipping.protocol import CONTROL_ACTIONS
from epochal.store.wait import send_action

_REFRESH_S = 0.1
_ASK_EVERY_S = 0.5
_HUB_STATES = {
    "waiting": "Nobody has taken the request yet. It waits for ten minutes; the training needs"
    " EPOCHAL_CONTROL=1 and a connection to the hub.",
    "taken": "Its companion has the request, and has not answered yet.",
    "done": "Done: {}",
    "failed": "Not done: {}",
    "expired": "Nobody took the request in ten minutes: it is void.",
}
_DONE: dict[ProcessAction, str] = {
    "stop": "was asked to stop",
    "interrupt": "was interrupted, as Ctrl-C does",
    "kill": "was killed",
    "suspend": "is suspended; 'epochal stop --continue' continues it",
    "continue": "continues",
    "checkpoint": "was asked to save after its step",
}
_HUB = "Ask through a hub (without URL: the setting hub.url); needs a token with the role write."
_ENDING: tuple[ProcessAction, ...] = ("stop", "interrupt", "kill")


def _action(name: ProcessAction, words: str, *more: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", *more, "action", flag_value=name, help=words)


@data_command
@options.run
@_action("interrupt", "Send SIGINT, like Ctrl-C, instead of SIGTERM.")
@_action("kill", "End it at once; steps since the last checkpoint are lost.")
@_action("suspend", "Suspend it; it keeps its memory.", "--pause")
@_action("continue", "Continue a suspended training.")
@_action("checkpoint", "Ask it to save a checkpoint after its step, and go on.")
@click.option("--hub", is_flag=False, flag_value="", metavar="[URL]", help=_HUB)
@click.option(
    "--wait", type=options.DURATION, default="30s", help="How long to wait for its end (30s)."
)
@options.yes
def command(
    run: str | None, action: ProcessAction | None, hub: str | None, wait: float, yes: bool
) -> int | None:
    """Stop a training, so that it can save, and wait for its end.

    The exit code is 2 if it is still running then.
    """
    action = action or "stop"
    if hub is not None:
        if run is None:
            raise UsageError("--hub needs a RUN.")
        if action not in CONTROL_ACTIONS:
            raise UsageError(f"--{action} does not work through a hub: only on the run's machine.")
        return _ask_hub(hub, run, action, wait)
    view = own_run(run)
    name = full_name(view)
    if action == "kill":
        confirm(f"Kill {name}, without a checkpoint?", yes=yes)
    sent = send_action(view, action)
    others = f" {sent.elsewhere} more are on other machines and end with their launcher."
    remark(f"{name} {_DONE[action]} ({sent.receivers}).{others if sent.elsewhere else ''}")
    until = time.monotonic() + wait
    while action in _ENDING and time.monotonic() < until:
        view.refresh()
        if not view.info.status.is_live:
            break
        time.sleep(_REFRESH_S)
    view.refresh()  # a process writes how it ended before it is gone
    info, status = view.info, view.info.status
    has_ended = not status.is_live
    is_done = has_ended or action not in _ENDING or wait == 0
    facts = {"signal": sent.signal, "processes": list(sent.pids), "state": status.state}
    said_json({"run": info.id, "asked": action, **facts, "ended": has_ended})
    if has_ended:
        reason = f" ({status.reason})" if status.reason else ""
        remark(f"It has ended: {status.text}{reason}, step {info.step}.")
    elif not is_done:
        remark(
            f"It is still running after {format_duration(wait)}: it ends when its step is done and"
            " saved. --kill does not wait for that."
        )
    return 0 if is_done else ERROR


def _ask_hub(hub: str, run: str, action: ProcessAction, wait: float) -> int:
    """Leave a request on the hub, and wait for what becomes of it; 1 when it was not done."""
    run_id = id_on_hub(hub, run)
    with hub_client(hub) as client:
        asked = client.ask(run_id, action)
        remark(f"{client.url} was asked to {action} {run}: its companion fetches that.")
        until = time.monotonic() + wait
        while asked["state"] in ("waiting", "taken") and time.monotonic() < until:
            time.sleep(_ASK_EVERY_S)
            asked = client.asked(run_id, asked["id"]) or asked
    done = _HUB_STATES[asked["state"]].format(asked["outcome"])
    answer({"run": run_id, "asked": action, **asked}, done)
    return ERROR if asked["state"] != "done" and wait > 0 else 0
