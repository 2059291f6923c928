"""What the program does wrong by its own settings, as its training shows."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Message, Rule, RuleThresholds, Verdict
from epochal.records import finite


class TrainingMode(Rule):
    """The model is trained in evaluation mode.

    Optimizer steps of a model that is in evaluation mode, with dropout or BatchNorm in it.
    """

    name = "training-mode"
    group = "layers"
    certainty = "fact"
    healthy = "In training, dropout and BatchNorm are in training mode."
    reports = {"warning": "Ten steps in a row with the whole model in evaluation mode."}
    kinds = frozenset({"event"})
    every_rank = False
    messages = {
        "mode": Message(
            "The model is trained in evaluation mode up to step {step}: {dropouts} dropout and "
            "{batchnorms} BatchNorm modules do not work as in training.",
            "Call model.train() before the training and after each evaluation.",
        )
    }

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Read the event of a training in evaluation mode."""
        if observation.record.get("name") != "training-in-evaluation-mode":
            return
        dropouts, norms = observation.count_of("dropouts"), observation.count_of("batchnorms")
        step = observation.count_of("at_step")
        if not dropouts and not norms:
            yield Verdict("train", active=False, extent=CONCLUSIVE)
            return
        steps = (max(0, step + 1 - observation.count_of("steps")), step)
        yield self.found(
            "mode", "train", steps=steps, step=step, dropouts=dropouts, batchnorms=norms
        )


class WeightDecay(Rule):
    """Weight decay takes more than training can add.

    The learning rate times the weight decay of an optimizer that shrinks the weights themselves.
    """

    name = "weight-decay"
    group = "learning rate"
    certainty = "fact"
    healthy = "A ten-thousandth of each weight or less in a step."
    reports = {"warning": "{decay_share:percent} of each weight in a step."}
    kinds = frozenset({"event"})
    every_rank = False
    causes = frozenset({"standstill"})
    messages = {
        "decay": Message(
            "Weight decay takes {decay:percent} of each weight at every step (learning rate "
            "{rate} x weight decay {strength}): without gradients, weights are half as large after "
            "{half} steps.",
            "Lower weight_decay by about {factor:times}, to {right}. Usual are 0.01 to 0.1 with "
            "AdamW, and 0.0001 to 0.0005 with SGD.",
        )
    }

    class Thresholds(RuleThresholds):
        # Half of a weight is gone after 140 steps. Heavy settings that work take 0.1 %.
        decay_share: float = 0.005
        usual_share: float = 1e-4

    thresholds: Thresholds

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Read the event of an optimizer with a large decay."""
        record = observation.record
        if record.get("name") != "weight-decay":
            return
        decay, rate = finite(record.get("decay")), finite(record.get("lr"))
        weight_decay = finite(record.get("weight_decay"))
        if not decay or not rate or not weight_decay or decay < self.thresholds.decay_share:
            return
        factor = decay / self.thresholds.usual_share
        yield self.found(
            "decay",
            "params",
            steps=(0, observation.count_of("at_step")),
            words={
                "rate": f"{rate:.3g}",
                "strength": f"{weight_decay:.3g}",
                "right": f"{weight_decay / factor:.2g}",
                "half": f"{0.69 / decay:.2g}",
            },
            decay=decay,
            lr=rate,
            weight_decay=weight_decay,
            factor=factor,
        )
