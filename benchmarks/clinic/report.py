"""The tables of a verdict, for the terminal and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, get_args

from benchmarks.clinic.task import Half
from benchmarks.clinic.verdict import VIEWS, Case, FaultVerdict, Verdict, View

_LETTERS = {"cause": "C", "advice": "A", "symptom": "s", "missed": "-"}
_STARS: dict[Half, str] = {half: "*" * place for place, half in enumerate(get_args(Half))}
_TITLES: dict[View, str] = {"everything": "everything on", "scalars": "scalars alone"}


def print_verdict(verdict: Verdict, *, say: bool = False) -> None:
    """Print the tables; with ``say`` also every finding."""
    print(markdown(verdict))
    if say:
        for line in _sentences(verdict):
            print(line)


def markdown(verdict: Verdict) -> str:
    """Everything as Markdown."""
    parts = [_summary(verdict)]
    parts += [_fault_table(verdict, view) for view in VIEWS if verdict.faults]
    parts.append(_false_table(verdict))
    parts.append(_contradictions(verdict))
    return "\n\n".join(part for part in parts if part) + "\n"


def harm_table(verdict: Verdict) -> str:
    """What each fault did to its trainings beside the healthy ones, as Markdown."""
    places = ((one.kind_name, one.optimizer) for one in (c.training for c in verdict.healthy))
    figures: dict[tuple[str, str], list[str]] = {place: [] for place in places}
    for case in verdict.healthy:
        own = figures[case.training.kind_name, case.training.optimizer]
        own.append(_figure(case.result.get("result")))
    harmful = [one.case for one in verdict.faults]
    counts = f"{len(harmful)} harmful, {len(verdict.harmless)} harmless, "
    lines = [
        f"{len(verdict.healthy)} healthy trainings, {verdict.healthy_steps:,} steps; with a fault: "
        f"{counts}{len(verdict.unproved)} without healthy twins.",
        "",
        "| fault | kind | harm | by | results (reported) | healthy results |",
        "|---|---|---|---|---|---|",
    ]
    rows: dict[tuple[str, str, str], list[Case]] = {}
    for case in sorted([*harmful, *verdict.harmless], key=lambda one: one.training):
        one = case.training
        rows.setdefault((one.fault_name, one.kind_name, one.optimizer), []).append(case)
    for (name, kind, optimizer), cases in sorted(rows.items()):
        fault = cases[0].training.fault
        assert fault is not None
        shown = ", ".join(_results(case.result) for case in cases)
        did = f"{sum(case in harmful for case in cases)}/{len(cases)}"
        twins = ", ".join(figures.get((kind, optimizer), []))
        lines.append(f"| {name} | {kind}/{optimizer} | {did} | {fault.harm} | {shown} | {twins} |")
    return "\n".join(lines) + "\n"


def _results(result: dict[str, Any]) -> str:
    return f"{_figure(result.get('result'))} ({_figure(result.get('reported'))})"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _summary(verdict: Verdict) -> str:
    halves = Counter(case.training.half for case in verdict.healthy)
    kinds = {case.training.kind_name for case in verdict.healthy}
    lines = [
        f"{len(verdict.healthy)} healthy trainings of {len(kinds)} kinds, "
        f"{verdict.healthy_steps:,} steps ({', '.join(f'{n} {h}' for h, n in halves.items())}); "
        f"{len(verdict.faults)} with a fault that did harm, {len(verdict.harmless)} in which it "
        f"did none, {len(verdict.unproved)} without healthy twins.",
        "",
        "| | " + " | ".join(_TITLES[view] for view in VIEWS) + " |",
        "|---|" + "---|" * len(VIEWS),
    ]
    rows: dict[str, Callable[[View], str]] = {
        "right cause or advice": lambda view: f"{verdict.rate(view, 'cause', 'advice'):.0%}",
        "· of these the cause": lambda view: f"{verdict.rate(view, 'cause'):.0%}",
        "symptom only": lambda view: f"{verdict.rate(view, 'symptom'):.0%}",
        "missed": lambda view: f"{verdict.rate(view, 'missed'):.0%}",
        "false errors": lambda view: str(verdict.false(view, "error").total()),
        "false warnings per 20,000 healthy steps": lambda view: (
            f"{verdict.per_20k(view, 'warning'):.2f}"
        ),
        "misleading notes per 20,000 healthy steps": lambda view: (
            f"{verdict.per_20k(view, 'info'):.2f}"
        ),
        "repeated notes per 20,000 healthy steps": lambda view: (
            f"{verdict.repeated_per_20k(view):.2f}"
        ),
    }
    for title, value in rows.items():
        lines.append(f"| {title} | " + " | ".join(value(view) for view in VIEWS) + " |")
    return "\n".join(lines)


def _fault_table(verdict: Verdict, view: View) -> str:
    kinds = sorted({one.case.training.kind_name for one in verdict.faults})
    halves = {one.case.training.kind_name: one.case.training.half for one in verdict.faults}
    lines = [
        f"Faults, {_TITLES[view]}: C cause, A accepted advice, s symptom only, - missed, a letter "
        "for each seed. Kinds of the unseen half have a star, blind ones two.",
        "",
        "| fault | " + " | ".join(f"{k}{_STARS[halves[k]]}" for k in kinds) + " | right |",
        "|---|" + "---|" * (len(kinds) + 1),
    ]
    for fault in sorted({one.case.training.fault_name for one in verdict.faults}):
        mine = [one for one in verdict.faults if one.case.training.fault_name == fault]
        cells = [_cell(mine, kind, view) for kind in kinds]
        right = sum(one.outcomes[view] in ("cause", "advice") for one in mine)
        lines.append(f"| {fault} | " + " | ".join(cells) + f" | {right}/{len(mine)} |")
    return "\n".join(lines)


def _cell(mine: list[FaultVerdict], kind: str, view: View) -> str:
    here = sorted(
        (one for one in mine if one.case.training.kind_name == kind),
        key=lambda one: one.case.training,
    )
    return "".join(_LETTERS[one.outcomes[view]] for one in here)


def _false_table(verdict: Verdict) -> str:
    lines = [
        "What healthy trainings are told falsely, by rule:",
        "",
        "| severity | " + " | ".join(_TITLES[view] for view in VIEWS) + " |",
        "|---|" + "---|" * len(VIEWS),
    ]
    for severity in ("error", "warning", "info"):
        cells = [
            ", ".join(f"{rule} {n}" for rule, n in verdict.false(view, severity).most_common())
            or "-"
            for view in VIEWS
        ]
        lines.append(f"| {severity} | " + " | ".join(cells) + " |")
    if verdict.harmless:
        names = Counter(
            f"{one.training.fault_name} on {one.training.kind_name}" for one in verdict.harmless
        )
        lines += ["", "No harm proved: " + ", ".join(f"{n} ({c})" for n, c in names.items()) + "."]
    return "\n".join(lines)


def _contradictions(verdict: Verdict) -> str:
    found = verdict.contradicted()
    lines = [f"Sentences that their own figures contradict: {len(found)}."]
    lines += [
        f"- {name}, {said.rule}: {said.sentence} ({'; '.join(said.contradictions)})"
        for name, said in found[:20]
    ]
    return "\n".join(lines)


def _sentences(verdict: Verdict) -> Iterator[str]:
    for case in sorted(verdict.healthy, key=lambda one: one.training):
        for said in case.said["everything"]:
            mark = "misleads" if said.misleads else "fact"
            yield f"{case.training.id}: {said.severity} {said.rule} ({mark}): {said.sentence}"
    for one in sorted(verdict.faults, key=lambda one: one.case.training):
        outcomes = "/".join(one.outcomes[view] for view in VIEWS)
        yield f"{one.case.training.id}: {outcomes}; astray {', '.join(one.astray['everything'])}"
        for said in one.case.said["everything"]:
            yield f"    {said.severity} {said.rule}: {said.sentence} | {said.advice}"
    for case in verdict.harmless:
        yield f"{case.training.id}: harmless, result {case.result.get('result')}"
