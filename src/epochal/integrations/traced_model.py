"""A model as ``add_graph`` takes it: traced, and drawn."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import torch

from epochal.monitor import log_picture
from epochal.run.run import Run
from epochal.torch import picture_of


def draw(run: Run, model: Any, inputs: Any, *, verbose: bool, strict: bool) -> None:
    """Record the picture of a model; raises RuntimeError when its inputs do not fit.

    A model without inputs is drawn by its structure.
    """
    if inputs is not None:
        was_training = model.training
        model.eval()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                traced = torch.jit.trace(model, inputs, strict=strict)  # type: ignore[no-untyped-call]
        finally:
            model.train(was_training)
        if verbose:
            sys.stdout.write(f"{traced.graph}\n")
    log_picture(run, model, picture_of(model, inputs))
