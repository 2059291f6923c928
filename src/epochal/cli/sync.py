"""``epochal sync``: send a run to other trackers, from where each of them stopped."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from epochal.cli.command import add_json, add_run, own_folder_of
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


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``sync``."""
    known = KnownSinks.load()
    add_run(parser)
    parser.add_argument(
        "--to",
        metavar="SINKS",
        help=f"sinks, separated by commas: {', '.join(known.sinks)} "
        "(default: the sinks of the run)",
    )
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        dest="settings",
        help=f"an option, stored with the run: {', '.join(known.options)}",
    )
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=float, help="longest time to wait (default: no limit)"
    )
    parser.add_argument(
        "--status", action="store_true", help="print the state of each sink, send nothing"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Send what has not been sent; 1 when something is left."""
    folder = own_folder_of(args)
    ledger = Ledger(folder)
    if args.status:
        _print_all(_counted(folder, ledger.progress_by_sink()), as_json=args.json)
        return 0
    reporting = _with_settings(ledger.reporting(), args.settings)
    names = _names(args.to, reporting)
    if args.settings:
        ledger.report(reporting)
    before = {name: progress.num_sent for name, progress in ledger.progress_by_sink().items()}
    forwarding = Forwarding(folder, reporting, names=names, tries=_TRIES)
    forwarding.finish()
    forwarding.start()
    for worker in _as_they_end(forwarding, args.timeout):
        if not args.json:
            num_new = worker.progress.num_sent - before.get(worker.name, 0)
            say(f"{worker.name}: {_sentence(worker, num_new)}", flush=True)
            _say_skipped(worker.name, worker.progress)
    after = forwarding.progress_by_sink()
    if args.json:
        _print_all(after, as_json=True)
    return 0 if all(progress.is_done for progress in after.values()) else 1


def _counted(
    folder: RunFolder, progress_by_sink: Mapping[str, SinkProgress]
) -> dict[str, SinkProgress]:
    """The same with what there is to send now: a sink that gave up no longer counts."""
    return {
        name: replace(progress, behind=Backlog(folder, progress.sent, wants=is_sent).count())
        for name, progress in progress_by_sink.items()
    }


def _as_they_end(forwarding: Forwarding, timeout_s: float | None) -> Iterator[Worker]:
    """Each worker when it has ended; when time is up, those that have not."""
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    left = list(forwarding.workers)
    while left and (deadline_s is None or time.monotonic() < deadline_s):
        ended = [worker for worker in left if worker.join(_PAUSE_S / len(left))]
        left = [worker for worker in left if worker not in ended]
        yield from ended
    forwarding.stop()
    yield from left


def _names(to: str | None, reporting: Reporting) -> tuple[str, ...]:
    known = KnownSinks.load()
    if to is None:
        names = reporting.report_to
    else:
        names = tuple(known.checked(name.strip()) for name in to.split(",") if name.strip())
    if not names:
        raise UsageError(
            f"the run reports to no tracker: name one with --to ({', '.join(known.sinks)})."
        )
    return tuple(dict.fromkeys(names))


def _with_settings(reporting: Reporting, settings: list[str]) -> Reporting:
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise UsageError(f"--set {setting!r} has no value: write NAME=VALUE.")
        given[name.strip()] = value
    if "report_to" in given:
        raise UsageError("--set report_to=… is not accepted: use --to.")
    return options_from({**reporting.plain(), **given})


def _print_all(progress_by_sink: Mapping[str, SinkProgress], *, as_json: bool) -> None:
    if as_json:
        say_json({name: _plain(progress) for name, progress in progress_by_sink.items()})
        return
    if not progress_by_sink:
        say("The run was never sent to another tracker.")
    for name, progress in progress_by_sink.items():
        words = f"{progress.num_sent} records sent, {progress.behind} to go"
        say(f"{name}: {words}; {progress.error or progress.phase}.")
        _say_skipped(name, progress)


def _say_skipped(name: str, progress: SinkProgress) -> None:
    for sentence in sentences(name, progress.skipped, progress.rejection):
        say(f"{name}: {sentence}", flush=True)


def _plain(progress: SinkProgress) -> dict[str, Any]:
    return {
        "phase": progress.phase,
        "num_sent": progress.num_sent,
        "skipped": progress.skipped,
        "rejection": progress.rejection or None,
        "behind": progress.behind,
        "error": progress.error,
        "state": progress.state,
    }


def _sentence(worker: Worker, num_new: int) -> str:
    progress = worker.progress
    if progress.error is not None:
        return f"{progress.behind} records not sent: {progress.error}"
    if not progress.is_done:
        return f"{max(0, num_new)} records sent; time is up."
    new = f"{num_new} records sent" if num_new > 0 else "nothing new"
    return f"{new}, {progress.num_sent} in all."
