"""``epochal resume``: the command that continues a run, and what would differ."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict

import click

from epochal.cli.command import (
    check_own,
    chosen_run,
    cli_command,
    json_option,
    local_store,
    run_argument,
)
from epochal.cli.continuation import Continuation, continuation_of, is_redacted
from epochal.cli.output import one_line, remark, say, say_json
from epochal.errors import EpochalError, UsageError
from epochal.redact import REDACTED
from epochal.store.row import RunRow


@cli_command
@run_argument
@click.option("--run", "start", is_flag=True, help="Run the command.")
@click.option(
    "--args",
    "more",
    metavar="TEXT",
    default="",
    help="Arguments that replace those of the program: --args='--max_lr 1e-4'.",
)
@json_option
def command(run: str | None, start: bool, more: str, as_json: bool) -> None:
    """Print the command that continues a run, or run it. --quiet prints the command alone."""
    try:
        arguments = shlex.split(more)
    except ValueError as error:
        raise UsageError(f"--args {more!r} cannot be read as arguments: {error}.") from error
    with local_store() as store:
        view = chosen_run(store, run)
        check_own(view)
        info, plan = view.info, continuation_of(view, arguments)
    if as_json:
        facts = {"run": info.id, "state": info.status.state, "step": info.step}
        say_json({**facts, "shell": plan.shell, **asdict(plan)})
    else:
        for line in _description(info, plan):
            remark(one_line(line))
        say(plan.shell)
    if start:
        _become(plan)


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
