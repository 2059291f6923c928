"""Ratios within a round.

A shared machine is now fast, now slow, by a half and for seconds at a time. What was measured in
the same round shared its mood more or less, so each round gives its own ratio and the middle one
counts: a single disturbed round cannot decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.stage import Answer

Answers = Mapping[tuple[str, int], Sequence[Answer]]


@dataclass(frozen=True, slots=True)
class Paired:
    """The ratios of one contender, a round each."""

    ratios: tuple[float, ...]

    @property
    def middle(self) -> float | None:
        return median(self.ratios) if self.ratios else None

    def __str__(self) -> str:
        if not self.ratios:
            return "never measured together"
        low, high = min(self.ratios), max(self.ratios)
        return f"{low:.3g} to {high:.3g} in {len(self.ratios)} rounds"


def paired(
    answers: Answers, name: str, others: Sequence[str], *, case: int = 0, key: str = "p50"
) -> Paired:
    """A contender's figure by the smallest of the others', round by round.

    The smallest of each round: that another of them was cheapest over all is no excuse.
    """
    rounds = len(answers.get((name, case), ()))
    ratios = []
    for turn in range(rounds):
        (own,) = _figures(answers, [name], case, key, turn)
        theirs = _figures(answers, others, case, key, turn)
        if theirs:
            ratios.append(own / min(theirs))
    return Paired(tuple(ratios))


def _figures(answers: Answers, names: Sequence[str], case: int, key: str, turn: int) -> list[float]:
    """What these contenders measured in a round; one that had failed by then is left out."""
    rounds = (answers.get((name, case), ()) for name in names)
    return [float(turns[turn][key]) for turns in rounds if len(turns) > turn]
