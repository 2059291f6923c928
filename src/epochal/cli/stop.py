"""``epochal stop``: stop, suspend or continue a training."""

from __future__ import annotations

import argparse
import time

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import agreed, remark, say_json
from epochal.errors import UsageError
from epochal.format import format_duration
from epochal.store.answers import LIVE_STATES
from epochal.store.process_action import ProcessAction, SentAction, send_action
from epochal.store.store import RunView

_LOOK_EVERY_S = 0.1
_DONE: dict[ProcessAction, str] = {
    "stop": "was asked to stop",
    "interrupt": "was interrupted, as Ctrl-C does",
    "kill": "was killed",
    "suspend": "is suspended; 'epochal stop --continue' continues it",
    "continue": "continues",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``stop``."""
    add_run(parser)
    how = parser.add_mutually_exclusive_group()
    for action, words in (
        ("interrupt", "send SIGINT, like Ctrl-C, instead of SIGTERM"),
        ("kill", "end it at once; steps since the last checkpoint are lost"),
        ("suspend", "suspend it; it keeps its memory"),
        ("continue", "continue a suspended training"),
    ):
        how.add_argument(
            f"--{action}", dest="action", action="store_const", const=action, help=words
        )
    parser.add_argument(
        "--wait",
        type=float,
        default=30.0,
        metavar="S",
        help="seconds to wait for its end (30)",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before --kill")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Signal the run's processes, and wait until it has ended; 1 when it is still running."""
    if not 0 <= args.wait < float("inf"):
        raise UsageError(f"--wait {args.wait} must be 0 or more seconds.")
    view = run_of(args)
    action: ProcessAction = args.action or "stop"
    name = f"{view.info.project}/{view.info.name}"
    if action == "kill" and not args.yes and not agreed(f"Kill {name}, without a checkpoint?"):
        remark(f"{name} was not killed.")
        return 1
    sent = send_action(view, action)
    if not args.json:
        remark(_sentence(name, sent))
    if action not in ("suspend", "continue"):
        _wait_for_end(view, args.wait)
    status = view.info.status
    has_ended = status.state not in LIVE_STATES
    is_done = has_ended or action in ("suspend", "continue") or args.wait == 0
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
            " and saved. --kill does not wait for that.",
        )
    return 0 if is_done else 1


def _wait_for_end(view: RunView, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        view.refresh()
        if view.info.status.state not in LIVE_STATES:
            return
        time.sleep(_LOOK_EVERY_S)


def _sentence(name: str, sent: SentAction) -> str:
    number = len(sent.pids)
    whom = f"process {sent.pids[0]}" if number == 1 else f"{number} processes"
    elsewhere = (
        f" {sent.elsewhere} more are on other machines and end with their launcher."
        if sent.elsewhere
        else ""
    )
    return f"{name} {_DONE[sent.action]} ({sent.signal} to {whom}).{elsewhere}"


def _reason(reason: str | None) -> str:
    return f" ({reason})" if reason else ""
