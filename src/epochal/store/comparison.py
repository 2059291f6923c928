"""Compares runs that have finished: where their configs differ, and their best and last metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow
from epochal.records import Axis
from epochal.records.values import flat_items
from epochal.series.summary import Summary
from epochal.series.trend import Goal
from epochal.store.metrics import by_importance, no_metric
from epochal.store.run import RunView

# The value of an entry that a run does not have; None may be a value of it.
MISSING = "—"
_LOSSES = ("loss", "eval_loss")
# As a share of the best: how much batches differ late in a healthy training.
_NOISE = 0.1


class ComparedMetric(msgspec.Struct, frozen=True):
    """One series of several runs; None for a run that does not have it."""

    name: str
    axis: Axis
    goal: Goal | None
    role: str | None
    summaries: tuple[Summary | None, ...]

    def values(self) -> tuple[float | None, ...]:
        """One value per run: the best where the goal is known, else the last."""
        if self.goal is None:
            return self.last()
        best = [None if one is None else one.best(self.goal) for one in self.summaries]
        pairs = zip(best, self.last(), strict=True)
        return tuple(last if one is None else one[1] for one, last in pairs)

    def last(self) -> tuple[float | None, ...]:
        """The last value of each run."""
        return tuple(None if summary is None else summary.last for summary in self.summaries)

    def ended_badly(self) -> tuple[bool, ...]:
        """Whether each loss ended as NaN or infinity, or lost more than half of its progress."""
        is_loss = self.role in _LOSSES
        return tuple(
            is_loss and one is not None and _ended_badly(one, self.goal) for one in self.summaries
        )


class Comparison(msgspec.Struct, frozen=True):
    """Several runs compared; every tuple has one entry per run.

    ``left_out`` counts metrics that were not asked for.
    """

    config: Mapping[str, tuple[Any, ...]]
    metrics: tuple[ComparedMetric, ...]
    left_out: int = 0

    def metric_rows(self) -> list[dict[str, Any]]:
        """The metrics for programs: best or last values, and how they differ from the first run."""
        return [
            {
                "name": metric.name,
                "goal": metric.goal,
                "values": metric.values(),
                "deltas": deltas(metric.values()),
                "last": metric.last(),
                "ended_badly": metric.ended_badly(),
            }
            for metric in self.metrics
        ]


def compare(
    runs: Sequence[RunView], *, names: Sequence[str] = (), with_all: bool = False
) -> Comparison:
    """Compare runs by their configs and main metrics, or by the metrics that are named.

    With ``with_all`` also by what is equal in all configs, and by metrics of layers and machines.
    """
    configs = [run.config for run in runs]
    config = side_by_side(configs) if with_all else differences(configs)
    if names:
        found, left_out = [metric for name in names for metric in _named(runs, name)], set[str]()
    else:
        every = [metric for run in runs for metric in _all_metrics(run)]
        found = by_importance(one for one in every if _is_compared(one, with_all=with_all))
        left_out = {metric.name for metric in every} - {metric.name for metric in found}
    return Comparison(config, tuple(_metrics(runs, found)), len(left_out))


def _is_compared(metric: Metric, *, with_all: bool) -> bool:
    return with_all or (metric.axis != "time" and not metric.importance.is_detail)


def side_by_side(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Every entry of some configs, with its value in each; ``MISSING`` where one lacks it."""
    flat = [dict(flat_items(config)) for config in configs]
    keys = dict.fromkeys(key for config in flat for key in config)
    return {key: tuple(own.get(key, MISSING) for own in flat) for key in keys}


def differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """The configuration entries that are not the same in all runs."""
    return {
        name: values
        for name, values in side_by_side(configs).items()
        if any(not _same(value, values[0]) for value in values[1:])
    }


def _metrics(runs: Sequence[RunView], found: Sequence[Metric]) -> Iterator[ComparedMetric]:
    chosen = {(metric.name, metric.axis): metric for metric in reversed(found)}
    logged = {metric.name for metric in found if metric.axis != "none"}
    own = [{(m.name, m.axis) for m in _all_metrics(run) if 0 in m.ranks} for run in runs]
    for name, axis in dict.fromkeys((metric.name, metric.axis) for metric in found):
        if axis == "none" and name in logged:
            continue  # a series of another run: both are in its row
        # The summary of the series, or of the number that the program set instead of one.
        axes: list[list[Axis]] = [
            [one for one in (axis, "none") if (name, one) in keys] for keys in own
        ]
        summaries = tuple(
            run.summary(name, axis=having[0]) if having else None
            for run, having in zip(runs, axes, strict=True)
        )
        metric = chosen[name, axis]
        yield ComparedMetric(name, axis, metric.goal, metric.role, summaries)


