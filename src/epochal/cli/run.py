"""``epochal run``: start a training, watch it, stop it when something goes wrong."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from epochal.cli.command import DURATION, cli_command, json_option, shared
from epochal.cli.continuation import environment_of, restarted
from epochal.cli.launch import Ended, Launch, Limits, open_findings
from epochal.cli.output import complain, say, say_json
from epochal.console.messages import Verbosity, enabled
from epochal.errors import UsageError
from epochal.format import format_duration, format_number, format_reached, plural
from epochal.health.finding import Severity
from epochal.settings.declared import BY_NAME

_SIGNALLED = 128  # what a shell adds to the number of the signal that ended a command
_LABELS = ("project", "name", "tags", "notes", "group", "job_type")


def _label_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each setting that describes one run."""
    for name in reversed(_LABELS):
        if name in BY_NAME:
            setting = BY_NAME[name]
            flag = "--tag" if name == "tags" else f"--{name.replace('_', '-')}"
            words = f"{setting.meaning[0].upper()}{setting.meaning[1:].rstrip('.')}."
            option = click.option(flag, name, multiple=name == "tags", metavar="TEXT", help=words)
            function = option(function)
    return function


@cli_command
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--timeout", type=DURATION, help="Stop the training after so long, such as 30m.")
@click.option(
    "--stop-on",
    type=click.Choice(("error", "warning")),
    help="Stop it when a rule finds an error, or at least a warning.",
)
@click.option(
    "--grace", type=DURATION, default=30.0, help="Its time to save before it is killed (30s)."
)
@_label_options
@click.option(
    "--first-step",
    type=DURATION,
    default=600.0,
    help="Warn if there is no run or no step after so long (10m; 0s: never).",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=0,
    help="After a crash resume from the last checkpoint, at most so many times (0).",
)
@click.option("--restart-wait", type=DURATION, default=5.0, help="Wait before a restart (5s).")
@json_option
def command(
    words: tuple[str, ...],
    timeout: float | None,
    stop_on: Severity | None,
    grace: float,
    first_step: float,
    restarts: int,
    restart_wait: float,
    as_json: bool,
    **labels: Any,
) -> int:
    """Start a training, watch it, and print a line about how it ended.

    \b
        epochal run --timeout 30m --stop-on error -- python train.py --lr 1e-3

    The exit code is that of the training, 128 + n for a signal n. It is 1 if a finding stopped the
    training and 3 if the timeout did. With --json the result is the last line of stdout.
    """
    if not words:
        raise UsageError("a command is missing: epochal run -- python train.py")
    limits = Limits(
        first_step_s=first_step,
        deadline=time.monotonic() + (float("inf") if timeout is None else timeout),
        stop_on=stop_on,
        grace_s=grace,
    )
    given = {BY_NAME[name]: value for name, value in labels.items() if value}
    environment = {s.variable: s.kind.to_text(value) for s, value in given.items() if s.variable}
    if shared().dir is not None:
        environment["EPOCHAL_DIR"] = str(Path(str(shared().dir)).absolute())
    command_words, left = list(words), restarts
    while True:
        ended = Launch(command_words, environment=environment, limits=limits, tell=_tell).run()
        reason = _why_not_again(ended, left)
        if reason is not None or ended.run is None:
            break
        left -= 1
        command_words, remark = restarted(words, ended.run)
        _tell(f"{_name(ended)} crashed ({ended}) at step {ended.run.info.step}; {remark}.")
        time.sleep(restart_wait)
        environment |= environment_of(ended.run)
    if as_json:
        if ended.ends_in_line:
            say()
        say_json(_result(ended))
    else:
        why = f" It is not restarted: {reason}." if restarts and reason and ended.code != 0 else ""
        is_fine = ended.code == 0 and ended.stopped is None
        _tell(f"{_sentence(words, ended)}{why}", style="" if is_fine else "bad")
    if ended.stopped is not None:
        return ended.stopped
    return ended.code if ended.code >= 0 else _SIGNALLED - ended.code


def _why_not_again(ended: Ended, left: int) -> str | None:
    """Why a command is not started again; None when it is."""
    if ended.code == 0:
        return "it has ended"
    if ended.was_signalled or ended.stopped is not None:
        return "it was asked to stop"
    if ended.run is None:
        return "it never started a run"
    if ended.run.info.status.state in ("terminated", "interrupted"):
        return "it was asked to stop"
    if not ended.has_stepped:
        return "it crashed before its first step, as it would again"
    return None if left > 0 else "no restart is left"


def _result(ended: Ended) -> dict[str, Any]:
    """How the training ended, for programs."""
    result: dict[str, Any] = {
        "exit_code": ended.code,
        "seconds": round(ended.seconds, 3),
        "stopped": {None: None, 1: "finding", 3: "timeout"}[ended.stopped],
        "why": ended.why or None,
        "run": None,
    }
    if ended.run is None:
        return result
    info = ended.run.info
    found = [
        {"severity": finding.severity, "rule": finding.rule, "sentence": finding.sentence}
        for finding in open_findings(ended.run)
    ]
    return result | {
        "run": info.id,
        "project": info.project,
        "name": info.name,
        "folder": info.folder,
        "status": info.status.state,
        "step": info.step,
        "epoch": info.epoch,
        "loss": ended.run.latest("loss"),
        "findings": found,
    }


def _sentence(words: tuple[str, ...], ended: Ended) -> str:
    """How the training ended, in one line."""
    took = format_duration(ended.seconds)
    if ended.run is None:
        if ended.stopped is not None:
            return f"the command was stopped and recorded no run. {ended.why}"
        if ended.code == 0:
            return f"the command ended after {took} and recorded no run."
        return f"failed to start: {shlex.join(words[:3])} ended with {ended} after {took}."
    info, loss = ended.run.info, ended.run.latest("loss")
    how = "was stopped" if ended.stopped is not None else info.status.text
    if ended.stopped is None and ended.code != 0:
        how = f"ended with {ended}"
    reached = format_reached(info.step, info.epoch)
    facts = [f"{how} at {reached}" if reached else how]
    if loss is not None:
        facts.append(f"loss {format_number(loss)}")
    if info.errors is not None:
        counts = ((info.open_errors or 0, "error"), (info.open_warnings or 0, "warning"))
        found = " and ".join(plural(count, f"open {noun}") for count, noun in counts if count)
        facts.append(found or "no open findings")
    sentence = f"{_name(ended)} {', '.join([*facts, took])}."
    if ended.why:
        sentence += f" {ended.why}"
    if info.open_errors or info.open_warnings:
        sentence += f" 'epochal doctor {shlex.quote(_name(ended))}' tells more."
    return sentence


def _name(ended: Ended) -> str:
    assert ended.run is not None
    info = ended.run.info
    return f"{info.project}/{info.name}"


def _tell(sentence: str, *, style: str = "warn") -> None:
    """Print a sentence on stderr, which leaves stdout to the program."""
    if enabled(Verbosity.NORMAL):
        complain(f"epochal: {sentence}", style=style)
