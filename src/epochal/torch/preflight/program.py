"""How the model is called with a batch, and how its loss is computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import Tensor, nn
from torch.nn.modules.loss import _Loss

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import CannotTellError
from epochal.torch.preflight.batch import LABELS, Batch

NO_LOSS = (
    "there is no loss: pass loss_fn=lambda output, batch: …, or a batch with labels from which"
    " the model computes its loss"
)
_OUTPUTS = ("logits", "prediction_logits", "sample", "last_hidden_state", "output")


@dataclass(frozen=True, slots=True)
class Program:
    """The forward pass and the loss of a training."""

    loss_fn: Callable[..., Any] | None = None
    forward: Callable[[Any, Any], Any] | None = None

    def output(self, model: nn.Module, batch: Batch) -> Any:
        """Call the model with the batch as the training does."""
        value = batch.value
        if self.forward is not None:
            return self.forward(model, value)
        signature = attempt(inspect.signature, model.forward)[0]
        if isinstance(value, Mapping):
            return model(**_accepted(signature, value, has_loss=self.loss_fn is not None))
        if not isinstance(value, (tuple, list)):
            return model(value)
        if self.loss_fn is None and _binds(signature, value):
            return model(*value)
        required = min(_num_required(signature), len(value) - 1)
        return model(*value[: max(required, 1)])

    def loss(self, output: Any, batch: Batch) -> Tensor | None:
        """The loss of an output; None if there is no way to compute one."""
        if self.loss_fn is None:
            return own_loss(output)
        if isinstance(self.loss_fn, _Loss) or getattr(F, _name(self.loss_fn), 0) is self.loss_fn:
            if batch.labels is None:
                raise CannotTellError("the batch has no labels for the loss function")
            predictions = first_output(output)
            loss = self.loss_fn(output if predictions is None else predictions, batch.labels)
        else:
            loss = self.loss_fn(output, batch.value)
        if isinstance(loss, Tensor) and loss.numel() != 1:
            raise CannotTellError(
                f"the loss has the shape {list(loss.shape)}; it must be one number"
            )
        return loss if isinstance(loss, Tensor) else None


def own_loss(output: Any) -> Tensor | None:
    """The loss that a model returns: its output, or the one scalar of it."""
    if isinstance(output, Tensor):
        return output if output.dim() == 0 else None
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss
    if isinstance(output, (tuple, list)):
        scalars = [one for one in output if isinstance(one, Tensor) and one.dim() == 0]
        return scalars[0] if len(scalars) == 1 else None
    return None


def first_output(output: Any) -> Tensor | None:
    """The predictions in an output; None if it is nothing but a loss."""
    if isinstance(output, Tensor):
        return output if output.dim() and output.is_floating_point() else None
    if isinstance(output, Mapping):
        items = dict(output)
    elif isinstance(output, (tuple, list)):
        items = dict(enumerate(output))
    else:
        items = vars(output) if hasattr(output, "__dict__") else {}
    for key in (*_OUTPUTS, *items):
        one = items.get(key)
        if isinstance(one, Tensor) and one.dim() and one.is_floating_point():
            return one
    return None


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", ""))


def _accepted(
    signature: inspect.Signature | None, value: Mapping[str, Any], *, has_loss: bool
) -> Mapping[str, Any]:
    """Without the labels that a model does not take, if another function computes the loss."""
    if signature is None or not has_loss:
        return value
    parameters = signature.parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return value
    taken = {one.name for one in parameters}
    return {key: item for key, item in value.items() if key in taken or key not in LABELS}


def _binds(signature: inspect.Signature | None, value: Any) -> bool:
    if signature is None:
        return False
    bound, _ = attempt(signature.bind, *value)
    return bound is not None


def _num_required(signature: inspect.Signature | None) -> int:
    if signature is None:
        return 1
    return sum(
        one.default is inspect.Parameter.empty
        and one.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for one in signature.parameters.values()
    )
