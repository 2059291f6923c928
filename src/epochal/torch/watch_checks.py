"""What :func:`epochal.watch` checks besides norms and histograms.

- `EvaluationModes`: passes without gradients in training mode, where dropout or BatchNorm act.
- `MissingSteps`: backward passes that no optimizer step follows.
- `KeptGradients`: gradients that are not reset between steps.
- `RunningStats`: the running statistics of BatchNorm while a model trains.
- `BufferSync`: the time in which DistributedDataParallel exchanges buffers.
- `initialised` and `InitialScale`: weights that are as they were drawn, or of an unusual size.

Nothing here waits for a device. A compiled model does not run hooks on modules.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import median
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parameter import is_lazy
from torch.utils.hooks import unserializable_hook

from epochal.run.phases import Phase
from epochal.run.run import Run
from epochal.torch.guarded import ModuleHook, guarded_hook
from epochal.torch.measure import Rows, local
from epochal.torch.structure import plain_name

# -- evaluations in training mode ------------------------------------------------------------------


# More evaluations in training mode say nothing new.
_MOST_REPORTS = 4


class EvaluationModes:
    """Reports passes without gradients in training mode, when the next optimizer step begins.

    ``report`` gets the facts of the event ``evaluation-passes``. It is called if every pass since
    the last step was in training mode, and once more when one is not. A model without dropout and
    BatchNorm computes the same in both modes: it gets no hook.
    """

    def __init__(self, model: nn.Module, run: object, report: Callable[..., None]) -> None:
        self._run = run
        self._report = report
        modules = [(plain_name(name), module) for name, module in model.named_modules()]
        self._dropouts = [(name, one) for name, one in modules if drop_share(one) > 0]
        self._norms = [(name, one) for name, one in modules if isinstance(one, _BatchNorm)]
        self._passes = 0
        self._in_training = 0
        self._found: dict[str, Any] = {}
        self._num_reported = 0
        self._hook: Any = None
        if self._dropouts or self._norms:
            self._hook = model.register_forward_pre_hook(ModuleHook(model, self._count))

    def settle(self) -> None:
        """Report the passes since the last call."""
        if not self._passes:
            return
        is_training = self._in_training == self._passes
        if is_training and self._num_reported < _MOST_REPORTS:
            self._num_reported += 1
            self._report(passes=self._passes, **self._found)
        elif not is_training and self._num_reported:
            self._num_reported = 0
            self._report(passes=self._passes, dropouts=0, batchnorms=0)
        self._passes = self._in_training = 0

    def remove(self) -> None:
        """Take the hook out."""
        if self._hook is not None:
            self._hook.remove()

    @guarded_hook("watch")
    def _count(self) -> None:
        if torch.is_grad_enabled():
            return
        self._passes += 1
        dropouts = [(name, one) for name, one in self._dropouts if one.training]
        norms = [(name, one) for name, one in self._norms if one.training]
        if not dropouts and not norms:
            return
        self._in_training += 1
        name, module = (dropouts or norms)[0]
        self._found = {"dropouts": len(dropouts), "batchnorms": len(norms), "module": name}
        if dropouts:
            self._found["share"] = drop_share(module)


def drop_share(module: nn.Module) -> float:
    """The share that a module drops at random in training; 0 if it drops nothing."""
    if isinstance(module, _DropoutNd):
        return float(module.p)
    if isinstance(module, (nn.MultiheadAttention, nn.RNNBase)):
        return float(module.dropout)
    share = getattr(module, "drop_prob", None)  # stochastic depth, as several libraries name it
    return float(share) if isinstance(share, float) and 0 < share <= 1 else 0.0


# -- steps that are missing ------------------------------------------------------------------------


# More than anybody accumulates gradients over before the first step.
_PASSES = 200


class MissingSteps:
    """Counts gradients of one parameter until the first step of any optimizer.

    ``report`` gets the number of passes if there are many and no step was taken. The hook is gone
    after the first step, or after the report.
    """

    def __init__(
        self, parameters: dict[str, torch.Tensor], run: object, report: Callable[[int], None]
    ) -> None:
        self._run = run
        self._report = report
        self._passes = 0
        trained = (one for one in parameters.values() if one.requires_grad and one.is_leaf)
        first = next(trained, None)
        self._handle: Any = None
        if first is not None:
            self._handle = first.register_post_accumulate_grad_hook(self._count)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Count no more: a step was taken, or nobody watches any longer."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None

    @guarded_hook("watch")
    def _count(self, parameter: torch.Tensor) -> None:
        self._passes += 1
        if self._passes == _PASSES:
            self.end()
            self._report(self._passes)


# -- gradients that are kept -----------------------------------------------------------------------


_STEPS = 5  # in a row that begin with old gradients
_RESETS = 3  # in a row after which it is clear that gradients are reset
_LOOKS = 3  # at so many steps each, before a parameter says nothing: its gradient may be zero
_MOST_STEPS = 40
_SAMPLE = 256
# Others would wait for a value that is read.
_DEVICES = ("cpu", "cuda")


class KeptGradients:
    """Looks at a few parameters in the first steps, until it is clear whether they are reset.

    ``report`` gets a parameter's name and the number of steps in a row that began with its old
    gradient. The hooks are gone after the report, or after a few resets.
    """

    def __init__(
        self, parameters: dict[str, torch.Tensor], run: object, report: Callable[[str, int], None]
    ) -> None:
        self._run = run
        self._report = report
        fit = [(name, one) for name, one in parameters.items() if _is_fit(one)]
        # Of models with several optimizers, the first and the last are often in different ones.
        chosen = {0, len(fit) // 2, len(fit) - 1} if fit else set()
        self._looks = [_Look(*fit[n], run) for n in sorted(chosen)]

    def end(self) -> None:
        """Look no more: it is known, or nobody watches any longer."""
        for look in self._looks:
            look.end()
        self._looks = []

    @guarded_hook("watch")
    def after_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Count a step for the parameters that it is of."""
        if not self._looks:
            return
        theirs = {id(one) for group in optimizer.param_groups for one in group["params"]}
        for look in self._looks:
            if look.of not in theirs:
                continue
            look.after_step()
            if look.is_kept:
                self.end()
                self._report(look.name, _STEPS)
                return
        self._looks = [look for look in self._looks if look.is_on]


