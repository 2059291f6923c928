"""Evaluation samples were seen in training."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from epochal.health.context import Context
from epochal.health.data_window import (
    DATA_KINDS,
    DataWindow,
    SampleSet,
    is_training,
    shown,
    window_of,
)
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

_MOST_KEPT = 4096


class _Copies:
    """How often the samples of one epoch have the content of another one at another index."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._places: dict[int, list[int | None]] = {}

    def add(self, epoch: int, samples: Iterable[tuple[int, int | None]]) -> None:
        """Take in contents with their indices, None where there are none."""
        if epoch != self._epoch:
            return
        for content, index in samples:
            places = self._places.get(content)
            if places is None:
                if len(self._places) < _MOST_KEPT:
                    self._places[content] = [index]
            elif index is None or index not in places:
                places.append(index)

    def chance(self) -> float:
        """The share of new samples that are copies of these, by the estimate of Good and Turing.

        The share of new ones is that of the contents that came once among all that came.
        """
        counts = [len(places) for places in self._places.values()]
        return 1.0 - counts.count(1) / sum(counts) if counts else 0.0


# A set of samples: the split, and what its identities are of: content, or a rank's dataset.
_Key = tuple[str, str]
_CONTENT = "content"


class DataLeak(Rule):
    """Samples of an evaluation split that a training split gives, too.

    Samples are equal by content, or by index where both splits are of one dataset object. Where the
    training samples repeat each other, such as short texts, new samples repeat them too: as many
    copies as that explains are no leak.
    """

    name = "data-leak"
    group = "data"
    meaning = "The evaluation uses samples that the model was trained on."
    healthy = "No sample is in both training and evaluation data."
    reports = {
        "warning": "1 % of the evaluation samples are training samples.",
        "error": "Half of the evaluation samples are training samples.",
    }
    needs = "`epochal.watch_data` for a training and an evaluation loader."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        least: int = 16  # evaluation samples kept; fewer say nothing about a share
        common: int = 3  # one or two copies are in many datasets
        share: float = 0.01
        error_share: float = 0.5
        # Beyond the copies that are expected by chance.
        beyond: float = 0.2
        # Standard errors of that share among as few samples as are compared.
        errors: float = 4.0

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._sets: dict[_Key, SampleSet] = {}
        self._indices: dict[int, int] = {}  # of evaluation samples, by content
        self._copies: dict[str, _Copies] = {}  # of training splits

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Add the samples of the record to their split; compare when an epoch ends."""
        window = window_of(observation)
        if window is None:
            return
        self._add(window)
        if window.has_ended:
            yield from self._compare(window)

    def _add(self, window: DataWindow) -> None:
        if window.hashes:
            kept = self._sets.setdefault((window.name, _CONTENT), SampleSet())
            kept.add(window.hashes, window.hash_bits, is_index=False)
            pairs = zip(window.hashes, window.hash_indices, strict=True)
            if window.is_training:
                self._copies.setdefault(window.name, _Copies(window.epoch)).add(window.epoch, pairs)
            elif len(self._indices) < _MOST_KEPT:
                self._indices |= {one: index for one, index in pairs if index is not None}
        dataset = window.text("dataset")
        if window.indices and dataset:
            place = f"{dataset} of rank {window.rank}"
            kept = self._sets.setdefault((window.name, place), SampleSet())
            kept.add(window.indices, window.index_bits, is_index=True)

    def _compare(self, window: DataWindow) -> Iterator[Verdict]:
        """Compare with every split of the other sort."""
        for name, place in list(self._sets):
            if is_training(name) == window.is_training or (window.name, place) not in self._sets:
                continue
            training, other = name, window.name
            if window.is_training:
                training, other = window.name, name
            yield from self._verdicts(training, other, place)

    def _verdicts(self, training: str, other: str, place: str) -> Iterator[Verdict]:
        is_index = place != _CONTENT
        subject = f"data/{other}" if not is_index else f"data/{other}, by index"
        common, total = self._sets[other, place].common(
            self._sets[training, place], is_index=is_index
        )
        share = len(common) / total if total else 0.0
        limits = self.thresholds
        if total < limits.least:
            return  # sets are thinned out as they grow: what is left does not disprove a leak
        if len(common) < limits.common or share < limits.share:
            yield Verdict(subject, active=False)
            return
        chance = 0.0 if is_index else self._copies[training].chance()
        error = math.sqrt(chance * (1 - chance) / total)
        if chance and share <= chance + max(limits.beyond, limits.errors * error):
            yield Verdict(subject, active=False)
            return
        indices = common
        if not is_index:
            indices = [self._indices[one] for one in common if one in self._indices]
        evidence: dict[str, float | int | str] = {
            "share": share,
            "common": len(common),
            "compared": total,
        }
        if indices:
            evidence["indices"] = shown(sorted(indices))
        how = "by their index" if is_index else "by their content"
        yield Verdict(
            subject,
            active=True,
            severity="error" if share >= limits.error_share else "warning",
            sentence=f"{percent(share)} of the evaluation samples of {other!r} are training "
            f"samples of {training!r} as well, {how} ({len(common):,} of {total:,} compared).",
            evidence=evidence,
            advice="The evaluation does not measure new data. Split the data again without common "
            "samples; results so far are too good.",
        )
