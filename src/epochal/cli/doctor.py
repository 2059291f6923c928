"""``epochal doctor``: the findings of a run and what to try."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from epochal.cli.output import one_line, say, say_json
from epochal.errors import UsageError
from epochal.format import format_reached
from epochal.health.finding import Finding, Severity, evidence_text
from epochal.store.finding_counts import latest_findings
from epochal.store.store import RunView

_WIDTH = 96
_GRAVITY = {"error": 0, "warning": 1, "info": 2}
# The goodput of a shorter run says nothing, unless work was lost.
_GOODPUT_FROM_S = 60.0
_MARKS = {"error": "✗", "warning": "!", "info": "·"}


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
            for finding in newest_of_each(view)
            if _GRAVITY[finding.severity] <= _GRAVITY[severity]
            and not (only_open and finding.state == "closed")
        ]
        if as_json:
            say_json(_as_data(view, found))
        else:
            beside = (*_goodput(view), *_evaluated(view), *_own_faults(view))
            say("\n".join([*_report(view, found), *beside]))
    return FINDINGS if any(map(_is_grave, found)) else 0


def _is_grave(finding: Finding) -> bool:
    is_open_warning = finding.severity == "warning" and finding.state == "open"
    return finding.severity == "error" or is_open_warning


def newest_of_each(view: RunView) -> list[Finding]:
    """The latest version of every finding, the most severe first, then by step."""
    records = ((entry.position.attempt, entry.record) for entry in view.findings(most=None))
    return sorted(latest_findings(records, attempts=view.info.attempts), key=_order)


def _order(finding: Finding) -> tuple[int, bool, float]:
    step = finding.steps[0] if finding.steps is not None else 0
    return _GRAVITY[finding.severity], finding.state == "closed", step


def _report(view: RunView, found: Sequence[Finding]) -> Iterator[str]:
    info = view.info
    is_reported = any(finding.rule == info.status.state for finding in found)
    status_reason = (info.status.reason or "").rstrip(".")
    reason = f": {status_reason}" if status_reason and not is_reported else ""
    place = format_reached(info.step, info.epoch)
    at = f", {place}" if place else ""
    yield one_line(f"{info.project}/{info.name}  ({info.status.text}{reason}{at})")
    if not found:
        yield ""
        yield "No findings."
        return
    for finding in found:
        yield ""
        yield from _lines(finding)
    counts = [(word, sum(f.severity == word for f in found)) for word in _GRAVITY]
    yield ""
    yield ", ".join(f"{n} {_plural(word, n)}" for word, n in counts if n) + "."


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


def _lines(finding: Finding) -> Iterator[str]:
    over = "" if finding.state == "open" else "  (resolved)"
    yield from _wrapped(f"{_MARKS[finding.severity]} ", f"{finding.sentence}{over}")
    where = [finding.rule]
    if finding.series:
        where.append(finding.series)
    if finding.steps is not None:
        first, last = finding.steps
        where.append(f"step {first}" if first == last else f"steps {first} to {last}")
    yield one_line(f"    {' · '.join(where)}")
    if finding.evidence:
        yield from _wrapped("    evidence: ", _evidence(finding.evidence))
    if finding.advice:
        yield from _wrapped("    try: ", finding.advice)


def _evidence(evidence: Mapping[str, Any]) -> str:
    return ", ".join(evidence_text(name, value) for name, value in evidence.items())


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=start,
        subsequent_indent=" " * min(len(start), 4),
        break_on_hyphens=False,  # names and options stay whole, to be copied
    )


def _plural(word: str, count: int) -> str:
    word = {"info": "note"}.get(word, word)
    return word if count == 1 else f"{word}s"


def _as_data(view: RunView, found: Sequence[Finding]) -> dict[str, Any]:
    info, counts = view.info, view.evaluated()
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
            {k: v for k, v in entry.record.items() if k not in ("log", "name")}
            for entry in view.internal_errors()
        ],
        "findings": [
            {k: v for k, v in finding.record().items() if k != "log"} for finding in found
        ],
    }
