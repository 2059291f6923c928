"""A model is evaluated in training mode."""

from __future__ import annotations

from collections.abc import Iterable

from epochal.format import plural
from epochal.health.context import Context
from epochal.health.evaluations import is_evaluation, is_quality
from epochal.health.observation import Observation
from epochal.health.rule import Rule, Verdict
from epochal.health.text import percent
from epochal.health.thresholds import RuleThresholds
from epochal.records import finite

EVENT = "evaluation-passes"


class EvalMode(Rule):
    """All passes without gradients around an evaluation had dropout or BatchNorm in training mode.

    A training may run its model without gradients and in training mode by design, as for pseudo
    labels. Such passes come without an evaluation as well, and then the rule says nothing.
    """

    name = "eval-mode"
    group = "evaluation"
    meaning = "The model is evaluated in training mode."
    healthy = "In an evaluation, dropout and BatchNorm are in evaluation mode."
    reports = {
        "warning": (
            "Every pass without gradients before an evaluation was logged ran with dropout or "
            "BatchNorm in training mode."
        )
    }
    needs = "`epochal.watch(model)`, and evaluations under `torch.no_grad()`."
    causes = frozenset({"poor evaluation"})
    symptom_of = frozenset({"lost values"})
    kinds = frozenset({"step", "eval", "metrics", "epoch", "event"})
    every_rank = False

    def __init__(self, thresholds: RuleThresholds) -> None:
        super().__init__(thresholds)
        self._evaluated_at: int | None = None
        self._is_by_design = False

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Check the passes that were reported after an evaluation."""
        if observation.kind != "event":
            self._note_evaluation(observation)
        elif observation.record.get("name") == EVENT:
            return self._see_passes(observation, context)
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """Forget an evaluation that is void."""
        self._evaluated_at = None

    def _note_evaluation(self, observation: Observation) -> None:
        if "loss" in observation.roles:
            self._evaluated_at = None  # training goes on
        if any(is_quality(n) and is_evaluation(n, observation.kind) for n in observation.values):
            self._evaluated_at = observation.step

    def _see_passes(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        step, self._evaluated_at = self._evaluated_at, None
        dropouts, norms = (observation.count_of(name) for name in ("dropouts", "batchnorms"))
        subject = context.role_names.get("eval_loss", "eval")
        if not dropouts and not norms:
            return (Verdict(subject, False),)
        if step is None:
            self._is_by_design = True
        if self._is_by_design or step is None:
            return ()
        return (self._verdict(subject, step, observation, dropouts, norms),)

    def _verdict(
        self, subject: str, step: int, observation: Observation, dropouts: int, norms: int
    ) -> Verdict:
        share, module = finite(observation.record.get("share")), observation.record.get("module")
        parts = []
        if dropouts:
            which = "" if share is None else f" (of {module}: {percent(share)})"
            parts.append(f"dropout is on in {plural(dropouts, 'module')}{which}")
        if norms:
            verb = "uses" if norms == 1 else "use"
            parts.append(f"{plural(norms, 'BatchNorm')} {verb} the statistics of the batch")
        return Verdict(
            subject,
            True,
            "warning",
            f"The model was in training mode in the evaluation at step {step:,}: "
            f"{' and '.join(parts)}. The evaluation is not of the model as it will be used.",
            steps=(step, step),
            evidence={"dropouts": dropouts, "batchnorms": norms, "module": str(module)},
            advice="Call model.eval() before the evaluation, and model.train() after it.",
        )
