"""BatchNorm trains, and the statistics that evaluation uses do not move."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from epochal.health.layer_series import RUNNING_STATS, holds_layers, named
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.streak_counter import StreakCounter
from epochal.health.thresholds import RuleThresholds

if TYPE_CHECKING:
    from epochal.health.context import Context


class StaleBatchNorm(Rule):
    """The running statistics of a BatchNorm in training mode are equal at several watched steps.

    In evaluation mode BatchNorm keeps them by design, and such a one is not recorded.
    """

    name = "stale-batchnorm"
    group = "layers"
    meaning = "BatchNorm does not update the statistics that an evaluation uses."
    healthy = "The running statistics move at every step."
    reports = {
        "warning": (
            "The running statistics are equal at four watched steps in a row, in training mode."
        )
    }
    needs = "`epochal.watch(model)`."
    causes = frozenset({"poor evaluation"})
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"metrics", "step"})
    every_rank = False

    class Thresholds(RuleThresholds):
        samples: int = 3  # changes between two watched steps

    thresholds: Thresholds

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(thresholds)
        self._still = StreakCounter(needed=thresholds.samples)
        self._norms: dict[str, tuple[int, float]] = {}
        self._step = 0

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Compare a watched step with the one before."""
        if observation.step is None or not holds_layers(observation):
            return
        norms = RUNNING_STATS.of(observation.values)
        self._step = observation.step
        for layer, norm in norms.items():
            before = self._norms.get(layer)
            if before is not None:
                self._still.note(layer, ails=norm == before[1], step=before[0])
            self._norms[layer] = (observation.step, norm)
        if norms:
            yield from self._still.verdicts(RUNNING_STATS.name, self._describe)

    def forget_from(self, step: int, context: Context) -> None:
        """Count again."""
        self._still.forget()
        self._norms.clear()

    def _describe(self, layers: Sequence[str]) -> Verdict:
        since = self._still.since(layers[0])
        return Verdict(
            RUNNING_STATS.name(layers[0]),
            active=True,
            sentence=f"The running statistics of BatchNorm {named(layers)} have not changed since "
            f"step {since:,}, although it is in training mode. An evaluation normalises with them.",
            steps=(since, self._step),
            evidence={"layers": len(layers), "since_step": since},
            advice="Check that its momentum is above 0, that its buffers are not overwritten (by a "
            "checkpoint or another rank), and that the forward pass uses it.",
        )
