"""The detectors of :func:`epochal.watch`: what a training does besides its norms and histograms.

- `EvaluationModes`: passes without gradients in training mode, where dropout or BatchNorm act.
- `MissingSteps`: backward passes that no optimizer step follows.
- `KeptGradients`: gradients that are not reset between steps.
- `Optimizers`: what optimizers are set to, and parameters that none of them updates.
- `Inputs`: the scale of what the model gets, in training and in evaluations.
- `frozen_fields` and `scale_fields`: frozen parameters, and weights of an unusual size.

`Watch` feeds them from its hooks. They register nothing and never wait for a device: what they
find out is a `Fact`, whose numbers may still be on their way.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from epochal.torch.measure import Reduced, Rows, local, reduce_tensors, sampled
from epochal.torch.structure import named_modules, tensors_in

WEIGHT_LAYERS = (nn.Linear, _ConvNd, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)
_LAST_DENSE_STEP = 500


def is_norm(module: nn.Module) -> bool:
    """Return True for a normalisation, torch's own or another."""
    return "norm" in type(module).__name__.lower() and next(module.children(), None) is None


def is_dense(number: int) -> bool:
    """Return True for 1, 2, 5, 10, 20, 50, 100 and so on."""
    return str(number).rstrip("0") in ("1", "2", "5")


def is_dense_step(number: int) -> bool:
    """Return True for 1, 2, 5 and so on up to 500."""
    return number <= _LAST_DENSE_STEP and is_dense(number)


def can_be_read(tensor: Tensor) -> bool:
    """Return True if the values of a tensor can be read without waiting for them."""
    return tensor.layout is torch.strided and tensor.device.type in ("cpu", "cuda")


@dataclass(slots=True)
class Fact:
    """An event on its way: ``read`` makes more fields of ``rows``, or None if there is no event."""

    name: str
    fields: dict[str, Any]
    step: int | None = None
    rows: Rows | None = None
    read: Callable[[Rows], Mapping[str, Any] | None] = lambda rows: {}

    def has_arrived(self) -> bool:
        """Return True if `complete` would not wait."""
        return self.rows is None or self.rows.have_arrived()

    def complete(self) -> dict[str, Any] | None:
        """Return all fields of the event, or None if there is nothing to report."""
        more = {} if self.rows is None else self.read(self.rows)
        if more is None:
            return None
        return ({} if self.step is None else {"at_step": self.step}) | self.fields | dict(more)


class Detector:
    """Keeps facts until they are collected."""

    def __init__(self) -> None:
        self._facts: list[Fact] = []

    def facts(self) -> list[Fact]:
        """Return the facts since the last call."""
        facts, self._facts = self._facts, []
        return facts


# -- evaluations in training mode ------------------------------------------------------------------


# More evaluations in training mode say nothing new.
_MOST_REPORTS = 4
# Passes in evaluation mode may be of an export or a sample: the evaluation may come after them.
_MOST_RIGHT = 32


class EvaluationModes(Detector):
    """Reports passes without gradients if all of them since the last step were in training mode.

    The passes after those that are in the right mode are reported as well, some times.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        modules = list(named_modules(model))
        self._dropouts = [(name, one) for name, one in modules if drop_share(one) > 0]
        self._norms = [(name, one) for name, one in modules if isinstance(one, _BatchNorm)]
        self._passes = self._in_training = self._num_reported = 0
        self._right_left = 0  # passes in evaluation mode that are still reported
        self._fields: dict[str, Any] = {}

    def on_forward(self) -> None:
        """Count a pass, if it is one without gradients."""
        if torch.is_grad_enabled() or not (self._dropouts or self._norms):
            return
        self._passes += 1
        dropouts = [(name, one) for name, one in self._dropouts if one.training]
        norms = [(name, one) for name, one in self._norms if one.training]
        if not dropouts and not norms:
            return
        self._in_training += 1
        name, module = (dropouts or norms)[0]
        self._fields = {"dropouts": len(dropouts), "batchnorms": len(norms), "module": name}
        if dropouts:
            self._fields["share"] = drop_share(module)

    def facts(self) -> list[Fact]:
        passes, in_training = self._passes, self._in_training
        self._passes = self._in_training = 0
        if not passes:
            return []
        if in_training == passes:
            self._num_reported += 1
            self._right_left = _MOST_RIGHT
            if self._num_reported > _MOST_REPORTS:
                return []
            return [Fact("evaluation-passes", {"passes": passes, **self._fields})]
        if in_training or not self._right_left:  # some of both: which was the evaluation?
            return []
        self._right_left -= 1
        self._num_reported = 0
        return [Fact("evaluation-passes", {"passes": passes, "dropouts": 0, "batchnorms": 0})]


def drop_share(module: nn.Module) -> float:
    """The share that a module drops at random in training; 0 if it drops nothing."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return float(module.dropout)
    share = getattr(module, "drop_prob", None)  # stochastic depth, as several libraries name it
    return float(share) if isinstance(share, float) and 0 < share <= 1 else 0.0


