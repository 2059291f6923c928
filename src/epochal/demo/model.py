"""A character-level language model small enough to read: embedding, one hidden layer, softmax.

The gradients are worked out by hand, so the demonstration needs nothing but numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Codes = npt.NDArray[np.int64]
Parameters = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    vocabulary: int
    context: int = 12
    embedding: int = 16
    hidden: int = 160


class Measured(NamedTuple):
    """What one look at a batch gives: mean loss in nats, share of right guesses, gradients."""

    loss: float
    accuracy: float
    gradients: Parameters


class Model:
    """Predicts a character from those before it."""

    def __init__(self, shape: Shape, *, rng: np.random.Generator) -> None:
        self.shape = shape
        inputs = shape.context * shape.embedding
        self.parameters: Parameters = {
            "embedding": _normal(rng, shape.vocabulary, shape.embedding, scale=0.5),
            "hidden.weight": _normal(rng, inputs, shape.hidden, scale=inputs**-0.5),
            "hidden.bias": np.zeros(shape.hidden, dtype=np.float32),
            # Near zero, so that the first guess is "every character is as likely".
            "output.weight": _normal(rng, shape.hidden, shape.vocabulary, scale=0.01),
            "output.bias": np.zeros(shape.vocabulary, dtype=np.float32),
        }

    @property
    def num_parameters(self) -> int:
        """How many numbers are learned."""
        return sum(values.size for values in self.parameters.values())

    def measure(self, contexts: Codes, targets: Codes) -> tuple[float, float]:
        """Mean loss and accuracy on a batch."""
        probabilities = self._forward(contexts)[-1]
        return _loss(probabilities, targets), _accuracy(probabilities, targets)

    def guesses(self, contexts: Codes) -> Codes:
        """The most likely next character of each context."""
        guesses: Codes = self._forward(contexts)[-1].argmax(axis=1)
        return guesses

    def measure_with_gradients(self, contexts: Codes, targets: Codes) -> Measured:
        """Loss, accuracy and the gradient of the mean loss for every parameter."""
        inputs, hidden, probabilities = self._forward(contexts)
        by_logits = probabilities.copy()
        by_logits[np.arange(len(targets)), targets] -= 1.0
        by_logits /= len(targets)
        by_hidden = (by_logits @ self.parameters["output.weight"].T) * (1.0 - hidden**2)
        by_inputs = by_hidden @ self.parameters["hidden.weight"].T
        by_embedding = np.zeros_like(self.parameters["embedding"])
        np.add.at(by_embedding, contexts, by_inputs.reshape(*contexts.shape, -1))
        gradients = {
            "embedding": by_embedding,
            "hidden.weight": inputs.T @ by_hidden,
            "hidden.bias": by_hidden.sum(axis=0),
            "output.weight": hidden.T @ by_logits,
            "output.bias": by_logits.sum(axis=0),
        }
        return Measured(_loss(probabilities, targets), _accuracy(probabilities, targets), gradients)

    def continue_text(
        self, codes: Codes, *, length: int, temperature: float, rng: np.random.Generator
    ) -> list[int]:
        """Draw characters one after the other, each from what the model expects there."""
        context = list(codes[-self.shape.context :])
        drawn: list[int] = []
        for _ in range(length):
            probabilities = self._forward(np.array([context]))[-1][0].astype(np.float64)
            sharpened = probabilities ** (1.0 / temperature)
            drawn.append(int(rng.choice(len(sharpened), p=sharpened / sharpened.sum())))
            context = [*context[1:], drawn[-1]]
        return drawn

    def _forward(self, contexts: Codes) -> tuple[Floats, Floats, Floats]:
        parameters = self.parameters
        inputs = parameters["embedding"][contexts].reshape(len(contexts), -1)
        hidden = np.tanh(inputs @ parameters["hidden.weight"] + parameters["hidden.bias"])
        logits = hidden @ parameters["output.weight"] + parameters["output.bias"]
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return inputs, hidden, exponentials / exponentials.sum(axis=1, keepdims=True)


class Adam:
    """The Adam optimiser with its usual constants."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._mean = {name: np.zeros_like(values) for name, values in parameters.items()}
        self._square = {name: np.zeros_like(values) for name, values in parameters.items()}
        self._steps = 0

    def step(self, gradients: Parameters, *, lr: float) -> None:
        """Move every parameter once, in place."""
        self._steps += 1
        rate = lr * float(np.sqrt(1.0 - 0.999**self._steps)) / (1.0 - 0.9**self._steps)
        for name, gradient in gradients.items():
            self._mean[name] += 0.1 * (gradient - self._mean[name])
            self._square[name] += 0.001 * (gradient**2 - self._square[name])
            self._parameters[name] -= rate * self._mean[name] / (np.sqrt(self._square[name]) + 1e-8)


