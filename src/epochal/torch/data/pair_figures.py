"""What pairs of inputs and targets tell, from where batches are read to the record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from epochal.records import Record
from epochal.torch.data.association import Association, Sums, association
from epochal.torch.data.pair import Array, pair_of, some_columns
from epochal.torch.data.target_spread import TargetSpread
from epochal.torch.data.telling import TellingFeatures

# The first batches count, and later ones now and then: data may be in an order.
_FIRST, _LATER = 32, 8
# Figures are written again when so many times the batches have counted.
_MORE = 1.5


@dataclass(slots=True)
class PairFacts:
    """What one batch tells of its inputs and targets."""

    targets: Array | None = None
    association: Sums | None = None
    telling: tuple[int, int, list[int]] | None = None


class PairReader:
    """Reads pairs where batches are collated."""

    def __init__(self) -> None:
        self._reads = 0
        self._telling = TellingFeatures()

    def read(self, batch: Any, count: int) -> PairFacts | None:
        """The facts of a batch; None where it is no pair, or left out."""
        self._reads += 1
        if self._reads > _FIRST and self._reads % _LATER:
            return None
        pair = pair_of(batch, count)
        if pair is None:
            return None
        self._telling.add(*pair)
        inputs, targets = (some_columns(one) for one in pair)
        with np.errstate(all="ignore"):
            sums = association(inputs, targets, self._reads)
        if targets.dtype.kind != "f":
            targets = targets.astype(np.int32)
        return PairFacts(targets, sums, self._telling.found())


class PairFigures:
    """What all batches of a loader told so far, over its epochs."""

    def __init__(self) -> None:
        self._spread = TargetSpread()
        self._association = Association()
        self._batches, self._due_at = 0, 1.0
        self._telling: dict[int | None, tuple[int, int, list[int]] | None] = {}

    def add(self, facts: PairFacts, worker: int | None) -> None:
        """Take in one batch."""
        self._batches += 1
        if facts.targets is not None:
            self._spread.add(facts.targets)
        if facts.association is not None:
            self._association.add(facts.association)
        self._telling[worker] = facts.telling

    def fields(self) -> Record:
        """What a record says of them; nothing where the last one said nearly as much."""
        found: Record = {}
        if self._batches < self._due_at:
            return found
        self._due_at = _MORE * self._batches
        for name, figures in (
            ("targets", self._spread.fields()),
            ("association", self._association.fields()),
            ("telling", self._told()),
        ):
            if figures is not None:
                found[name] = dict(figures)
        return found

    def _told(self) -> dict[str, Any] | None:
        known = [one for one in self._telling.values() if one is not None]
        if not known or len(known) < len(self._telling):
            return None  # a process that reads batches has seen the contrary
        features = set.intersection(*(set(one[2]) for one in known))
        if not features:
            return None
        samples, classes, _ = max(known)
        return {"samples": samples, "classes": classes, "features": sorted(features)}
