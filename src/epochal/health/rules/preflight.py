"""What `epochal.preflight` found before the training."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from epochal.health.context import Context
from epochal.health.observation import Observation
from epochal.health.rule import Message, Rule, Verdict

_ADVICE = MappingProxyType(
    {
        "gradients": "Look for a detach() or no_grad() between these parameters and the loss, or "
        "set requires_grad_(False) where they are frozen on purpose.",
        "optimizer": "Give these parameters to the optimizer, after all layers were made.",
        "inputs": "Check that the batch reaches the layers: look at a mask, a ReLU or an index.",
        "samples": "Look for a reshape, a mean or a normalisation over the dimension of samples.",
        "positions": "Mask later positions, or shift the labels, so that a token is predicted from "
        "those before it.",
        "labels": "Compare the labels of one batch with its inputs, by hand.",
        "loss": "Give the loss what it expects, and ignore what is padding.",
        "start": "Check the last layer's initialisation and what the loss is averaged over.",
        "precision": "Keep the weights in float32 and use autocast, or raise the learning rate.",
        "repetition": "Set the seed where random numbers are drawn, or use deterministic kernels.",
        "loader": "Check the sampler of the loader, and how many workers it has.",
        "overfit": "Find out why one batch cannot be learned before you train on all of them.",
    }
)


class PreflightFailed(Rule):
    """A question to the program got a wrong answer before the training.

    The answers are exact, with the names and numbers that ``epochal.preflight`` printed.
    """

    name = "preflight"
    group = "gradients"
    certainty = "fact"
    healthy = "Every question of `epochal.preflight` passes, or has no exact answer."
    needs = "`epochal.preflight(model, batch, loss_fn)`."
    reports = {"warning": "The answer to a question is *fail*."}
    messages = {"failed": Message("Preflight, {question}: {reason}.", "{advice}")}
    kinds = frozenset({"event"})

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Judge all answers at once."""
        answers = observation.record.get("answers")
        if observation.record.get("name") != "preflight" or not isinstance(answers, list):
            return
        for answer in answers:
            question = answer.get("question") if isinstance(answer, dict) else None
            if not isinstance(question, str):
                continue
            if answer.get("state") == "fail":
                words = {
                    "reason": str(answer.get("reason", "")).rstrip("."),
                    "advice": _ADVICE.get(question, ""),
                }
                yield self.found("failed", question, words=words, question=question)
            elif answer.get("state") == "pass":
                yield Verdict(question, False)
