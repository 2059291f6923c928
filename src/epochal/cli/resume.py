"""``epochal resume``: the command that continues a run, and what would differ."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Iterator

from epochal.cli.command import add_json, add_run, check_own, run_of
from epochal.cli.continuation import Continuation, continuation_of, is_redacted
from epochal.cli.output import one_line, remark, say, say_json
from epochal.errors import EpochalError, UsageError
from epochal.redact import REDACTED
from epochal.store.row import RunRow


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``resume``."""
    add_run(parser)
    parser.add_argument("--run", dest="start", action="store_true", help="run the command")
    parser.add_argument(
        "--args",
        metavar="TEXT",
        default="",
        help="arguments that replace those of the program: --args='--max_lr 1e-4'",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the command, or replace this process by it. ``--quiet`` prints the command alone."""
    view = run_of(args)
    check_own(view)
    try:
        more = shlex.split(args.args)
    except ValueError as error:
        raise UsageError(f"--args {args.args!r} cannot be read as arguments: {error}.") from error
    plan = continuation_of(view, more)
    if args.json:
        say_json(_as_data(view.info, plan))
        if not args.start:
            return 0
    else:
        for line in _description(view.info, plan):
            remark(one_line(line))
        say(plan.shell)
    if args.start:
        _become(plan)
    return 0


def _description(info: RunRow, plan: Continuation) -> Iterator[str]:
    reason = f": {info.status.reason}" if info.status.reason else ""
    at = "" if info.step is None else f", step {info.step}"
    yield f"{info.project}/{info.name}  ({info.status.text}{reason}{at})"
    if plan.checkpoint is not None:
        yield f"  checkpoint    {plan.checkpoint}"
        yield f"  continues at  step {plan.next_step}"
    for drift in plan.drift:
        yield f"  changed       {drift}"
    for sentence in plan.remarks:
        yield f"  note          {sentence}"
    yield ""


def _as_data(info: RunRow, plan: Continuation) -> dict[str, object]:
    return {
        "run": info.id,
        "state": info.status.state,
        "step": info.step,
        "shell": plan.shell,
        "command": list(plan.command),
        "environment": dict(plan.environment),
        "cwd": plan.cwd,
        "checkpoint": None if plan.checkpoint is None else str(plan.checkpoint),
        "next_step": plan.next_step,
        "drift": [{"name": d.name, "saved": d.saved, "now": d.now} for d in plan.drift],
        "remarks": list(plan.remarks),
    }


def _become(plan: Continuation) -> None:
    """Replace this process by the training: signals and its end are then the shell's own."""
    if is_redacted(plan.command):
        raise EpochalError(
            f"its command has a secret that was not recorded ({REDACTED}): give it with --args, as"
            " in --args='--password …', or run the printed command yourself."
        )
    sys.stdout.flush()
    try:
        if plan.cwd is not None:
            os.chdir(plan.cwd)
        os.execvpe(plan.command[0], plan.command, {**os.environ, **plan.environment})
    except OSError as error:
        raise EpochalError(f"it cannot be started: {error}") from error
