"""What is known of a run from its parts, put together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from epochal.journal.layout import LOOP
from epochal.records import ROLE_GUESSES, Axis, Record
from epochal.series.goals import guess_goal
from epochal.series.trend import Goal
from epochal.store.answers import Metric, Series
from epochal.store.columns import Origin, Piece, SeriesKey
from epochal.store.exact import exact_values, may_be_rounded
from epochal.store.facts import PartFacts
from epochal.store.merge import cuts_of, merge
from epochal.store.part import Part

_GOALS: Mapping[str, Goal] = {"loss": "min", "eval_loss": "min", "throughput": "max"}


class RunState:
    """The parts of a run as one; made anew when any of them has grown."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = sorted(parts, key=lambda part: part.name)
        self._facts: list[PartFacts] = [
            part.facts for part in self.parts if part.facts.header is not None
        ]

    # -- the run as a whole -----------------------------------------------------------------------

    @property
    def num_records(self) -> int:
        """How many records were read."""
        return sum(facts.num_records for facts in self._facts)

    @property
    def num_damaged(self) -> int:
        """How many lines could not be read, or hold what their kind does not."""
        return sum(part.facts.num_damaged for part in self.parts)

    @property
    def updated(self) -> float | None:
        """The time of the newest record, in Unix seconds."""
        times = [facts.updated for facts in self._facts if facts.updated is not None]
        return max(times, default=None)

    @property
    def num_epochs(self) -> int | None:
        """How many epochs there will be, as the run said it last."""
        said = [facts.num_epochs for facts in self._facts if facts.num_epochs]
        return said[-1] if said else None

    @cached_property
    def attempts(self) -> int:
        """The number of the newest attempt, 0 before the first record."""
        return max((facts.name.attempt for facts in self._facts), default=0)

    @property
    def header(self) -> Record | None:
        """The first record of the newest attempt; rank 0's where there is one."""
        newest = self._newest()
        return newest[-1].header if newest else None

    @property
    def finish(self) -> Record | None:
        """How the newest attempt ended, None while it has not."""
        said = [facts.finish for facts in self._newest() if facts.finish is not None]
        return said[-1] if said else None

    @property
    def config(self) -> dict[str, Any]:
        """Configuration of all attempts, later ones over earlier ones."""
        merged: dict[str, Any] = {}
        for facts in sorted(self._facts, key=lambda facts: facts.name.attempt):
            merged.update(facts.config)
        return merged

    def reached(self, axis: Axis) -> int | None:
        """The highest step or epoch of rank 0 in the newest attempt that logged any."""
        reached: dict[int, int] = {}
        for facts in self._facts:
            if axis in facts.reached:
                attempt, at = facts.name.attempt, facts.reached[axis]
                reached[attempt] = max(at, reached.get(attempt, at))
        return reached[max(reached)] if reached else None

    def cuts(self, axis: Axis) -> dict[int, int]:
        """From where on each attempt is overtaken on an axis."""
        takeovers: dict[int, int] = {}
        for facts in self._facts:
            takeover = facts.takeovers.get(axis)
            if takeover is not None:
                takeovers[facts.name.attempt] = takeover
            elif axis == "epoch" and facts.first_epoch is not None:
                takeovers.setdefault(facts.name.attempt, facts.first_epoch)
        return cuts_of(takeovers, attempts={facts.name.attempt for facts in self._facts})

    def _newest(self) -> list[PartFacts]:
        """The parts of the newest attempt's main writer, in order."""
        candidates = [facts for facts in self._facts if facts.name.writer == LOOP] or self._facts
        if not candidates:
            return []
        newest = max(candidates, key=lambda facts: facts.name.attempt).name
        return [facts for facts in candidates if facts.name[:2] == newest[:2]]

    # -- series -----------------------------------------------------------------------------------

    @cached_property
    def ranks(self) -> Mapping[SeriesKey, set[int]]:
        """Every series there is and the ranks that have it, in order of first appearance."""
        found: dict[SeriesKey, set[int]] = {}
        for part in self.parts:
            rank = part.facts.origin.rank
            for key in part.series_keys():
                found.setdefault(key, set()).add(rank)
        return found

    def pieces(self, key: SeriesKey, rank: int) -> list[tuple[Origin, Piece]]:
        """What each part holds of one rank's series, in the order of parts."""
        found: list[tuple[Origin, Piece]] = []
        for part in self.parts:
            origin = part.facts.origin
            piece = part.piece(key) if origin.rank == rank else None
            if piece is not None:
                found.append((origin, piece))
        return found

    def series(self, key: SeriesKey, rank: int) -> Series:
        """Every point of one rank's series."""
        cuts = self.cuts(key.axis)
        merged = merge(self.pieces(key, rank), axis=key.axis, cuts=cuts)
        exact = None
        if may_be_rounded(merged.values):
            exact = exact_values(self.parts, key, rank, cuts=cuts)
        for column in (merged.steps, merged.times, merged.values, exact):
            if column is not None:
                column.flags.writeable = False  # answers are shared between all who ask
        metric = next((m for m in self.metrics if (m.name, m.axis) == key), None)
        return Series(
            name=key.name,
            axis=key.axis,
            rank=rank,
            steps=merged.steps,
            times=merged.times,
            values=merged.values,
            exact=exact,
            duplicates=merged.duplicates,
            hidden=merged.hidden,
            goal=None if metric is None else metric.goal,
            unit=None if metric is None else metric.unit,
        )

    @cached_property
    def metrics(self) -> list[Metric]:
        """Every series there is, with its meaning, in order of first appearance."""
        definitions = self._definitions()
        roles = self._roles(definitions)
        return [
            _metric(key, ranks, definitions.get(key.name, {}), roles.get(key.name))
            for key, ranks in self.ranks.items()
        ]

    def _definitions(self) -> dict[str, dict[str, Any]]:
        merged: dict[str, dict[str, Any]] = {}
        for facts in self._facts:
            for name, meaning in facts.definitions.items():
                merged.setdefault(name, {}).update(meaning)
        return merged

    def _roles(self, definitions: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        """Role by metric name: what was defined, else the first guess that exists."""
        names = {key.name for key in self.ranks}
        roles: dict[str, str] = {
            name: meaning["role"]
            for name, meaning in definitions.items()
            if "role" in meaning and name in names
        }
        for role, guesses in ROLE_GUESSES.items():
            if role in roles.values():
                continue
            guess = next((name for name in guesses if name in names and name not in roles), None)
            if guess is not None:
                roles[guess] = role
        return roles


def _metric(
    key: SeriesKey, ranks: set[int], meaning: Mapping[str, Any], role: str | None
) -> Metric:
    goal = meaning.get("goal")
    return Metric(
        name=key.name,
        axis=key.axis,
        ranks=tuple(sorted(ranks)),
        unit=meaning.get("unit"),
        goal=goal if goal in ("min", "max") else _GOALS.get(role or "") or guess_goal(key.name),
        role=role,
        x=meaning.get("x"),
    )
