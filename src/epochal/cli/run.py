"""``epochal run``: start a training, watch it, stop it when something goes wrong."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import click

from epochal.cli.command import data_command, shared
from epochal.cli.launch import Launch, Limits
from epochal.cli.options import DURATION
from epochal.cli.output import complain, form, say, say_json
from epochal.cli.resume import environment_of, restarted
from epochal.errors import UsageError
from epochal.health.finding import Severity
from epochal.records.format import format_duration, format_number, format_reached
from epochal.run.console.messages import Verbosity, enabled
from epochal.settings.declared import LABELS, RUN_OPTIONS
from epochal.store.run import RunView

_SIGNALLED = 128  # what a shell adds to the number of the signal that ended a command
_STOPPED = {None: None, 1: "finding", 3: "timeout"}
_STOP_ON = click.Choice(("error", "warning"))
_COUNT = click.IntRange(0)


def _label_options(function: Any) -> Any:
    """Add an option for each setting that describes one run."""
    for name in reversed(LABELS):
        flag = "--tag" if name == "tags" else f"--{name.replace('_', '-')}"
        meaning = RUN_OPTIONS[name].meaning.partition(". ")[0].rstrip(".")
        meaning = "A tag of the run; you can give several" if name == "tags" else meaning
        option = click.option(
            flag, name, multiple=name == "tags", metavar="TEXT", help=f"{meaning}."
        )
        function = option(function)
    return function


@data_command
@click.argument("words", metavar="-- COMMAND...", nargs=-1, type=click.UNPROCESSED)
@click.option("--timeout", type=DURATION, help="Stop the training after this time, such as 30m.")
@click.option("--stop-on", type=_STOP_ON, help="Stop it when a rule finds an error, or a warning.")
@click.option("--grace", type=DURATION, default="30s", help="Time to save when stopped (30s).")
@_label_options
@click.option(
    "--first-step", type=DURATION, default="10m", help="Warn if no step was logged by then (10m)."
)
@click.option("--restarts", type=_COUNT, metavar="N", default=0, help="Resume at most N times.")
@click.option("--restart-wait", type=DURATION, default="5s", help="Wait before a restart (5s).")
def command(
    words: tuple[str, ...],
    timeout: float | None,
    stop_on: Severity | None,
    grace: float,
    first_step: float,
    restarts: int,
    restart_wait: float,
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
    given = [(RUN_OPTIONS[name], value) for name, value in labels.items() if value]
    environment = {str(option.variable): option.kind.to_text(value) for option, value in given}
    if folder := shared().dir:
        environment["EPOCHAL_DIR"] = str(Path(folder).absolute())
    started = list(words)
    for left in range(restarts, -1, -1):
        ended = Launch(limits, _tell)
        ended.start(started, environment)
        why_not = _why_not_again(ended, left)
        if why_not or ended.run is None:
            break
        started, how = restarted(words, ended.run)
        _tell(f"{_name(ended)} crashed ({ended}) at step {ended.run.info.step}; {how}.")
        time.sleep(restart_wait)
        environment |= environment_of(ended.run)
    code = ended.code if ended.code >= 0 else _SIGNALLED - ended.code
    if form() == "json":
        if ended.ends_in_line:
            say()
        say_json(_result(ended))
    else:
        again = f" It is not restarted: {why_not}." if restarts and ended.code != 0 else ""
        is_bad = ended.stopped is not None or code != 0
        _tell(f"{_sentence(words, ended)}{again}", style="bad" if is_bad else "")
    if labels["name"] and ended.run is not None and not _is_named(ended.run, labels["name"]):
        _tell("The script names its run itself, so --name was not used.")
    return code if ended.stopped is None else ended.stopped


# Options of the program need no -- before it.
command.allow_interspersed_args = False


def _is_named(run: RunView, name: str) -> bool:
    """Whether a run has a name, or the name with a number because it was taken."""
    return run.info.name == name or run.info.name.rpartition("-")[0] == name


def _why_not_again(ended: Launch, left: int) -> str:
    """Why a command is not started again; empty when it is."""
    run = ended.run
    if ended.code == 0:
        return "it has ended"
    if run is None:
        return "it never started a run"
    is_asked = ended.was_signalled or ended.stopped is not None
    if is_asked or run.info.status.state in ("terminated", "interrupted"):
        return "it was asked to stop"
    if not ended.has_stepped():
        return "it crashed before its first step, as it would again"
    return "" if left > 0 else "no restart is left"


def _result(ended: Launch) -> dict[str, Any]:
    """How the training ended, for programs."""
    result: dict[str, Any] = {"exit_code": ended.code, "seconds": round(ended.seconds, 3)}
    result |= {"stopped": _STOPPED[ended.stopped], "why": ended.why or None, "run": None}
    if ended.run is not None:
        info, names = ended.run.info, ("project", "name", "folder", "step", "epoch")
        result |= {"run": info.id, **{name: getattr(info, name) for name in names}}
        result |= {"status": info.status.state, "loss": ended.run.latest("loss")}
        known = ended.run.diagnosis()
        result |= {"state": known.state, "diagnosis": known.sentence}
        result["causes"] = [
            {"severity": one.severity, "rule": one.rule, "sentence": one.sentence}
            for one in known.causes
        ]
    return result


def _sentence(words: tuple[str, ...], ended: Launch) -> str:
    """How the training ended, in one line."""
    took, why = format_duration(ended.seconds), f" {ended.why}" if ended.why else ""
    if ended.run is None:
        how = (
            "stopped" if ended.stopped is not None else "failed to start" if ended.code else "ended"
        )
        return f"{shlex.join(words)} {how} ({ended}) after {took} and recorded no run.{why}"
    info, loss = ended.run.info, ended.run.latest("loss")
    how = "was stopped" if ended.stopped is not None else info.status.text
    reached = format_reached(info.step, info.epoch)
    facts = [f"{how}{f' ({ended})' if ended.code else ''}{f' at {reached}' if reached else ''}"]
    if loss is not None:
        facts.append(f"loss {format_number(loss)}")
    known = ended.run.diagnosis()
    if known.is_judged or known.causes:
        facts.append(known.sentence)
    see = f" See 'epochal doctor {shlex.quote(_name(ended))}'." if known.causes else ""
    return f"{_name(ended)} {', '.join([*facts, took])}.{why}{see}"


def _name(ended: Launch) -> str:
    assert ended.run is not None
    return f"{ended.run.info.project}/{ended.run.info.name}"


def _tell(sentence: str, *, style: str = "warn") -> None:
    """Print a sentence on stderr, which leaves stdout to the program."""
    if enabled(Verbosity.NORMAL):
        complain(f"epochal: {sentence}", style=style)
