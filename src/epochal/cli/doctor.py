"""``epochal doctor``: how a run is, what is wrong with it and what to try."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import click

from epochal.cli import options
from epochal.cli.command import chosen_run, data_command, diagnosis_code, local_store
from epochal.cli.output import Line, one_line, said_json, say_lines, text_columns
from epochal.journal.diagnosis import Cause, Diagnosis, Remark, rules_in
from epochal.records.format import format_reached, plural
from epochal.store.brief import diagnosis_facts, diagnosis_in
from epochal.store.evidence.sheet import Evidence, evidence_of
from epochal.store.run import RunView
from epochal.store.words import MARKS, STATE_STYLES, STYLES

# The goodput of a shorter run says nothing, unless work was lost.
_GOODPUT_FROM_S = 60.0
_MOST_NOTES = 5
_EXTREMES = (
    " The smallest and largest loss, evaluation loss and gradient norm of every skipped interval"
    " are among them."
)


@data_command
@options.run
@click.option("--strict", is_flag=True, help="Exit with 5 where too little was seen to be sure.")
@click.option("--evidence", is_flag=True, help="The decisive facts instead, without judgement.")
def command(run: str | None, strict: bool, evidence: bool) -> int:
    """Diagnose a run: how it is, the evidence and what to try.

    \b
    Exit codes: 0  healthy, or nothing wrong in what was seen
                1  suspicious or broken: something is wrong now
                2  usage or another error
                5  with --strict: too little was seen to call it healthy
    """
    with local_store() as store:  # closing it keeps the diagnosis for lists
        view = chosen_run(store, run)
        if evidence:
            return _print_evidence(evidence_of(view, store))
        known = diagnosis_in(store, view)
        if not said_json(diagnosis_facts(view, known)):
            print_diagnosis(view, known)
    return diagnosis_code(known, is_strict=strict)


def _print_evidence(sheet: Evidence) -> int:
    if not said_json(sheet):
        say_lines([(line, "")] for line in sheet.lines())
    return 0


def print_diagnosis(view: RunView, known: Diagnosis) -> None:
    """Print a diagnosis with its evidence, and how much of the run it is based on."""
    say_lines(_report(view, known))
    say_lines([(line, "")] for line in (*_beside(view), *_own_faults(view)))


def _report(view: RunView, known: Diagnosis) -> Iterator[Line]:
    info = view.info
    is_reported = info.status.state in rules_in(known)
    status_reason = (info.status.reason or "").rstrip(".")
    reason = f": {status_reason}" if status_reason and not is_reported else ""
    reached = format_reached(info.step, info.epoch)
    at = f", {reached}" if reached else ""
    for line in _wrapped("", _capital(known.sentence) + "."):
        yield [(line, STATE_STYLES[known.state])]
    yield [(f"{info.project}/{info.name}  ({info.status.text}{reason}{at})", "")]
    for cause in known.causes:
        yield [("", "")]
        yield from _cause_lines(cause)
    yield from _note_lines(known)
    yield [("", "")]
    if known.next:
        yield from _plain("next: ", known.next)
    if known.not_observed:
        yield from _plain("not observed: ", _ways(known))
    if known.family is not None:
        why = f" ({known.family.why})" if known.family.why else ""
        yield from _plain("family: ", f"{known.family.name}{why}")


def _cause_lines(cause: Cause) -> Iterator[Line]:
    for line in _wrapped(f"{MARKS[cause.severity]} ", cause.sentence):
        yield [(line, STYLES[cause.severity])]
    where = [cause.rule, *([cause.series] if cause.series else []), *_steps_text(cause.steps)]
    yield [(f"    {' · '.join([*where, cause.confidence])}", "dim")]
    texts = {
        "evidence": ", ".join(cause.supports),
        "against": ", ".join(cause.against),
        "try": cause.advice,
    }
    for title, text in texts.items():
        yield from _plain(f"    {title}: ", text)
    for one in cause.consequences:
        yield from _plain(f"    {MARKS[one.severity]} follows: ", one.sentence)


def _note_lines(known: Diagnosis) -> Iterator[Line]:
    """The notes, and what was resolved, in short."""
    if known.notes:
        yield [("", "")]
    for one in known.notes[:_MOST_NOTES]:
        yield from _plain(f"{MARKS[one.severity]} ", _note_text(one))
    num_left = known.more + max(len(known.notes) - _MOST_NOTES, 0)
    if num_left:
        yield [(f"  {plural(num_left, 'more note')}: --json", "dim")]


def _note_text(note: Remark) -> str:
    where = " · ".join([note.rule, *_steps_text(note.steps)])
    return f"{note.sentence} ({where}{', resolved' if note.is_resolved else ''})"


def _steps_text(steps: tuple[int, int] | None) -> list[str]:
    if steps is None:
        return []
    first, last = steps
    return [f"step {first}" if first == last else f"steps {first} to {last}"]


def _ways(known: Diagnosis) -> str:
    """What was not observed, by the line of code that adds it."""
    areas: dict[str, list[str]] = {}
    for area, way in known.not_observed.items():
        areas.setdefault(way, []).append(area)
    return "; ".join(f"{', '.join(some)} (add {way})" for way, some in areas.items())


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


def _plain(start: str, text: str) -> Iterator[Line]:
    for line in _wrapped(start, text) if text else ():
        yield [(line, "")]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _wrapped(start: str, text: str) -> list[str]:
    return textwrap.wrap(
        text,
        text_columns(),
        initial_indent=start,
        subsequent_indent=" " * min(len(start), 4),
        break_on_hyphens=False,  # names and options stay whole, to be copied
        break_long_words=False,
    )
