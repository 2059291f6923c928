"""The questions, in the order in which they are asked: what takes long comes last."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from epochal.torch.preflight.answer import Answer
from epochal.torch.preflight.dependence import ask_inputs, ask_repetition, ask_samples
from epochal.torch.preflight.loading import ask_loader
from epochal.torch.preflight.losses import ask_loss, ask_start
from epochal.torch.preflight.parameters import ask_gradients, ask_optimizer, ask_precision
from epochal.torch.preflight.sequences import ask_labels, ask_positions
from epochal.torch.preflight.subject import Subject
from epochal.torch.preflight.training import ask_overfit


@dataclass(frozen=True, slots=True)
class Question:
    """One question: its name in the table, its words, and the function that asks it.

    The function leaves the model as it was. It raises ``CannotTellError`` where there is no exact
    answer; any other error is one, too.
    """

    name: str
    text: str
    ask: Callable[[Subject], Answer]


QUESTIONS = (
    Question("gradients", "Which trainable parameters get a gradient?", ask_gradients),
    Question("optimizer", "Which trainable parameters are in no optimizer?", ask_optimizer),
    Question("inputs", "Does the output depend on the input at all?", ask_inputs),
    Question(
        "samples",
        "Does every sample's output depend on its own input and, in eval mode, on no other's?",
        ask_samples,
    ),
    Question("positions", "Does a position's output depend on later positions?", ask_positions),
    Question("labels", "Are labels equal to the inputs at their place, or shifted?", ask_labels),
    Question("loss", "Do reduction, softmax, padding and ignored labels fit the loss?", ask_loss),
    Question("start", "Where does the loss start, against an ignorant model's?", ask_start),
    Question(
        "precision",
        "Are gradients finite, and are updates kept in the dtype of the weights?",
        ask_precision,
    ),
    Question("repetition", "Is the result the same twice with the same seed?", ask_repetition),
    Question(
        "loader", "Do batches repeat, and how much of a step is waiting for data?", ask_loader
    ),
    Question("overfit", "Does a copy overfit this one batch, and at which rates?", ask_overfit),
)