class _Look:
    """What is known of one parameter since the step before, and of the steps in a row."""

    def __init__(self, name: str, parameter: torch.Tensor, run: object) -> None:
        self.name = name
        self.of = id(parameter)
        self.is_kept = False
        self._run = run
        self._parameter = weakref.ref(parameter)
        self._handles: list[Any] = [
            parameter.register_hook(self._before_pass),  # type: ignore[no-untyped-call]
            parameter.register_post_accumulate_grad_hook(self._after_pass),  # type: ignore[no-untyped-call]
        ]
        self._num_steps = 0
        self._num_resets = 0
        self._num_looks = 0
        self._left: torch.Tensor | None = None  # a sample of what the step before left
        self._address = 0  # of the gradient after the last pass
        self._seen: torch.Tensor | None = None  # at a pass, of which it is not known if it adds
        self._passes: list[torch.Tensor | None] = []
        self._row: list[torch.Tensor] = []  # of each pass of the steps in a row
        self._kept_steps = 0
        self._answer: Rows | None = None

    @property
    def is_on(self) -> bool:
        """Whether it still looks."""
        return bool(self._handles)

    def end(self) -> None:
        """Take the hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._left = self._seen = None
        self._passes, self._row = [], []

    @unserializable_hook  # type: ignore[untyped-decorator]
    @guarded_hook("watch")
    def _before_pass(self, gradient: torch.Tensor) -> None:
        parameter = self._parameter()
        if parameter is None or not self._num_steps or not self.is_on:
            return
        self._seen = _still_there(parameter.grad, self._left, is_first=not self._passes)

    @guarded_hook("watch")
    def _after_pass(self, parameter: torch.Tensor) -> None:
        # torch.autograd.grad() calls only the hook above: a loop that sets gradients resets none.
        if self.is_on and self._num_steps:
            self._passes.append(self._seen)
            self._seen = None
            self._address = _address(parameter.grad)

    def after_step(self) -> None:
        """Judge the passes since the step before."""
        parameter = self._parameter()
        if parameter is None or self._num_steps == _MOST_STEPS:
            self.end()
            return
        gradient = parameter.grad
        if self._answer is not None:
            self._read_answer()
        elif self._passes:
            self._judge(gradient)
        if self.is_on:
            self._num_steps += 1
            self._passes = []
            self._left = None if gradient is None else _sampled(gradient)

    def _judge(self, gradient: torch.Tensor | None) -> None:
        seen = [one for one in self._passes if one is not None]
        if len(seen) < len(self._passes):
            self._num_resets += 1
            self._begin_row()
            if self._num_resets == _RESETS:
                self.end()
        elif _address(gradient) != self._address:
            self._begin_row()  # another one took its place: nothing old need be in it
        else:
            self._num_resets = 0
            if self._row and self._row[0].device != seen[0].device:
                self._begin_row()  # the model was moved
            self._row += seen
            self._kept_steps += 1
            if self._kept_steps == _STEPS:
                self._answer = Rows(torch.stack(self._row).all().double().reshape(1, 1))
                self._read_answer()

    def _begin_row(self) -> None:
        self._row, self._kept_steps = [], 0

    def _read_answer(self) -> None:
        if self._answer is None or not self._answer.have_arrived():
            return
        self.is_kept = bool(self._answer.read_column()[0])
        self._answer = None
        self._num_looks += 1
        self._begin_row()
        if self._num_looks == _LOOKS and not self.is_kept:
            self.end()


def _is_fit(parameter: torch.Tensor) -> bool:
    """Whether a parameter is trained, and whole: what is sharded is reset in ways of its own."""
    is_plain = type(parameter) is torch.nn.Parameter and not is_lazy(parameter)
    return is_plain and parameter.requires_grad and parameter.is_leaf and parameter.numel() > 0


def _address(gradient: torch.Tensor | None) -> int:
    """Where the values are; 0 for a sparse gradient or none."""
    if gradient is None or gradient.layout is not torch.strided:
        return 0
    return gradient.data_ptr()


def _still_there(
    gradient: torch.Tensor | None, left: torch.Tensor | None, *, is_first: bool
) -> torch.Tensor | None:
    """Whether a gradient is what the step before left; in later passes, whether it is not zero.

    The answer stays on the device. None if there is no gradient, or nothing to compare it with.
    """
    if gradient is None or left is None:
        return None
    sample = _sampled(gradient)
    if sample is None or sample.shape != left.shape or sample.device != left.device:
        return None
    is_something = (sample != 0).any()
    return is_something & (sample == left).all() if is_first else is_something


def _sampled(gradient: torch.Tensor) -> torch.Tensor | None:
    """A copy of some values; None where they cannot be had, as while a CUDA graph is recorded."""
    if gradient.layout is not torch.strided or gradient.device.type not in _DEVICES:
        return None
    if gradient.is_cuda and torch.cuda.is_current_stream_capturing():
        return None
    flat = gradient.detach().reshape(-1)
    # A stride that is odd does not fall into step with rows of a power of two.
    return flat[:: flat.numel() // _SAMPLE | 1].clone()


# -- running statistics ----------------------------------------------------------------------------


class RunningStats:
    """The BatchNorms of a model that keep statistics for evaluation."""

    def __init__(self, model: nn.Module) -> None:
        self._norms = [
            (plain_name(name), one)
            for name, one in model.named_modules()
            if isinstance(one, _BatchNorm) and one.track_running_stats
        ]

    def norms(self) -> tuple[tuple[str, ...], Tensor | None]:
        """Names and norms, one row each, of those in training mode; None without any.

        Others are frozen on purpose. The norm is of mean and variance together, in the precision
        of the statistics: it stays equal only if they do.
        """
        active = [(name, one) for name, one in self._norms if one.training and _is_ready(one)]
        if not active:
            return (), None
        with torch.no_grad():
            pairs = [local(one) for _, norm in active for one in _statistics(norm)]
            device = pairs[0].device
            each = [norm.to(device, torch.float64) for norm in torch._foreach_norm(pairs)]
            rows = torch.stack(each).view(-1, 2).square().sum(1, keepdim=True).sqrt()
        return tuple(name for name, _ in active), rows


def _is_ready(norm: _BatchNorm) -> bool:
    """Whether it has its statistics: a lazy one gets them in its first pass."""
    known = (norm.running_mean, norm.running_var)
    return all(isinstance(one, Tensor) and not nn.parameter.is_lazy(one) for one in known)


def _statistics(norm: _BatchNorm) -> tuple[Tensor, Tensor]:
    assert norm.running_mean is not None
    assert norm.running_var is not None
    return norm.running_mean, norm.running_var


# -- exchanged buffers -----------------------------------------------------------------------------


class BufferSync:
    """Times from the beginning of a wrapper's pass to that of the model inside it.

    Whoever watches the model without its wrapper is served too: the first pass tells which wrapper
    it is.
    """

    def __init__(self, model: nn.Module, run: Run) -> None:
        self._run = run
        self._phase: Phase | None = None
        self._is_open = False
        self._handles: list[Any] = []
        inner = model.module if isinstance(model, DistributedDataParallel) else model
        self._inner = weakref.ref(inner)
        self._wrapper: weakref.ref[DistributedDataParallel] | None = None
        is_distributed = dist.is_available() and dist.is_initialized()
        if not is_distributed or next(inner.buffers(), None) is None:
            return
        self._handles.append(inner.register_forward_pre_hook(ModuleHook(inner, self._end)))
        if isinstance(model, DistributedDataParallel):
            self._follow(model)

    def remove(self) -> None:
        """Take the hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _follow(self, wrapper: DistributedDataParallel) -> None:
        self._wrapper = weakref.ref(wrapper)
        self._handles.append(wrapper.register_forward_pre_hook(ModuleHook(wrapper, self._begin)))

    @guarded_hook("watch")
    def _begin(self) -> None:
        if self._is_open:  # the model inside is compiled, and runs no hook
            self._leave()
            self.remove()
            return
        wrapper = self._wrapper() if self._wrapper is not None else None
        if wrapper is None or not wrapper.will_sync_module_buffers():  # type: ignore[no-untyped-call]
            return
        if self._phase is None:
            self._phase = self._run.phase("sync")
        if self._phase.is_inside_another():
            self._phase.__enter__()
            self._is_open = True

    @guarded_hook("watch")
    def _end(self) -> None:
        if self._is_open:
            self._leave()
        elif self._wrapper is None:
            active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
            if isinstance(active, DistributedDataParallel) and active.module is self._inner():
                self._follow(active)

    def _leave(self) -> None:
        self._is_open = False
        if self._phase is not None:
            self._phase.__exit__(None, None, None)


