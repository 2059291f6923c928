"""``epochal doctor``: the findings of a run and what to try."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from epochal.cli.command import (
    FINDINGS,
    chosen_run,
    cli_command,
    json_option,
    local_store,
    runs_argument,
)
from epochal.cli.output import Line, one_line, say_json, say_lines
from epochal.cli.severity import MARKS, STYLES
from epochal.errors import UsageError
from epochal.format import format_reached, plural
from epochal.health.finding import Finding, Severity, evidence_text, is_more_severe
from epochal.store.brief import findings_of
from epochal.store.store import RunView

_WIDTH = 96
# The goodput of a shorter run says nothing, unless work was lost.
_GOODPUT_FROM_S = 60.0


@cli_command
@runs_argument
@click.option(
    "--severity",
    type=click.Choice(("info", "warning", "error")),
    default="info",
    help="Lowest severity to show (default: info).",
)
@click.option("--open", "only_open", is_flag=True, help="Open findings only.")
@json_option
def command(runs: tuple[str, ...], severity: Severity, only_open: bool, as_json: bool) -> int:
    """Diagnose a run: what is wrong, the evidence and what to try.

    The exit code is 1 when an error or an open warning is among the findings, else 0.
    """
    if len(runs) > 1:
        raise UsageError("doctor takes one run; 'epochal compare' and 'epochal why' take several.")
    with local_store() as store:  # closing it keeps the count for lists
        view = chosen_run(store, runs[0] if runs else None)
        found = [
            finding
            for finding in findings_of(view)
            if not is_more_severe(severity, finding.severity)
            and not (only_open and finding.state == "closed")
        ]
        if as_json:
            say_json(_as_data(view, found))
        else:
            say_lines(_report(view, found))
            say_lines([(line, "")] for line in (*_goodput(view), *_evaluated(view)))
            say_lines([(line, "")] for line in _own_faults(view))
    is_bad = any(one.severity == "error" or _is_open_warning(one) for one in found)
    return FINDINGS if is_bad else 0


def _is_open_warning(finding: Finding) -> bool:
    return finding.severity == "warning" and finding.state == "open"


def _report(view: RunView, found: Sequence[Finding]) -> Iterator[Line]:
    info = view.info
    is_reported = any(finding.rule == info.status.state for finding in found)
    status_reason = (info.status.reason or "").rstrip(".")
    reason = f": {status_reason}" if status_reason and not is_reported else ""
    place = format_reached(info.step, info.epoch)
    at = f", {place}" if place else ""
    yield [(f"{info.project}/{info.name}  ({info.status.text}{reason}{at})", "")]
    yield [("", "")]
    if not found:
        yield [("No findings.", "good")]
        return
    for finding in found:
        yield from _lines(finding)
        yield [("", "")]
    nouns = {"error": "error", "warning": "warning", "info": "note"}
    counts = {word: sum(one.severity == word for one in found) for word in nouns}
    yield [(", ".join(plural(n, nouns[word]) for word, n in counts.items() if n) + ".", "")]


def _lines(finding: Finding) -> Iterator[Line]:
    is_open = finding.state == "open"
    sentence = f"{finding.sentence}{'' if is_open else '  (resolved)'}"
    style = STYLES[finding.severity] if is_open else ""
    for line in _wrapped(f"{MARKS[finding.severity]} ", sentence):
        yield [(line, style)]
    where = [finding.rule, *([finding.series] if finding.series else [])]
    if finding.steps is not None:
        first, last = finding.steps
        where.append(f"step {first}" if first == last else f"steps {first} to {last}")
    yield [(f"    {' · '.join(where)}", "dim")]
    evidence = ", ".join(evidence_text(name, value) for name, value in finding.evidence.items())
    for title, text in (("evidence", evidence), ("try", finding.advice)):
        for line in _wrapped(f"    {title}: ", text) if text else ():
            yield [(line, "")]


def _goodput(view: RunView) -> Iterator[str]:
    """Productive time over wall time, and what to do where it is low."""
    goodput = view.goodput()
    if goodput is not None and (goodput.wall_s >= _GOODPUT_FROM_S or goodput.lost_steps):
        sentences = (f"Goodput {goodput.text}.", goodput.advice or "")
        yield from _wrapped("", " ".join(sentences).rstrip())


def _evaluated(view: RunView) -> Iterator[str]:
    """How many records the findings are based on."""
    counts = view.evaluated()
    if counts is None or not counts.records:
        return
    text = f"The rules evaluated {counts.evaluated:,} of {counts.records:,} records."
    if counts.evaluated < counts.records:
        text += (
            " The smallest and largest loss, evaluation loss and gradient norm of every skipped "
            "interval are among them."
        )
    yield from _wrapped("", text)


def _own_faults(view: RunView) -> Iterator[str]:
    """Faults of Epochal itself: which member, how often, in a line."""
    errors: Counter[tuple[str, str | None]] = Counter()
    for error in (entry.record for entry in view.internal_errors()):
        count, package = error.get("count"), error.get("package")
        whose = package if isinstance(package, str) else None
        # The training, the companion and this process may have seen the same fault.
        errors[f"{error.get('member')}: {error.get('reason')}", whose] += (
            count if isinstance(count, int) else 1
        )
    if not errors:
        return
    what = "an internal error" if len(errors) == 1 else f"internal errors in {len(errors)} members"
    yield ""
    yield f"Epochal had {what}; the recorded data is not affected:"
    for (words, whose), count in errors.items():
        origin = "" if whose is None else f" (package {whose})"
        times = f" ({count} times)" if count > 1 else ""
        yield from _wrapped("    ", one_line(f"{words}{origin}{times}"))
    packages = {whose for _, whose in errors}
    others = " and ".join(sorted(whose for whose in packages if whose is not None))
    to = f" to the authors of {others}" if None not in packages else ""
    command = f"'epochal doctor {view.info.name} --json'"
    yield from _wrapped("  ", f"Please report this{to} with the tracebacks that {command} prints.")


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * min(len(start), 4),
        break_on_hyphens=False,  # names and options stay whole, to be copied
    )


def _as_data(view: RunView, found: Sequence[Finding]) -> dict[str, Any]:
    info, counts = view.info, view.evaluated()
    faults = [entry.record for entry in view.internal_errors()]
    return {
        "run": info.id,
        "name": info.name,
        "project": info.project,
        "status": info.status.state,
        "step": info.step,
        "epoch": info.epoch,
        "errors": sum(finding.severity == "error" for finding in found),
        "warnings": sum(finding.severity == "warning" for finding in found),
        "goodput": view.goodput(),
        "evaluated": counts and counts.evaluated,
        "records": counts and counts.records,
        "internal_errors": [
            {key: value for key, value in fault.items() if key not in ("log", "name")}
            for fault in faults
        ],
        "findings": [
            {key: value for key, value in one.record().items() if key not in ("log", "t", "id")}
            for one in found
        ],
    }
