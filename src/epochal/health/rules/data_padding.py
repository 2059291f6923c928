"""Much of the batches is padding."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, number, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds


class DataPadding(Rule):
    """The model computes mostly padding: a matter of speed, not of results."""

    name = "data-padding"
    group = "data"
    meaning = "Most positions of the batches are padding, on which time is spent for nothing."
    healthy = "Less than a third of the positions is padding."
    reports = {"info": "Half of the positions are padding."}
    needs = "`epochal.watch_data(loader)`, with an `attention_mask` in the batches."
    kinds = DATA_KINDS
    replaces_text = True

    class Thresholds(RuleThresholds):
        share: float = 0.5
        batches: int = 8  # a few batches may be odd ones

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the share of one record."""
        window = window_of(observation)
        share = None if window is None else number(window.record.get("padding"))
        if window is None or share is None or window.batches < self.thresholds.batches:
            return ()
        if not self.thresholds.share <= share <= 1:
            return (Verdict(window.subject, active=False),)
        lengths = window.record.get("lengths")
        known = lengths if isinstance(lengths, dict) else {}
        figures = {name: number(known.get(name)) for name in ("mean", "max")}
        evidence: dict[str, float | int | str] = {"share": share, "epoch": window.epoch}
        evidence |= {f"{name} length": one for name, one in figures.items() if one is not None}
        return (
            Verdict(
                window.subject,
                active=True,
                severity="info",
                sentence=f"{percent(share)} of the positions of {window.name!r} are padding.",
                evidence=evidence,
                advice="Sort sequences into batches of similar length, pack several into one, or "
                "pad to the longest of a batch only.",
            ),
        )
