"""Runs that have not finished: their values are not final, so comparisons leave them out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from epochal.store.row import RunRow

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