# -- weights as they were drawn --------------------------------------------------------------------


# Three standard errors of a mean square, times the root of the number of values: uniform, normal.
_UNIFORM, _NORMAL = 3 * 0.894, 3 * 1.414
_ROUNDING = 1e-5
# Fewer elements fit almost any of the scales: of matrices, and of biases.
_LEAST_WEIGHT, _LEAST_BIAS = 200, 16
# Deviations that people write down.
_DEVIATIONS = (1.0, 0.1, 0.05, 0.02, 0.01)


def initialised(
    shapes: Mapping[str, Sequence[int]], norms: Mapping[str, float]
) -> tuple[list[str], list[str]]:
    """Tensors whose norm is that of an initialisation, and those whose norm is not.

    Small ones that are neither zeros nor ones are in neither list.
    """
    fitting: list[str] = []
    others: list[str] = []
    for name, shape in shapes.items():
        numel = math.prod(shape)
        square = norms[name] ** 2 / numel if numel else 0.0
        if square == 0 or (len(shape) == 1 and abs(square - 1) < _ROUNDING):
            fitting.append(name)  # zeros, or the ones of a normalisation
            continue
        head, dot, last = name.rpartition(".")
        weight = shapes.get(f"{head}{dot}{last.replace('bias', 'weight')}", ())
        if len(shape) > 1 and numel >= _LEAST_WEIGHT:
            fits = _fits(square, numel, _scales(shape), _NORMAL)
            fits = fits or _fits(square, numel, _drawn_by_torch(shape), _UNIFORM)
        elif len(shape) == 1 and len(weight) > 1 and numel >= _LEAST_BIAS:
            fits = _fits(square, numel, _drawn_by_torch(weight), _UNIFORM)
        else:
            continue
        (fitting if fits else others).append(name)
    return fitting, others


