"""Ranks train on the same samples."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, SampleSet, shown, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds


class DataRanks(Rule):
    """Two ranks give the same samples in the same epoch, by content.

    Equal indices say nothing here: each rank may read a dataset of its own.
    """

    name = "data-ranks"
    group = "data"
    meaning = "Several ranks train on the same samples: the gradient is that of one of them."
    healthy = "In an epoch, every rank has its own part of the data."
    reports = {"warning": "Half of a rank's samples are those of another rank in the same epoch."}
    needs = "`epochal.watch_data(loader)` on each rank."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        least: int = 16  # samples kept of a rank; fewer say nothing about a share
        share: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._epochs: dict[str, int] = {}
        self._sets: dict[str, dict[int, SampleSet]] = {}
        self._indices: dict[int, int] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the samples of this rank with those of the others, in the newest epoch."""
        window = window_of(observation)
        if window is None or not window.is_training or not window.hashes:
            return ()
        name = window.name
        if window.epoch < self._epochs.get(name, 0):
            return ()
        if window.epoch > self._epochs.get(name, 0):
            self._epochs[name], self._sets[name] = window.epoch, {}
            self._indices.clear()
        sets = self._sets[name]
        own = sets.setdefault(window.rank, SampleSet())
        own.add(window.hashes, window.hash_bits, is_index=False)
        pairs = zip(window.hashes, window.hash_indices, strict=True)
        self._indices |= {one: index for one, index in pairs if index is not None}
        found: tuple[float, int, list[int], int] | None = None
        has_compared = False
        for rank, other in sets.items():
            if rank == window.rank:
                continue
            # The one that got less far: the other may be ahead.
            less, more = sorted((own, other), key=lambda one: len(one.kept) << one.bits)
            common, total = less.common(more, is_index=False)
            if total < self.thresholds.least:
                continue
            has_compared = True
            share = len(common) / total
            if share >= self.thresholds.share and (found is None or share > found[0]):
                found = (share, rank, common, total)
        if not has_compared:
            return ()
        return (self._verdict(window.subject, window.rank, window.epoch, found),)

    def forget_from(self, step: int, context: Context) -> None:
        """A new process counts its epochs from 1."""
        self._epochs.clear()
        self._sets.clear()

    def _verdict(
        self, subject: str, rank: int, epoch: int, found: tuple[float, int, list[int], int] | None
    ) -> Verdict:
        if found is None:
            return Verdict(subject, active=False)
        share, other, common, total = found
        first, second = sorted((rank, other))
        indices = sorted(self._indices[one] for one in common if one in self._indices)
        return Verdict(
            subject,
            active=True,
            sentence=f"Ranks {first} and {second} train on the same samples: {percent(share)} of "
            f"those compared in epoch {epoch} ({len(common):,} of {total:,}).",
            evidence={
                "share": share,
                "common": len(common),
                "compared": total,
                "epoch": epoch,
                "ranks": f"{first}, {second}",
                **({"indices": shown(indices)} if indices else {}),
            },
            advice="Give each rank its own part: a DistributedSampler, or split_dataset_by_node "
            "for a stream. Ranks of one tensor-parallel group do share their data: silence the "
            "rule there.",
        )
