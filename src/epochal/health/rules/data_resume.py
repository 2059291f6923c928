"""Samples are read again after a resume."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, SampleSet, shown, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds

_Key = tuple[str, int]


class DataResume(Rule):
    """The first epoch after a resume gives samples of the epoch that was interrupted.

    Samples after the step of the resume count for nothing: their steps are made again.
    """

    name = "data-resume"
    group = "data"
    meaning = "After a resume the loader starts again: samples come twice, others perhaps never."
    healthy = "A resumed epoch continues after its last sample."
    reports = {
        "info": "10 % of the samples of the first epoch came before the resume.",
        "warning": "Half of them did: a stream or its shards are read from the beginning.",
    }
    needs = "`epochal.watch_data(loader)`, before and after the resume."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        least: int = 16  # samples kept; fewer say nothing about a share
        share: float = 0.1
        warning_share: float = 0.5

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._earlier: dict[_Key, tuple[bool, int, list[tuple[int, int]]]] = {}
        self._seen: dict[_Key, SampleSet] = {}

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare the first epoch of this attempt with the last one of the attempt before."""
        window = window_of(observation)
        if window is None or not window.is_training or window.epoch != 1:
            return ()
        key = (window.name, window.rank)
        if "earlier" in window.record:
            self._take(key, window)
        if key not in self._earlier:
            return ()
        is_index, bits, pairs = self._earlier[key]
        seen = self._seen.setdefault(key, SampleSet())
        samples = window.indices if is_index else window.hashes
        own_bits = window.index_bits if is_index else window.hash_bits
        seen.add(samples, own_bits, is_index=is_index)
        first = context.resumed_at
        before = SampleSet()
        counted = [one for one, step in pairs if first is None or step < first]
        before.add(counted, bits, is_index=is_index)
        common, total = seen.common(before, is_index=is_index)
        if total < self.thresholds.least:
            return ()
        return (self._verdict(window, common, total, is_index=is_index),)

    def _take(self, key: _Key, window: DataWindow) -> None:
        given, steps = window.record.get("earlier"), window.record.get("earlier_steps")
        if not isinstance(given, list) or not isinstance(steps, list):
            return
        pairs = [
            (one, step)
            for one, step in zip(given, steps, strict=False)
            if isinstance(one, int) and isinstance(step, int) and one >= 0
        ]
        is_index = window.text("earlier_by") == "index"
        self._earlier[key] = (is_index, min(48, window.count("earlier_bits")), pairs)

    def _verdict(
        self, window: DataWindow, common: list[int], total: int, *, is_index: bool
    ) -> Verdict:
        share = len(common) / total
        if share < self.thresholds.share:
            return Verdict(window.subject, active=False)
        return Verdict(
            window.subject,
            active=True,
            severity="warning" if share >= self.thresholds.warning_share else "info",
            sentence=f"{percent(share)} of the samples of {window.name!r} since the resume came "
            "in the interrupted epoch already.",
            evidence={
                "share": share,
                "common": len(common),
                "compared": total,
                **({"indices": shown(sorted(common))} if is_index else {}),
            },
            advice="Save the loader's state with each checkpoint (StatefulDataLoader), or skip the "
            "batches that the interrupted epoch had.",
        )
