"""An input that gives the label away."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.data_window import DATA_KINDS, DataWindow, pair_figures, shown, window_of
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.thresholds import RuleThresholds


class DataAnswer(Rule):
    """Features of the inputs have one value for each class, in every sample that was read."""

    name = "data-answer"
    group = "data"
    meaning = "The answer is among the inputs: some of their values are the label in other words."
    healthy = "No value of the inputs is fixed by the label alone."
    reports = {
        "warning": (
            "Some features of the inputs have one value for each class in all samples that were "
            "read, at least 200 and 20 for each class. Together they tell every class. Not if "
            "the loss stands near its start after 100 points: it is hard to find there."
        )
    }
    needs = "`epochal.watch_data(loader)`, with a pair of inputs and labels in each batch."
    kinds = DATA_KINDS
    every_rank = False

    class Thresholds(RuleThresholds):
        samples: int = 200  # fewer may agree by chance
        # What is given away is learned at once; to recall one of many values is a task.
        points: int = 100
        left: float = 0.9  # of the first loss

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._is_task = False  # to find the answer among the inputs

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Look at the newest figures of a training split."""
        window = window_of(observation)
        if window is None or not window.is_training or "targets" not in window.record:
            return ()
        limits, loss = self.thresholds, context.curves.get("loss")
        if loss is not None and loss.count >= limits.points and loss.start is not None:
            level = loss.recent_level(limits.points // 5)
            self._is_task = self._is_task or level > limits.left * loss.start > 0
        if self._is_task:
            return ()
        return (self._verdict(window),)

    def _verdict(self, window: DataWindow) -> Verdict:
        found = pair_figures(window, "telling")
        features = window.record.get("telling", {}).get("features") if found else None
        places = [one for one in features or () if isinstance(one, int)]
        # Of a small dataset the same samples come again and again.
        samples = min(found.get("samples", 0.0), window.count("dataset_samples") or 1e12)
        if not places or samples < self.thresholds.samples:
            return Verdict(window.subject, active=False)
        classes, read = int(found.get("classes", 0)), int(found["samples"])
        which = f"value {places[0]}" if len(places) == 1 else f"values {shown(places)}"
        verb = "is" if len(places) == 1 else "are"
        return Verdict(
            window.subject,
            active=True,
            sentence=f"The answer is among the inputs of {window.name!r}: {which} of each sample "
            f"(counted from 0) {verb} the same for all samples of one label, in {read:,} samples "
            f"of {classes:,} labels.",
            evidence={"features": shown(places), "samples": read, "classes": classes},
            advice="A model that reads these values knows the label without learning anything. "
            "Find out how the label came among the inputs, and remove it.",
        )
