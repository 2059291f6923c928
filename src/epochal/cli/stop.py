"""``epochal stop``: stop, suspend or continue a training, or ask it for a checkpoint."""

from __future__ import annotations

import argparse
import contextlib
import time

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import agreed, remark, say_json
from epochal.cli.pull import id_on_hub
from epochal.cli.push import client_of
from epochal.errors import UsageError
from epochal.format import format_duration
from epochal.journal.process_action import ProcessAction, SentAction
from epochal.shipping.protocol import CONTROL_ACTIONS
from epochal.store.answers import LIVE_STATES
from epochal.store.process_action import send_action
from epochal.store.store import RunView

_LOOK_EVERY_S = 0.1
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
_ENDING: tuple[ProcessAction, ...] = ("stop", "interrupt", "kill")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stop``."""
    add_run(parser)
    how = parser.add_mutually_exclusive_group()
    for action, words in (
        ("interrupt", "send SIGINT, like Ctrl-C, instead of SIGTERM"),
        ("kill", "end it at once; steps since the last checkpoint are lost"),
        ("suspend", "suspend it; it keeps its memory"),
        ("continue", "continue a suspended training"),
        ("checkpoint", "ask it to save a checkpoint after its step, and go on"),
    ):
        names = ("--suspend", "--pause") if action == "suspend" else (f"--{action}",)
        how.add_argument(*names, dest="action", action="store_const", const=action, help=words)
    parser.add_argument(
        "--hub",
        nargs="?",
        const="",
        metavar="URL",
        help="ask through this hub, from any machine; needs a token with the role write"
        " (without URL: the setting hub.url)",
    )
    parser.add_argument(
        "--wait", type=float, default=30.0, metavar="S", help="seconds to wait for its end (30)"
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before --kill")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Signal the run's processes, and wait until it has ended; 1 when it is still running."""
    if not 0 <= args.wait < float("inf"):
        raise UsageError(f"--wait {args.wait} must be 0 or more seconds.")
    action: ProcessAction = args.action or "stop"
    if args.hub is not None:
        return _ask_hub(args, action)
    view = run_of(args)
    name = f"{view.info.project}/{view.info.name}"
    if action == "kill" and not args.yes and not agreed(f"Kill {name}, without a checkpoint?"):
        remark(f"{name} was not killed.")
        return 1
    sent = send_action(view, action)
    if not args.json:
        remark(_sentence(name, sent))
    if action in _ENDING:
        _wait_for_end(view, args.wait)
    status = view.info.status
    has_ended = status.state not in LIVE_STATES
    is_done = has_ended or action not in _ENDING or args.wait == 0
    if args.json:
        say_json(
            {
                "run": view.info.id,
                "asked": action,
                "signal": sent.signal,
                "processes": list(sent.pids),
                "state": status.state,
                "ended": has_ended,
            }
        )
    elif has_ended:
        remark(f"It has ended: {status.text}{_reason(status.reason)}, step {view.info.step}.")
    elif not is_done:
        remark(
            f"It is still running after {format_duration(args.wait)}: it ends when its step is done"
            " and saved. --kill does not wait for that."
        )
    return 0 if is_done else 1


def _wait_for_end(view: RunView, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        view.refresh()
        if view.info.status.state not in LIVE_STATES:
            return
        time.sleep(_LOOK_EVERY_S)


def _ask_hub(args: argparse.Namespace, action: ProcessAction) -> int:
    """Leave a request on the hub, and wait for what becomes of it; 1 when it was not done."""
    if action not in CONTROL_ACTIONS:
        raise UsageError(f"--{action} does not work through a hub: only on the run's machine.")
    with contextlib.closing(client_of(args)) as client:
        run_id = id_on_hub(client, args.run)
        asked = client.ask(run_id, action)
        if not args.json:
            remark(f"{client.url} was asked to {action} {args.run}: its companion fetches that.")
        until = time.monotonic() + args.wait
        while asked["state"] in ("waiting", "taken") and time.monotonic() < until:
            time.sleep(_ASK_EVERY_S)
            asked = client.asked(run_id, asked["id"]) or asked
    if args.json:
        say_json({"run": run_id, "asked": action, **asked})
    else:
        remark(_HUB_STATES[asked["state"]].format(asked["outcome"]))
    return 0 if asked["state"] == "done" or args.wait == 0 else 1


def _sentence(name: str, sent: SentAction) -> str:
    elsewhere = (
        f" {sent.elsewhere} more are on other machines and end with their launcher."
        if sent.elsewhere
        else ""
    )
    return f"{name} {_DONE[sent.action]} ({sent.receivers}).{elsewhere}"


def _reason(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
