"""``epochal sync``: send a run to other trackers, from where each of them stopped."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import click

from epochal.cli.command import DURATION, cli_command, json_option, own_run, run_argument
from epochal.cli.output import say, say_json
from epochal.errors import UsageError
from epochal.journal.layout import RunFolder
from epochal.sinks.backlog import Backlog, is_sent
from epochal.sinks.ledger import Ledger, SinkProgress
from epochal.sinks.reporting import KnownSinks, Reporting, options_from
from epochal.sinks.skipped import sentences
from epochal.sinks.worker import Forwarding, Worker

_TRIES = 3
_PAUSE_S = 0.1
_KNOWN = KnownSinks.load()
_OPTIONS = f"An option, stored with the run: {', '.join(_KNOWN.options)}."


@cli_command
@run_argument
@click.option("--to", help=f"With commas, of {', '.join(_KNOWN.sinks)} (default: of the run).")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help=_OPTIONS)
@click.option("--timeout", type=DURATION, help="Longest time to wait (default: no limit).")
@click.option("--status", is_flag=True, help="Print what each tracker has, send nothing.")
@json_option
def command(
    run: str | None,
    to: str | None,
    settings: tuple[str, ...],
    timeout: float | None,
    status: bool,
    as_json: bool,
) -> int:
    """Send what is new in a run to other trackers; the exit code is 1 if something is left."""
    folder = RunFolder(own_run(run).path)
    ledger = Ledger(folder)
    before = ledger.progress_by_sink()
    if status:
        # What there is to send now: a sink that gave up no longer counts.
        now = {
            name: replace(progress, behind=Backlog(folder, progress.sent, wants=is_sent).count())
            for name, progress in before.items()
        }
        _print_status(now, as_json=as_json)
        return 0
    reporting = _with_settings(ledger.reporting(), settings)
    names = _names(to, reporting)
    if settings:
        ledger.report(reporting)
    forwarding = Forwarding(folder, reporting, names=names, tries=_TRIES)
    forwarding.finish()
    forwarding.start()
    for worker in _ended(forwarding, timeout):
        if not as_json:
            had = before.get(worker.name, SinkProgress()).num_sent
            say(f"{worker.name}: {_sentence(worker.progress, had)}", flush=True)
            _print_skipped(worker.name, worker.progress)
    after = forwarding.progress_by_sink()
    if as_json:
        _print_status(after, as_json=True)
    return int(not all(progress.is_done for progress in after.values()))


def _ended(forwarding: Forwarding, timeout_s: float | None) -> Iterator[Worker]:
    """Each worker when it has ended; when time is up, those that have not."""
    deadline_s = float("inf") if timeout_s is None else time.monotonic() + timeout_s
    left = list(forwarding.workers)
    while left and time.monotonic() < deadline_s:
        ended = [worker for worker in left if worker.join(_PAUSE_S / len(left))]
        left = [worker for worker in left if worker not in ended]
        yield from ended
    forwarding.stop()
    yield from left


def _names(to: str | None, reporting: Reporting) -> tuple[str, ...]:
    names = reporting.report_to
    if to is not None:
        names = tuple(_KNOWN.checked(name.strip()) for name in to.split(",") if name.strip())
    if not names:
        raise UsageError(
            f"the run reports to no tracker: name one with --to ({', '.join(_KNOWN.sinks)})."
        )
    return tuple(dict.fromkeys(names))


def _with_settings(reporting: Reporting, settings: tuple[str, ...]) -> Reporting:
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting!r} has no value: write NAME=VALUE.")
        given[name.strip()] = value
    if "report_to" in given:
        raise UsageError("--set report_to=… is not accepted: use --to.")
    return options_from({**reporting.plain(), **given})


def _print_status(progress_by_sink: Mapping[str, SinkProgress], *, as_json: bool) -> None:
    if as_json:
        fields = ("phase", "num_sent", "skipped", "rejection", "behind", "error", "state")
        say_json(
            {
                name: {field: getattr(progress, field) for field in fields}
                for name, progress in progress_by_sink.items()
            }
        )
        return
    if not progress_by_sink:
        say("The run was never sent to another tracker.")
    for name, progress in progress_by_sink.items():
        words = f"{progress.num_sent} records sent, {progress.behind} to go"
        say(f"{name}: {words}; {progress.error or progress.phase}.")
        _print_skipped(name, progress)


def _print_skipped(name: str, progress: SinkProgress) -> None:
    for sentence in sentences(name, progress.skipped, progress.rejection):
        say(f"{name}: {sentence}", flush=True)


def _sentence(progress: SinkProgress, had: int) -> str:
    num_new = progress.num_sent - had
    if progress.error is not None:
        return f"{progress.behind} records not sent: {progress.error}"
    if not progress.is_done:
        return f"{max(0, num_new)} records sent; time is up."
    new = f"{num_new} records sent" if num_new > 0 else "nothing new"
    return f"{new}, {progress.num_sent} in all."
