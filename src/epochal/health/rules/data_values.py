"""Inputs that are not finite, or that are the same value throughout."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds


class DataValues(Rule):
    """Samples with NaN or infinity, and samples whose values are all equal."""

    name = "data-values"
    group = "data"
    meaning = "Inputs hold NaN or infinity, or are constant, as broken files and empty images are."
    healthy = "Every input is finite and has different values."
    reports = {
        "info": "5 % of the samples, and at least 10, are constant, as empty patches are.",
        "warning": "A sample is not finite, or half of the samples are constant.",
    }
    needs = "`epochal.watch_data(loader)`, with inputs of floats on the host."
    kinds = DATA_KINDS
    release = 3

    class Thresholds(RuleThresholds):
        constant_share: float = 0.05  # of a record's samples; empty patches are in many datasets
        constant_samples: int = 10
        constant_grave: float = 0.5

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the counts of one record."""
        window = window_of(observation)
        if window is None or not window.count("read_batches"):
            return
        # Of a loader that is read in part, the share of those that were read.
        read = min(1.0, window.count("read_batches") / max(1, window.batches)) * window.samples
        nonfinite = window.count("nonfinite_samples")
        bad_share = nonfinite / max(1.0, read)
        yield self._verdict(window, "nonfinite", nonfinite, bad_share, is_grave=True)
        constant = window.count("constant_samples")
        share = constant / max(1.0, read)
        limits = self.thresholds
        is_many = share >= limits.constant_share and constant >= limits.constant_samples
        is_grave = share >= limits.constant_grave
        count = constant if is_many else 0
        yield self._verdict(window, "constant", count, share, is_grave=is_grave)

    @staticmethod
    def _verdict(
        window: DataWindow, which: str, count: int, share: float, *, is_grave: bool
    ) -> Verdict:
        subject = f"{window.subject}, {which}"
        if window.rank:
            subject += f", of rank {window.rank}"
        if not count:
            return Verdict(subject, active=False)
        given = window.record.get(f"{which}_at")
        places = [one for one in given if isinstance(one, int)] if isinstance(given, list) else []
        what = "values that are not finite" if which == "nonfinite" else "one value throughout"
        noun = "sample has" if count == 1 else "samples have"
        return Verdict(
            subject,
            active=True,
            severity="warning" if is_grave else "info",
            sentence=f"{count:,} {noun} {what} in epoch {window.epoch} of {window.name!r} "
            f"({percent(min(1.0, share))} of those read).",
            evidence={
                "samples": count,
                "share": min(1.0, share),
                "epoch": window.epoch,
                **({"indices": ", ".join(str(one) for one in places)} if places else {}),
            },
            advice="Look at these samples: a file that cannot be read, a division by zero in the "
            "preparation, or an empty picture.",
        )
