"""What series mean: unit, goal and role, the metric that a short name means, and their order."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Any

from epochal.errors import MetricNotFoundError
from epochal.journal.metrics import Metric
from epochal.query.formula import AXES, Formula, is_formula, parse_formula
from epochal.records import GUESSED_ROLE, ROLES, Axis
from epochal.series.formula import evaluate
from epochal.series.importance import importance
from epochal.series.series import EPOCH_OF_STEP, TOKENS_OF_STEP, Series, SeriesRun
from epochal.store.lookup import near_names

_MOST_COMPARED = 2000
_MOST_SEARCHED = 50_000
_NAMED = 8
_MOST_CHARACTERS = 200
_OPERATOR = re.compile(r"\*\*|[-+*/]")
_BY_PREFERENCE: tuple[Axis, ...] = ("step", "epoch", "time")
_SEPARATOR = re.compile(r"[/.]")
# The section of names that have no parts.
_PLAIN_SECTION = "metrics"


def resolve(
    name: str, metrics: Sequence[Metric], set_values: Sequence[Metric] = ()
) -> Metric | None:
    """The metric of a name; else of a role; else the first whose name ends in ``/name``.

    Of several axes the step goes first. ``set_values`` come after series, as ``set_metrics`` has
    them. A text that means none of these may be a formula.
    """
    if (found := _named(name, metrics, set_values)) is not None:
        return found
    try:
        formula = parse_formula(name)
        return None if formula is None else _formula_metric(formula, metrics)
    except MetricNotFoundError:
        return None


def _named(name: str, metrics: Sequence[Metric], set_values: Sequence[Metric]) -> Metric | None:
    exact = [metric for metric in metrics if metric.name == name]
    exact.sort(key=lambda metric: metric.axis != "step")
    of_role = (metric for metric in metrics if metric.role == name and name in ROLES)
    was_set = (metric for metric in set_values if metric.name == name)
    every = chain(metrics, set_values)
    ending = (metric for metric in every if metric.name.endswith(f"/{name}"))
    return next(chain(exact, of_role, was_set, ending), None)


# -- formulas and patterns ------------------------------------------------------------------------


def matching(pattern: str, metrics: Sequence[Metric]) -> list[str] | None:
    """The names that a pattern such as ``eval/*`` selects, in order; None if it is no pattern.

    ``*`` is any text and ``?`` one character; a metric with exactly this name is no pattern. Raises
    ``MetricNotFoundError`` where no name matches.
    """
    if not {*"*?"} & {*pattern} or is_formula(pattern):
        return None
    names = list(dict.fromkeys(metric.name for metric in metrics))
    if pattern in names:
        return None
    matches = re.compile(fnmatch.translate(pattern.replace("[", "[[]"))).match
    if found := [name for name in names if matches(name)]:
        return found
    raise MetricNotFoundError(f"no metric matches {pattern!r}.{_hint('', names)}")


def formula_series(
    text: str, metrics: Sequence[Metric], run: SeriesRun, *, rank: int, axis: Axis | None
) -> Series | None:
    """The result of a formula over the metrics of a run; None if the text is no formula.

    Raises ``MetricNotFoundError`` for a mistake in it, and where an operand does not exist.
    """
    formula = parse_formula(text)
    if formula is None:
        return None
    chosen = _operands(formula, metrics, axis)
    series = {
        name: run.series(metric.name, rank=rank, axis=metric.axis)
        for name, metric in chosen.items()
    }
    return evaluate(formula, series, run)


def _operands(
    formula: Formula, metrics: Sequence[Metric], axis: Axis | None = None
) -> dict[str, Metric]:
    """The metrics of a formula by the names in it, all of one axis."""
    names = formula.metrics or _points_of_axes(formula, metrics)
    found: dict[str, dict[Axis, Metric]] = {}
    for name in names:
        metric = _named(name, metrics, ())
        if metric is None:
            known = list(dict.fromkeys(one.name for one in metrics[:_MOST_COMPARED]))
            reason = f"the formula needs a metric {name!r}, which was not logged."
            raise MetricNotFoundError(reason + _hint(name, known))
        found[name] = {one.axis: one for one in metrics if one.name == metric.name}
    for choice in _BY_PREFERENCE if axis is None else (axis,):
        if all(choice in axes for axes in found.values()):
            return {name: axes[choice] for name, axes in found.items()}
    parts = [f"{name!r} was logged by {' and '.join(axes)}" for name, axes in found.items()]
    reason = f"no metric of the formula was logged by {axis}" if axis else ", ".join(parts)
    raise MetricNotFoundError(f"the metrics of a formula need the same axis: {reason}.")


def _points_of_axes(formula: Formula, metrics: Sequence[Metric]) -> list[str]:
    """The metric at whose points a formula of axes alone is evaluated."""
    recorded = {"tokens": TOKENS_OF_STEP, "epoch": EPOCH_OF_STEP}
    wanted = [recorded[axis] for axis in formula.axes if axis in recorded]
    on_steps = [metric for metric in metrics if metric.axis == "step"]
    on_steps.sort(key=lambda one: (one.name not in wanted, one.role != "loss"))
    if not on_steps:
        raise MetricNotFoundError("a formula of axes alone needs a run that has logged steps.")
    return [on_steps[0].name]


def _formula_metric(formula: Formula, metrics: Sequence[Metric]) -> Metric:
    operands = list(_operands(formula, metrics).values())
    first = operands[0]
    return Metric(
        name=formula.text,
        axis=first.axis,
        ranks=tuple(sorted(set(first.ranks).intersection(*(one.ranks for one in operands)))),
        goal=first.goal if formula.has_goal_of_metric else None,
        x=first.x if all(one.x == first.x for one in operands) else None,
        importance=first.importance,
    )


def no_metric(
    name: str, *runs: tuple[str, Iterable[Metric]], rank: int = 0, axis: Axis | None = None
) -> MetricNotFoundError:
    """The error about a name that no metric of some runs has; each has a name and its metrics.

    About a formula it is what is wrong with the formula or with one of its metrics.
    """
    who = f"run {runs[0][0]!r} has no" if len(runs) == 1 else f"none of the {len(runs)} runs has a"
    if axis == "none":
        reason = f"{name!r} was set with run.summary: it is one value without points."
        return MetricNotFoundError(reason)
    every = list(islice(chain.from_iterable(metrics for _, metrics in runs), _MOST_SEARCHED))
    try:
        if (formula := parse_formula(name)) is not None:
            _operands(formula, every, axis)
            names = ", ".join(formula.metrics)
            return MetricNotFoundError(f"no run has all metrics of {name!r}: {names}.")
    except MetricNotFoundError as error:
        return error
    # Comparing with each of a hundred thousand names would take seconds.
    known = list(dict.fromkeys(metric.name for metric in every[:_MOST_COMPARED]))
    where = f" on rank {rank}" * (rank != 0) + (f" on the {axis} axis" if axis else "")
    return MetricNotFoundError(f"{who} metric {name!r}{where}.{_hint(name, known)}")


def _hint(name: str, known: Sequence[str]) -> str:
    """What could be written instead of a name that does not exist."""
    ends = {*known, *AXES, *(one.rpartition("/")[2] for one in known)}
    for found in _OPERATOR.finditer(name[:_MOST_CHARACTERS]):
        left, right = name[: found.start()].strip(), name[found.end() :].strip()
        if all(one in ends or one.replace(".", "").isdecimal() for one in (left, right)):
            return f" {name!r} is read as one name: write '{left} {found[0]} {right}'."
    ordered = sorted(known, key=lambda one: importance(one, role=GUESSED_ROLE.get(one)))
    named = f" There are {', '.join(ordered[:_NAMED])}." if known else ""
    return near_names(name, ordered) or named


def level(value: Any) -> Any:
    """A value that can be compared: texts, numbers and None stay, others become text."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def by_importance(metrics: Iterable[Metric]) -> list[Metric]:
    """The same metrics, the most important first, and among equals by first appearance."""
    return sorted(metrics, key=lambda metric: metric.importance)


def section_of(name: str) -> str:
    """The first part of a name, which charts are grouped by: ``train`` of ``train/loss``."""
    found = _SEPARATOR.search(name)
    return name[: found.start()] if found is not None and found.start() else _PLAIN_SECTION