def clip(gradients: Mapping[str, Floats], *, largest_norm: float) -> tuple[Parameters, float]:
    """The gradients scaled down to a norm where it is larger, and the norm they had before."""
    norm = float(np.sqrt(sum(float(np.sum(values**2)) for values in gradients.values())))
    scale = np.float32(min(1.0, largest_norm / (norm + 1e-6)))
    return {name: values * scale for name, values in gradients.items()}, norm


def _normal(rng: np.random.Generator, rows: int, columns: int, *, scale: float) -> Floats:
    return (scale * rng.standard_normal((rows, columns))).astype(np.float32)


def _loss(probabilities: Floats, targets: Codes) -> float:
    chosen = probabilities[np.arange(len(targets)), targets]
    return float(-np.log(np.maximum(chosen, 1e-30)).mean())


def _accuracy(probabilities: Floats, targets: Codes) -> float:
    return float((probabilities.argmax(axis=1) == targets).mean())


_BOX_WIDTH, _BOX_HEIGHT, _GAP = 168, 56, 40
_RED = np.array([178, 24, 43])
_BLUE = np.array([33, 102, 172])
_WHITE = np.array([255, 255, 255])


def draw_layers(model: Model) -> str:
    """The model from left to right as SVG, with the parameters of each layer."""
    shape, sizes = model.shape, {name: p.size for name, p in model.parameters.items()}
    hidden = sizes["hidden.weight"] + sizes["hidden.bias"]
    output = sizes["output.weight"] + sizes["output.bias"]
    boxes = (
        ("context", f"{shape.context} characters"),
        ("embedding", f"{shape.embedding} each · {sizes['embedding']:,}"),
        ("hidden, tanh", f"{shape.hidden} units · {hidden:,}"),
        ("softmax", f"{shape.vocabulary} characters · {output:,}"),
    )
    width, middle = len(boxes) * (_BOX_WIDTH + _GAP), _BOX_WIDTH // 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {_BOX_HEIGHT}"'
        ' font-family="sans-serif" font-size="13" text-anchor="middle">'
    ]
    for place, (title, caption) in enumerate(boxes):
        parts.append(
            f'<g transform="translate({place * (_BOX_WIDTH + _GAP)} 0)"><rect width="{_BOX_WIDTH}"'
            f' height="{_BOX_HEIGHT}" rx="6" fill="#f4f6fa" stroke="#888"/>'
            f'<text x="{middle}" y="23" fill="#222">{title}</text>'
            f'<text x="{middle}" y="42" fill="#666" font-size="11">{caption}</text></g>'
        )
    return "".join([*parts, "</svg>"])


def colour_matrix(weights: Floats) -> npt.NDArray[np.uint8]:
    """A matrix as pixels: blue below zero, white at zero, red above, full colour at the largest."""
    share = (weights / (np.abs(weights).max() + 1e-12))[..., None]
    colour = np.where(share > 0, _RED, _BLUE)
    pixels: npt.NDArray[np.uint8] = np.rint(_WHITE + np.abs(share) * (colour - _WHITE)).astype(
        np.uint8
    )
    return pixels
