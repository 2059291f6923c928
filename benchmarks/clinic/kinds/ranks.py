"""Trainings over two ranks: the perceptron, the CNN and the transformer once more."""

from __future__ import annotations

from benchmarks.clinic.kinds.language import CharTransformer
from benchmarks.clinic.kinds.tables import Perceptron
from benchmarks.clinic.kinds.vision import Pictures
from benchmarks.clinic.task import Kind, OptimizerChoice

KINDS = (
    Kind(
        "ddp_mlp",
        "tuning",
        Perceptron,
        (OptimizerChoice("momentum", 0.03), OptimizerChoice("adamw", 1e-3)),
        steps=700,
        world=2,
        config={"num_classes": 10},
    ),
    Kind(
        "ddp_cnn",
        "unseen",
        Pictures,
        (OptimizerChoice("momentum", 0.02), OptimizerChoice("adam", 2e-3)),
        steps=700,
        world=2,
        config={"num_classes": 6},
    ),
    Kind(
        "ddp_transformer",
        "unseen",
        CharTransformer,
        (OptimizerChoice("adamw", 4e-3), OptimizerChoice("momentum", 0.1)),
        steps=700,
        batch_size=8,
        warmup=60,
        clip=1.0,
        world=2,
    ),
)