def _drawn_by_torch(shape: Sequence[int]) -> Iterable[float]:
    """Mean squares of weights with this shape, and of their biases: of layers, and of recurrent."""
    yield 1 / (3 * math.prod(shape[1:]))
    for gates in (1, 3, 4):
        yield gates / (3 * shape[0])


def _scales(shape: Sequence[int]) -> Iterable[float]:
    """Mean squares of weights by the other usual ways to draw them."""
    kernel = math.prod(shape[2:])
    inputs, outputs = shape[1] * kernel, shape[0] * kernel
    for gain, fan in product((1 / 3, 1.0, 2.0), (inputs, outputs, (inputs + outputs) / 2)):
        yield gain / fan
    for deviation in _DEVIATIONS:
        yield deviation**2


def _fits(square: float, numel: int, scales: Iterable[float], errors: float) -> bool:
    room = errors / math.sqrt(numel)
    return any(abs(square / scale - 1) < room for scale in scales)


# -- the scale of weights --------------------------------------------------------------------------


# More than this, or less, is worth an event. He and Glorot give 0.5 to 3 times torch's own.
_LARGE, _SMALL = 3.0, 0.1
_LEAST_MATRICES = 2


@dataclass(frozen=True, slots=True)
class Scale:
    """The median of several weights, over the scale that they have by default."""

    value: float
    parameter: str  # one with the median scale
    parameters: int


