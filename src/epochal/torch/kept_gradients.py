"""Gradients of a watched model that are still there when those of the next step come.

The hook of a parameter runs before a new gradient is added, so ``grad`` is what the step before
left, unless it was reset. A sample of its values is compared on its device: a reset in place, also
one through ``.data``, is seen, and nothing waits for a GPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils.hooks import unserializable_hook

from epochal.torch.guarded import guarded_hook
from epochal.torch.measure import Rows

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