# -- gradients -------------------------------------------------------------------------------------


# More than anybody accumulates gradients over before the first step.
_PASSES = 200


class MissingSteps(Detector):
    """Counts the gradients of one parameter until the first step of any optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self._passes = 0

    @property
    def is_over(self) -> bool:
        """Whether there were so many passes that a step is missing."""
        return self._passes == _PASSES

    def on_gradient(self) -> None:
        """Count a backward pass."""
        self._passes += 1
        if self.is_over:
            self._facts.append(Fact("no-optimizer-step", {"passes": self._passes}))


_STEPS = 5  # in a row that begin with old gradients
_RESETS = 3  # in a row after which it is clear that gradients are reset
_MOST_STEPS = 20
_SAMPLE = 256


class KeptGradients(Detector):
    """Checks one parameter of an optimizer until it is clear whether its gradient is reset.

    A step begins with the old gradient if all its backward passes find the gradient as it was left,
    by the step before or by the pass before: at the same place, and with no write in between.
    """

    def __init__(self, name: str, parameter: Tensor) -> None:
        super().__init__()
        self._name = name
        self._parameter = weakref.ref(parameter)
        self._num_steps = self._num_resets = self._num_kept = 0
        self._expected: tuple[int, int] | None = None  # place and version at the next pass
        self._passes: list[bool] = []  # since the last step: whether each found what it should
        self._values: Tensor | None = None  # some of what the last step began with

    def on_gradient(self) -> None:
        """Check the gradient that a backward pass is about to add to."""
        parameter = self._parameter()
        found = _place_of(None if parameter is None else parameter.grad)
        self._passes.append(found is not None and found == self._expected)
        self._expected = None if found is None else (found[0], found[1] + 1)
        is_last = self._num_kept == _STEPS - 1 and len(self._passes) == 1
        if is_last and parameter is not None and parameter.grad is not None:
            self._values = _sample_of(parameter.grad)

    def after_step(self, step: int) -> bool:
        """Count the passes since the step before; return True if nothing is left to do."""
        parameter = self._parameter()
        self._num_steps += 1
        if parameter is None or self._num_steps > _MOST_STEPS:
            return True
        passes, self._passes = self._passes, []
        left = _place_of(parameter.grad)
        is_replaced = left is None or self._expected is None or left[0] != self._expected[0]
        self._expected = left
        if passes and not all(passes):
            self._num_kept, self._num_resets = 0, self._num_resets + 1
        elif not passes or is_replaced:  # by the loop, as with torch.autograd.grad()
            self._num_kept = 0
        else:
            self._num_kept, self._num_resets = self._num_kept + 1, 0
        if self._num_kept == _STEPS and self._values is not None:
            # Zeros may have been written past the version, through `data`.
            rows = Rows((self._values != 0).any().double().reshape(1, 1))
            fields = {"parameter": self._name, "steps": _STEPS}
            self._facts.append(Fact("gradients-kept", fields, step, rows, _if_any))
        return self._num_kept == _STEPS or self._num_resets == _RESETS


def _if_any(rows: Rows) -> Mapping[str, Any] | None:
    return {} if any(rows.read_column()) else None


def is_plain(parameter: Tensor) -> bool:
    """Return True for a whole, trained parameter: what is sharded is reset in ways of its own."""
    is_whole = type(parameter) is nn.Parameter and not is_lazy(parameter)
    return is_whole and parameter.requires_grad and parameter.is_leaf and parameter.numel() > 0


def _place_of(gradient: Tensor | None) -> tuple[int, int] | None:
    """Where the values are, and how often they were written; None if sparse or not there."""
    if gradient is None or gradient.layout is not torch.strided:
        return None
    return gradient.data_ptr(), gradient._version


def _sample_of(tensor: Tensor, most: int = _SAMPLE) -> Tensor | None:
    """A copy of some values; None where they cannot be had."""
    tensor = local(tensor)
    return sampled(tensor, most).clone() if can_be_read(tensor) else None


# -- optimizers ------------------------------------------------------------------------------------


UNOWNED = "parameters-without-optimizer"
_FIRST_CHECK = 10
_COMPARED = 4096
_SHOWN = 8
_SETTINGS = ("lr", "momentum", "betas", "weight_decay")


class Optimizers(Detector):
    """The optimizers that have stepped, and the parameters that stay as they are beside them.

    Parameters that no optimizer owns are compared with a sample from the first step. Those that
    change are updated by hand, or from a copy that an optimizer owns.
    """

    def __init__(self, parameters: Mapping[str, Tensor]) -> None:
        super().__init__()
        self._parameters = parameters
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._owned: set[int] = set()
        self._has_others = False  # whether an optimizer has parameters of something else
        self._of_others: list[Fact] = []  # about optimizers that have nothing of the model
        self._first: dict[str, Tensor] | None = None  # samples from the first step
        self._with_gradient: set[str] = set()
        self._checked = 0
        self._is_reported = False

    def before_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Record an optimizer at its first step, and note which parameters have gradients."""
        if optimizer not in self._steps:
            self._steps[optimizer] = 0
            self._add(optimizer, step)
        if self._first and not self._is_reported:
            self._with_gradient.update(
                name for name in self._first if self._parameters[name].grad is not None
            )

    def _add(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        ids = {id(one) for group in optimizer.param_groups for one in group["params"]}
        names = {name for name, one in self._parameters.items() if id(one) in ids}
        self._has_others = self._has_others or len(names) < len(ids)
        self._owned |= ids
        fields = {
            "optimizer": type(optimizer).__name__,
            "parameters": len(names),
            "groups": [_group_fields(group) for group in optimizer.param_groups],
        }
        (self._facts if names else self._of_others).append(Fact("optimizer", fields, step))
        if self._first is None:
            found = {
                name: _sample_of(one, _COMPARED)
                for name, one in self._parameters.items()
                if one.requires_grad and not is_lazy(one) and id(one) not in self._owned
            }
            self._first = {name: one for name, one in found.items() if one is not None}

    def after_step(self, optimizer: torch.optim.Optimizer, step: int) -> None:
        """Compare the parameters that no optimizer owns, at some steps."""
        number = self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if not self._first or number <= self._checked or not is_dense(number):
            return
        self._checked = number
        if number < _FIRST_CHECK:
            return
        if not any(id(one) in self._owned for one in self._parameters.values()):
            self._facts += self._of_others
            self._of_others = []
        suspects = [name for name in self._first if self._is_suspect(name)]
        if not suspects:
            self._first = {}
            if self._is_reported:
                self._facts.append(Fact(UNOWNED, self._fields([]), step))
            return
        with torch.no_grad():
            now = [_sample_of(self._parameters[name], _COMPARED) for name in suspects]
            same = [
                (one == self._first[name]).all()
                for name, one in zip(suspects, now, strict=True)
                if one is not None and one.device == self._first[name].device
            ]
        if len(same) == len(suspects):
            device = same[0].device
            rows = Rows(torch.stack([one.to(device) for one in same]).double().unsqueeze(1))
            self._facts.append(Fact(UNOWNED, {}, step, rows, partial(self._read, suspects)))

    def _is_suspect(self, name: str) -> bool:
        parameter = self._parameters[name]
        if id(parameter) in self._owned or name not in self._with_gradient:
            return False
        # Small updates of a copy in 32 bits may not show in 16 for many steps.
        return not (self._has_others and parameter.dtype in (torch.float16, torch.bfloat16))

    def _read(self, suspects: Sequence[str], rows: Rows) -> Mapping[str, Any] | None:
        same = [name for name, one in zip(suspects, rows.read_column(), strict=True) if one]
        if not same:
            self._first = {}
        if bool(same) == self._is_reported:
            return None  # nothing new
        self._is_reported = bool(same)
        return self._fields(same)

    def _fields(self, names: Sequence[str]) -> dict[str, Any]:
        return {
            "parameters": len(names),
            "elements": sum(self._parameters[name].numel() for name in names),
            "of": sum(one.requires_grad for one in self._parameters.values()),
            "names": list(names[:_SHOWN]),
        }


def _group_fields(group: Mapping[str, Any]) -> dict[str, Any]:
    parameters = list(group["params"])
    settings = {name: _numbers(group.get(name)) for name in _SETTINGS}
    return {
        "parameters": len(parameters),
        "elements": sum(one.numel() for one in parameters if not is_lazy(one)),
        **{name: value for name, value in settings.items() if value is not None},
    }


def _numbers(value: Any) -> Any:
    """A number or several, as JSON has them; None for something else, or on a device."""
    if isinstance(value, (tuple, list)):
        numbers = [_numbers(one) for one in value]
        return None if None in numbers else numbers
    if isinstance(value, Tensor) and value.device.type == "cpu" and value.numel() == 1:
        value = value.item()
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


# -- inputs ----------------------------------------------------------------------------------------


class Inputs(Detector):
    """The scale and offset of what a model gets, and of what its first weight layer gets.

    ``layer`` and ``after_norm`` are known after the first pass of a model that is not compiled.
    """

    def __init__(self) -> None:
        super().__init__()
        self.layer: str | None = None
        self.after_norm = False
        self._trained_at = self._evaluated_at = -1  # after so many steps
        self._evaluations = 0
        self._pass: tuple[str, int, tuple[int, int]] | None = None

    def on_forward(self, given: Any, *, is_training: bool, steps: int, upcoming: int) -> None:
        """Read the inputs of a pass after so many steps, if it is due."""
        self._pass = None
        if is_training:
            is_first, self._trained_at = self._trained_at != steps, steps
            if not is_first or not is_dense_step(steps + 1):
                return
        else:
            is_first, self._evaluated_at = self._evaluated_at != steps, steps
            self._evaluations += is_first
            if not is_first or not is_dense(self._evaluations):
                return
        mode, step = ("train", upcoming) if is_training else ("eval", max(0, upcoming - 1))
        tensor = next(iter(tensors_in(given)), None)
        if tensor is not None and not tensor.is_floating_point() and tensor.dtype != torch.uint8:
            return  # token ids
        self._pass = mode, step, (0, 0)
        if tensor is not None and tensor.is_floating_point():
            self._pass = mode, step, _place(tensor)
            self._take("model", mode, step, tensor)

    def on_layer(self, given: Any) -> None:
        """Read the inputs of the first weight layer, unless they are those of the model."""
        if self._pass is None or self.layer is None:
            return
        (mode, step, place), self._pass = self._pass, None
        tensor = next(iter(tensors_in(given)), None)
        if tensor is not None and tensor.is_floating_point() and _place(tensor) != place:
            self._take(self.layer, mode, step, tensor)

    def _take(self, where: str, mode: str, step: int, tensor: Tensor) -> None:
        tensor = local(tensor)
        if not tensor.numel() or not can_be_read(tensor):
            return
        rows = Rows(reduce_tensors([sampled(tensor)], bins=0))
        self._facts.append(
            Fact("inputs", {"mode": mode, "where": where}, step, rows, self._read_row)
        )

    def _read_row(self, rows: Rows) -> Mapping[str, Any] | None:
        (row,) = rows.read()
        if not row.count:
            return None
        scale = {"mean": row.mean, "std": row.std, "min": row.min, "max": row.max}
        return {**scale, "after_norm": self.after_norm}


def _place(tensor: Tensor) -> tuple[int, int]:
    """Where the values of a tensor are: a view that is only reshaped has the same place."""
    return (tensor.data_ptr() if can_be_read(tensor) else 0), tensor.numel()


# -- running statistics ----------------------------------------------------------------------------


def norms_with_statistics(model: nn.Module) -> list[tuple[str, _BatchNorm]]:
    """The BatchNorms of a model that keep statistics for evaluation, with their names."""
    return [
        (name, one)
        for name, one in named_modules(model)
        if isinstance(one, _BatchNorm) and one.track_running_stats
    ]


def running_norms(batchnorms: Sequence[tuple[str, _BatchNorm]]) -> dict[str, Tensor]:
    """The norm of mean and variance together, of each BatchNorm in training mode.

    Others are frozen on purpose. The norm stays equal only if the statistics do.
    """
    found = {}
    for name, one in batchnorms:
        mean, variance = one.running_mean, one.running_var
        if one.training and mean is not None and variance is not None and not is_lazy(mean):
            found[name] = torch.cat([local(mean), local(variance)]).double().norm()
    return found


# -- initial weights -------------------------------------------------------------------------------


# Elements of a matrix and of a bias: fewer fit by chance.
_LEAST_WEIGHT, _LEAST_BIAS = 200, 16


def frozen_fields(
    frozen: Sequence[str], shapes: Mapping[str, Sequence[int]], norms: Mapping[str, float]
) -> dict[str, Any]:
    """Count the frozen parameters, and those of them that are as initialised by their norms."""
    fits = {name: _is_initialised(name, shapes, norms[name]) for name in frozen}
    # A copy starts equal to what is trained: the target of a self-supervised or Q network.
    trained = {norm for name, norm in norms.items() if name not in fits and norm}
    is_copy = any(norms[name] in trained for name in frozen if len(shapes[name]) > 1)
    return {
        "parameter": frozen[0],
        "parameters": len(frozen),
        "of": len(norms),
        "initialised": 0 if is_copy else sum(fit is True for fit in fits.values()),
        "others": sum(fit is False for fit in fits.values()),
    }


def _is_initialised(name: str, shapes: Mapping[str, Sequence[int]], norm: float) -> bool | None:
    """Return True for the usual size of elements; None where there are too few of them."""
    shape = shapes[name]
    numel = max(1, math.prod(shape))
    square, is_vector = norm**2 / numel, len(shape) == 1
    if square == 0 or (is_vector and abs(square - 1) < 1e-5):
        return True  # zeros, or the ones of a normalisation
    weight = shapes.get(name.replace("bias", "weight"), shape) if is_vector else shape
    if len(weight) < 2 or numel < (_LEAST_BIAS if is_vector else _LEAST_WEIGHT):
        return None
    kernel = math.prod(weight[2:])
    inputs, outputs = weight[1] * kernel, weight[0] * kernel
    fans = (inputs, outputs, (inputs + outputs) / 2)  # torch, He and Glorot; RNNs; fixed numbers
    usual = [gain / fan for gain in (1 / 3, 1, 4 / 3, 2) for fan in fans] + [1.0, 0.02**2]
    room = 3 * math.sqrt(2 / numel)  # three standard errors of a mean square
    return any(abs(square / one - 1) < room for one in usual)


# More than this, or less, is worth an event. He and Glorot give 0.5 to 3 times torch's own.
_LARGE, _SMALL = 3.0, 0.1
_LEAST_MATRICES = 2


def weight_layers(model: nn.Module, parameters: Mapping[str, Tensor]) -> dict[str, nn.Module]:
    """The layer of each parameter that is of one whose initialisation is known."""
    names = {id(one): name for name, one in parameters.items()}
    return {
        names[id(one)]: module
        for module in model.modules()
        if isinstance(module, WEIGHT_LAYERS)
        for one in module.parameters(recurse=False)
        if id(one) in names
    }


def scale_fields(
    rows: Mapping[str, Reduced],
    shapes: Mapping[str, Sequence[int]],
    layers: Mapping[str, nn.Module],
) -> dict[str, Any] | None:
    """The median size of weights over the usual one, if it is far from 1.

    Tables of vectors and parameters of other modules start at any size up to 1. They count only
    where there are hardly any layers, and only if they are large.
    """
    sizes = {name: row.norm / math.sqrt(max(1, row.count)) for name, row in rows.items()}
    sizes = {name: size for name, size in sizes.items() if len(shapes[name]) > 1 and size > 0}
    scales = {n: s / _usual_size(layers[n], shapes[n]) for n, s in sizes.items() if n in layers}
    has_layers = len(scales) >= _LEAST_MATRICES
    scales = scales if has_layers else sizes
    middle = median(scales.values()) if len(scales) >= _LEAST_MATRICES else 1.0
    if not math.isfinite(middle) or not (middle > _LARGE or (middle < _SMALL and has_layers)):
        return None
    nearest = min(scales, key=lambda name: abs(scales[name] - middle))
    return {"parameter": nearest, "parameters": len(scales), "scale": middle}


def _usual_size(layer: nn.Module, shape: Sequence[int]) -> float:
    """The standard deviation of elements that torch draws for a layer."""
    if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        return 1 / math.sqrt(3 * layer.hidden_size)
    inputs = shape[1] if isinstance(layer, nn.Bilinear) else math.prod(shape[1:])
    return 1 / math.sqrt(3 * max(1, inputs))