class InitialScale:
    """The weight matrices of a model with the usual size of their elements.

    Tables of vectors and parameters of other modules start at any size up to 1. They count only
    where there are hardly any layers, and only if they are large.
    """

    def __init__(self, model: nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
        names = {id(one): name for name, one in parameters.items()}
        self._layers: dict[str, nn.Module] = {}
        for module in model.modules():
            for one in module.parameters(recurse=False):
                if id(one) in names and isinstance(module, _KNOWN):
                    self._layers[names[id(one)]] = module

    def unusual(self, sizes: Mapping[str, float], shapes: Mapping[str, torch.Size]) -> Scale | None:
        """The median scale, if it is far from 1; ``sizes`` are root mean squares of elements."""
        drawn = {name: size for name, size in sizes.items() if len(shapes[name]) > 1 and size > 0}
        layers = {
            name: size / _usual(self._layers[name], shapes[name])
            for name, size in drawn.items()
            if name in self._layers
        }
        scales = layers if len(layers) >= _LEAST_MATRICES else drawn
        if len(scales) < _LEAST_MATRICES:
            return None
        middle = median(scales.values())
        is_small = middle < _SMALL and scales is layers
        if not math.isfinite(middle) or not (middle > _LARGE or is_small):
            return None
        nearest = min(scales, key=lambda name: abs(scales[name] - middle))
        return Scale(middle, nearest, len(scales))


_KNOWN = (nn.Linear, _ConvNd, nn.Bilinear, nn.RNNBase, nn.RNNCellBase, nn.MultiheadAttention)


def _usual(layer: nn.Module, shape: torch.Size) -> float:
    """The standard deviation of elements that torch draws for a layer."""
    if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        return 1 / math.sqrt(3 * layer.hidden_size)
    inputs = shape[1] if isinstance(layer, nn.Bilinear) else math.prod(shape[1:])
    return 1 / math.sqrt(3 * max(1, inputs))
