"""The work of training on one token, in floating-point operations, by part of the model.

A product of a token with a weight is two operations forward. Backward it is two more for the
gradient of the input, and two more for that of the weight, unless the weight is frozen. Only matrix
products are counted, as everywhere else: what is left is a few per mille of the work.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from epochal.errors import UsageError
from epochal.torch.flops.transformer_shape import TransformerShape, shape_of
from epochal.values import plain_int

Recompute = Literal["none", "attention", "full"]
_TARGETS = ("q", "k", "v", "o", "gate", "up", "down")


@dataclass(frozen=True, slots=True)
class Work:
    """Operations per token of one part; ``recomputed`` are those of a forward pass done again."""

    forward: float = 0.0
    backward: float = 0.0
    recomputed: float = 0.0

    @property
    def total(self) -> float:
        """All that the hardware is asked to do."""
        return self.forward + self.backward + self.recomputed

    @property
    def useful(self) -> float:
        """What the model needs, without what is computed again; MFU counts this."""
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Flops:
    """Operations per token of a model's blocks, its output layer, and its attention scores."""

    blocks: Work
    lm_head: Work
    attention: Work

    @property
    def parts(self) -> tuple[Work, Work, Work]:
        """The three in the order of the record."""
        return self.blocks, self.lm_head, self.attention

    @property
    def forward(self) -> float:
        """Of the forward pass, once."""
        return sum(part.forward for part in self.parts)

    @property
    def backward(self) -> float:
        """Of the backward pass."""
        return sum(part.backward for part in self.parts)

    @property
    def total(self) -> float:
        """All that the hardware is asked to do."""
        return sum(part.total for part in self.parts)

    @property
    def useful(self) -> float:
        """What the model needs, without what is computed again."""
        return sum(part.useful for part in self.parts)


@dataclass(frozen=True, slots=True)
class Trained:
    """Which weights get gradients: the share of the blocks', and how many of adapters beside them.

    ``passed`` is the share of the layers, counted from the last, that gradients pass: those from
    the first with a trained weight on. None stands for all of them, or for none where neither
    blocks nor adapters nor embeddings are trained.
    """

    blocks: float = 1.0
    lm_head: bool = True
    embeddings: bool = True
    adapters: int = 0
    passed: float | None = None

    def __post_init__(self) -> None:
        for name, share in (("blocks", self.blocks), ("passed", self.passed)):
            if share is not None and not 0 <= share <= 1:
                raise UsageError(f"{name}={share!r} is a share: use 0 to 1.")
        if self.adapters < 0:
            raise UsageError(f"adapters={self.adapters!r} is a number of weights: use 0 or more.")

    @property
    def share_passed(self) -> float:
        """The share of the layers that gradients pass."""
        if self.passed is not None:
            return self.passed
        return float(self.blocks > 0 or self.adapters > 0 or self.embeddings)

    @classmethod
    def lora(
        cls, config: Any, *, rank: int, targets: Collection[str] = ("q", "k", "v", "o")
    ) -> Trained:
        """Adapters of a rank beside frozen weights; targets are q, k, v, o, gate, up and down."""
        if plain_int(rank, name="rank") < 1:
            raise UsageError(f"rank={rank!r} must be 1 or more.")
        if isinstance(targets, str):
            targets = (targets,)
        unknown = [target for target in targets if target not in _TARGETS]
        if unknown:
            raise UsageError(
                f"targets={unknown[0]!r} is not known: use some of {', '.join(_TARGETS)}."
            )
        sides = _sides(shape_of(config))
        weights = sum(rank * sides[target] for target in targets)
        return cls(blocks=0.0, lm_head=False, embeddings=False, adapters=weights)


def flops_per_token(
    config: Any,
    *,
    sequence_length: int,
    trained: Trained | None = None,
    recompute: Recompute = "none",
    causal: bool = True,
) -> Flops:
    """Work per token of a decoder transformer, from its configuration.

    ``recompute`` says what gradient checkpointing computes again: nothing, the attention scores, or
    the blocks, without their last product, whose result no gradient needs. A causal token looks at
    half of the sequence on average; a window limits that.
    """
    if recompute not in ("none", "attention", "full"):
        raise UsageError(f"recompute={recompute!r} is not known: use 'none', 'attention', 'full'.")
    if sequence_length < 1:
        raise UsageError(f"sequence_length={sequence_length} must be 1 or more.")
    shape, what = shape_of(config), trained or Trained()
    passed = what.share_passed
    weights = float(shape.block_weights()) + what.adapters
    spared = float(shape.last_weights())
    blocks = Work(
        forward=2 * weights,
        backward=2 * weights * passed + 2 * (shape.block_weights() * what.blocks + what.adapters),
        recomputed=2 * (weights - spared) * passed if recompute == "full" else 0.0,
    )
    scores = _scores(shape, sequence_length, causal=causal)
    crossed = _scores(shape, sequence_length, causal=causal, passed=passed)
    attention = Work(
        forward=scores, backward=2 * crossed, recomputed=crossed if recompute != "none" else 0.0
    )
    return Flops(blocks, _head(shape, what), attention)


def _head(shape: TransformerShape, what: Trained) -> Work:
    # Tied to the embedding or not, the product is done once; a lookup costs nothing.
    weights = float(shape.width * shape.vocabulary)
    through = 2 * weights if what.share_passed > 0 else 0.0
    return Work(2 * weights, through + (2 * weights if what.lm_head else 0.0))


def _scores(shape: TransformerShape, length: int, *, causal: bool, passed: float = 1.0) -> float:
    """Of the layers that are passed, counted from the last."""
    query, value = shape.score_sizes
    windows = shape.windows or (None,) * shape.layers
    below = shape.layers - round(passed * shape.layers)
    seen = sum(_seen(length, window, causal=causal) for window in windows[below:])
    return 2 * (query + value) * seen


def _seen(length: int, window: int | None, *, causal: bool) -> float:
    """How many tokens one token looks at, on average."""
    if not causal:
        return float(length if window is None else min(length, 2 * window))
    if window is None or window >= length:
        return length / 2
    return window - window**2 / (2 * length)


def _sides(shape: TransformerShape) -> dict[str, int]:
    """The sum of the two sides of each adapted matrix, over all layers a token passes."""
    queries, keys = shape.heads * shape.head_size, shape.kv_heads * shape.head_size
    experts = shape.experts
    num_sparse = 0 if experts is None else experts.layers
    mlp = (shape.layers - num_sparse) * (shape.width + shape.intermediate)
    if experts is not None:
        mlp += num_sparse * experts.per_token * (shape.width + experts.width)
    return {
        "q": shape.layers * (shape.width + queries),
        "k": shape.layers * (shape.width + keys),
        "v": shape.layers * (shape.width + keys),
        "o": shape.layers * (shape.width + queries),
        "gate": mlp if shape.gated else 0,
        "up": mlp,
        "down": mlp,
    }