def _named(runs: Sequence[RunView], name: str) -> list[Metric]:
    """The metric of a name in each run, then all whose names end in it (eval/loss, train/loss).

    Raises ``MetricNotFoundError`` where no run has any.
    """
    meant = [metric for run in runs if (metric := run.metric(name)) is not None]
    ending = [m for run in runs for m in _all_metrics(run) if m.name.endswith(f"/{name}")]
    if name == "loss":
        ending += [metric for run in runs if (metric := run.role("eval_loss")) is not None]
    if not meant:
        raise no_metric(name, *((run.info.name, _all_metrics(run)) for run in runs))
    return [*meant, *by_importance(ending)]


def _all_metrics(run: RunView) -> list[Metric]:
    return [*run.metrics(), *run.set_metrics()]


def deltas(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """The difference of each value from the first run's."""
    first = values[0]
    return tuple(None if first is None or value is None else value - first for value in values)


def _ended_badly(summary: Summary, goal: Goal | None) -> bool:
    if summary.last is None or not math.isfinite(summary.last):
        return summary.last is not None
    best = None if goal is None else summary.best(goal)
    if best is None or summary.first is None:
        return False
    gained, lost = abs(summary.first - best[1]), abs(summary.last - best[1])
    return lost > max(gained / 2, _NOISE * abs(best[1]))


def _same(left: Any, right: Any) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


# A run that did as much of what was planned is as good as finished.
_ALMOST = 0.98
_MOST_NAMED = 5


class UnfinishedRun(msgspec.Struct, frozen=True):
    """A run that has not finished; ``text`` says how far it is: ``running, 5 % of its steps``."""

    run: str
    name: str
    text: str


class Unfinished(msgspec.Struct, frozen=True):
    """The unfinished runs of a comparison, whether they count, and a sentence that names them."""

    runs: list[UnfinishedRun]
    are_included: bool
    sentence: str

    @property
    def left_out(self) -> frozenset[str]:
        """The ids of the runs that do not count."""
        return frozenset() if self.are_included else frozenset(one.run for one in self.runs)


ALL_FINISHED = Unfinished([], True, "")


def unfinished_text(info: RunRow) -> str | None:
    """How far a run is that has not finished; None of one that has.

    A run has finished if it says so, wherever it stopped; if it did all planned steps or epochs;
    or if it ended after its loss became nan or infinite, because nothing would follow.
    """
    status = info.status
    if status.state == "finished" or (info.nonfinite and not status.is_live):
        return None
    done, total, unit = info.steps_done, info.total_steps, "steps"
    if done is None or not total:
        done, total, unit = info.epoch, info.num_epochs, "epochs"
    if done is None or not total:
        return status.text
    if done >= _ALMOST * total:
        return None
    return f"{status.text}, {math.floor(100 * done / total)} % of its {unit}"


def unfinished_of(
    infos: Sequence[RunRow], *, include: bool, having: Iterable[bool] | None = None
) -> Unfinished:
    """Which runs have not finished, and whether they count.

    They count if they are to be included, and if no other run could: ``having`` says which runs
    have the metric, by default all.
    """
    texts = [unfinished_text(info) for info in infos]
    has_metric = [True] * len(infos) if having is None else list(having)
    is_alone = not any(has and text is None for has, text in zip(has_metric, texts, strict=True))
    is_included = include or is_alone
    runs = [
        UnfinishedRun(info.id, info.name, text)
        for info, text, has in zip(infos, texts, has_metric, strict=True)
        if text is not None and (has or not is_included)
    ]
    if not runs:
        return ALL_FINISHED
    who = "1 unfinished run is" if len(runs) == 1 else f"{len(runs):,} unfinished runs are"
    if include or not is_alone:
        start = f"{who} {'included' if include else 'left out'}"
    elif len(runs) < len(infos):
        start = f"No finished run has the metric, so {who} included"
    else:
        start = "No run has finished, so all are included"
    named = ", ".join(f"{one.name} ({one.text})" for one in runs[:_MOST_NAMED])
    more = f" and {len(runs) - _MOST_NAMED:,} more" if len(runs) > _MOST_NAMED else ""
    return Unfinished(runs, is_included, f"{start}: {named}{more}.")
