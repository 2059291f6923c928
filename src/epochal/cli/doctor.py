"""``epochal doctor``: the findings of a run and what to try."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import FINDINGS, chosen_run, data_command, local_store
from epochal.cli.output import Line, one_line, said_json, say_lines
from epochal.health.finding import SEVERITIES, Finding, Severity, evidence_text
from epochal.records.format import format_reached, plural
from epochal.store.brief import diagnosis, findings_of
from epochal.store.evidence.sheet import Evidence, evidence_of
from epochal.store.run import RunView
from epochal.store.words import MARKS, STYLES

_WIDTH = 96
_SEVERITY = click.Choice(SEVERITIES)
# The goodput of a shorter run says nothing, unless work was lost.
_GOODPUT_FROM_S = 60.0
_EXTREMES = (
    " The smallest and largest loss, evaluation loss and gradient norm of every skipped interval"
    " are among them."
)


@data_command
@options.run
@click.option("--severity", type=_SEVERITY, default="info", help="The lowest severity to show.")
@click.option("--open", "only_open", is_flag=True, help="Open findings only.")
@click.option("--evidence", is_flag=True, help="The decisive facts instead, without judgement.")
def command(run: str | None, severity: Severity, only_open: bool, evidence: bool) -> int:
    """Diagnose a run: what is wrong, the evidence and what to try.

    The exit code is 1 when an error or an open warning is among the findings, else 0.
    """
    with local_store() as store:  # closing it keeps the count for lists
        view = chosen_run(store, run)
        if evidence:
            return _print_evidence(evidence_of(view, store))
        found = findings_of(view, severity)
        found = [one for one in found if one.state == "open" or not only_open]
        if not said_json(diagnosis(view, found)):
            print_diagnosis(view, found)
    grave = [(one.severity, one.state) for one in found if one.severity != "info"]
    return FINDINGS if any(pair != ("warning", "closed") for pair in grave) else 0


def _print_evidence(sheet: Evidence) -> int:
    if not said_json(sheet):
        say_lines([(line, "")] for line in sheet.lines())
    return 0


def print_diagnosis(view: RunView, found: Sequence[Finding]) -> None:
    """Print findings with their evidence, and how much of the run they are based on."""
    say_lines(_report(view, found))
    say_lines([(line, "")] for line in (*_beside(view), *_own_faults(view)))


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


def _beside(view: RunView) -> Iterator[str]:
    """Productive time over wall time, and how many records the findings are based on."""
    goodput, counts = view.goodput(), view.evaluated()
    if goodput is not None and (goodput.wall_s >= _GOODPUT_FROM_S or goodput.lost_steps):
        yield from _wrapped("", f"Goodput {goodput.text}. {goodput.advice or ''}".rstrip())
    if counts is not None and counts.records:
        text = f"The rules evaluated {counts.evaluated:,} of {counts.records:,} records."
        yield from _wrapped("", text + _EXTREMES * (counts.evaluated < counts.records))


def _own_faults(view: RunView) -> Iterator[str]:
    """Faults of Epochal itself: which member, how often, in a line."""
    errors: Counter[str] = Counter()
    packages: set[Any] = set()
    for error in (entry.record for entry in view.internal_errors()):
        count, package = error.get("count"), error.get("package")
        packages.add(package)
        origin = "" if package is None else f" (package {package})"
        # The training, the companion and this process may have seen the same fault.
        words = f"{error.get('member')}: {error.get('reason')}{origin}"
        errors[words] += count if isinstance(count, int) else 1
    if not errors:
        return
    what = "an internal error" if len(errors) == 1 else f"internal errors in {len(errors)} members"
    yield from ("", f"Epochal had {what}; the recorded data is not affected:")
    for words, count in errors.items():
        yield from _wrapped("    ", one_line(words + (f" ({count} times)" if count > 1 else "")))
    others = " and ".join(sorted(map(str, packages - {None})))
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
