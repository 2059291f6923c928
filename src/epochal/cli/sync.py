"""``epochal sync``: send a run to other trackers, from where each of them stopped."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import ERROR, data_command, own_run
from epochal.cli.output import said_json, say
from epochal.errors import UsageError
from epochal.exchange.sinks.backlog import Backlog, is_sent
from epochal.exchange.sinks.ledger import Ledger, SinkProgress
from epochal.exchange.sinks.reporting import KnownSinks, Reporting, options_from
from epochal.exchange.sinks.unsent import sentences
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder
from epochal.records.format import plural

_TRIES = 3
_PAUSE_S = 0.1
_KNOWN = KnownSinks.load()
_OPTIONS = f"An option, stored with the run: {', '.join(_KNOWN.options)}."


@data_command
@options.run
@click.option("--to", help=f"With commas, of {', '.join(_KNOWN.sinks)} (default: of the run).")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help=_OPTIONS)
@click.option("--timeout", type=options.DURATION, help="Longest time to wait (default: no limit).")
@click.option("--status", is_flag=True, help="Print what each tracker has, send nothing.")
def command(
    run: str | None, to: str | None, settings: tuple[str, ...], timeout: float | None, status: bool
) -> int:
    """Send what is new in a run to other trackers; the exit code is 2 if something is left."""
    folder = RunFolder(own_run(run).path)
    ledger = Ledger(folder)
    if status:
        # What there is to send now: a sink that gave up no longer counts.
        now = {
            name: replace(progress, behind=Backlog(folder, progress.sent, wants=is_sent).count())
            for name, progress in ledger.progress_by_sink().items()
        }
        _print(now)
        return 0
    reporting = _with_settings(ledger.reporting(), settings)
    names = _names(to, reporting)
    if settings:
        ledger.report(reporting)
    forwarding = Forwarding(folder, reporting, names=names, tries=_TRIES)
    forwarding.finish()
    forwarding.start()
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    left = list(forwarding.workers)
    while left and time.monotonic() < deadline:
        left = [worker for worker in left if not worker.join(_PAUSE_S / len(left))]
    forwarding.stop()
    after = forwarding.progress_by_sink()
    _print(after)
    return 0 if all(progress.is_done for progress in after.values()) else ERROR


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
    return options_from({**reporting.plain(), **given})


def _print(progress_by_sink: Mapping[str, SinkProgress]) -> None:
    fields = ("phase", "num_sent", "skipped", "rejection", "behind", "error", "state")
    found = progress_by_sink.items()
    if said_json({name: {field: getattr(one, field) for field in fields} for name, one in found}):
        return
    if not progress_by_sink:
        say("The run was never sent to another tracker.")
    for name, progress in progress_by_sink.items():
        error = f": {progress.error.rstrip('.')}" if progress.error else ""
        sent = f"{plural(progress.num_sent, 'record')} sent, {progress.behind or 'none'} left"
        skipped = sentences(name, progress.skipped, progress.rejection)
        for sentence in (f"{sent}{error}.", *skipped):
            say(f"{name}: {sentence}")
