"""``epochal run``: start a training, watch over its start, keep what it prints, start it again."""

from __future__ import annotations

import argparse
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from epochal.cli.continuation import environment_of, restarted
from epochal.cli.launch import Ended, Launch
from epochal.cli.output import complain
from epochal.console.messages import Verbosity, enabled
from epochal.errors import UsageError
from epochal.format import format_duration

_SIGNALLED = 128  # what a shell adds to the number of the signal that ended a command


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``run``."""
    parser.add_argument(
        "words",
        metavar="-- COMMAND",
        nargs=argparse.REMAINDER,
        help="the command to start: -- python train.py --lr 1e-3",
    )
    parser.add_argument("--project", help="default project of the run (EPOCHAL_PROJECT)")
    parser.add_argument("--name", help="default name of the run (EPOCHAL_NAME)")
    parser.add_argument(
        "--first-step",
        type=float,
        default=10.0,
        metavar="MIN",
        help="warn if there is no run or no step after MIN minutes (10; 0: never)",
    )
    parser.add_argument(
        "--restarts",
        type=int,
        default=0,
        metavar="N",
        help="after a crash resume from the last checkpoint, at most N times (0)",
    )
    parser.add_argument(
        "--restart-wait", type=float, default=5.0, metavar="S", help="seconds before a restart (5)"
    )


def run(args: argparse.Namespace) -> int:
    """Run the command to its end, again after crashes; its exit code, 128 + n for a signal n."""
    command = _command(args)
    environment = _environment(args)
    left = args.restarts
    while True:
        ended = Launch(
            command, environment=environment, first_step_s=args.first_step * 60, tell=_tell
        ).run()
        reason = _why_not_again(ended, left)
        if ended.code == 0 or reason is not None:
            _say_end(command, ended, reason if args.restarts else None)
            return ended.code if ended.code >= 0 else _SIGNALLED - ended.code
        assert ended.run is not None
        left -= 1
        again, remark = restarted(_command(args), ended.run)
        _tell(f"{_name(ended)} crashed ({ended}) at step {ended.run.info.step}; {remark}.")
        time.sleep(args.restart_wait)
        command, environment = again, {**environment, **environment_of(ended.run)}


def _command(args: argparse.Namespace) -> list[str]:
    words = args.words[1:] if args.words[:1] == ["--"] else args.words
    if not words:
        raise UsageError("a command is missing: epochal run -- python train.py")
    for name, least in (("first_step", 0.0), ("restarts", 0), ("restart_wait", 0.0)):
        if not least <= getattr(args, name) < float("inf"):
            option = name.replace("_", "-")
            raise UsageError(f"--{option} {getattr(args, name)} must be {least:g} or more.")
    return list(words)


def _environment(args: argparse.Namespace) -> Mapping[str, str]:
    folder = getattr(args, "dir", None)
    given = {
        "EPOCHAL_DIR": None if folder is None else str(Path(folder).absolute()),
        "EPOCHAL_PROJECT": args.project,
        "EPOCHAL_NAME": args.name,
    }
    return {name: value for name, value in given.items() if value}


def _why_not_again(ended: Ended, left: int) -> str | None:
    """Why a command that crashed is not started again; None when it is."""
    if ended.was_stopped:
        return "it was asked to stop"
    if ended.run is None:
        return "it never started a run"
    if ended.run.info.status.state in ("terminated", "interrupted"):
        return "it was asked to stop"
    if not ended.has_stepped:
        return "it crashed before its first step, as it would again"
    return None if left > 0 else "no restart is left"


def _say_end(command: Sequence[str], ended: Ended, reason: str | None) -> None:
    took = format_duration(ended.seconds)
    why = "" if reason is None or ended.code == 0 else f" It is not restarted: {reason}."
    if ended.run is None and ended.code != 0:
        _tell(f"failed to start: {shlex.join(command[:3])} ended with {ended} after {took}.{why}")
    elif ended.run is None:
        _tell(f"the command ended after {took} and recorded no run.")
    elif ended.code != 0:
        _tell(f"{_name(ended)} ended with {ended} after {took}.{why}")


def _name(ended: Ended) -> str:
    assert ended.run is not None
    info = ended.run.info
    return f"{info.project}/{info.name}"


def _tell(sentence: str) -> None:
    """Say a sentence on stderr, in yellow on a terminal."""
    if enabled(Verbosity.NORMAL):
        complain(f"epochal: {sentence}", style="warn")
