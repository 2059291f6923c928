"""Initial values of parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from epochal.torch.lazy import on_first_use

if TYPE_CHECKING:
    from epochal.torch.init.weights import (
        kaiming_normal,
        kaiming_uniform,
        normal,
        orthogonal,
        set_data,
        trunc_normal,
        uniform,
        uniform_bias,
        xavier_normal,
        xavier_uniform,
    )

__all__ = [
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "set_data",
    "trunc_normal",
    "uniform",
    "uniform_bias",
    "xavier_normal",
    "xavier_uniform",
]

__getattr__ = on_first_use(__name__, {"weights": __all__})
