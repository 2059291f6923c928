"""Reads facts of a training with torch that only calls ``epochal.init`` and ``run.log``.

Three things of torch are changed until the run ends; the setting ``facts = false`` changes none:

- a hook before and one after the step of every optimizer (``register_optimizer_step_pre_hook``),
- ``__next__`` of the iterators of data loaders (see ``loaders``),
- a hook on the gradient of one parameter, which counts backward passes.

The models are found by one scan of Python's objects at the first step of an optimizer. What
``watch`` and ``watch_data`` record as well is left to them where the program calls them.
"""

from __future__ import annotations

import os
import threading
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.data.dataloader import _BaseDataLoaderIter
from torch.utils.hooks import unserializable_hook

from epochal.run.run import Run, recorder_of
from epochal.torch.facts.gradients import AbsentGradients, PassCount
from epochal.torch.facts.loaders import Loaders
from epochal.torch.facts.models import TrainedModels
from epochal.torch.facts.settings import TrainingModes, WeightDecay
from epochal.torch.guarded import guarded_hook, is_capturing
from epochal.torch.step_count import StepCount
from epochal.torch.watch_checks import Detector, Fact, KeptGradients, Optimizers, is_plain

# A program that steps an optimizer for each parameter would be slowed down.
_MOST_OPTIMIZERS = 8


class TrainingFacts:
    """The facts of one run; a process records them for one run at a time."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pid = os.getpid()
        self._count = StepCount(run)
        self._num_steps = 0
        self._ids: set[int] = set()  # of the optimizers
        self._models = TrainedModels()
        self._optimizers = Optimizers(self._models.parameters)
        self._passes = PassCount()
        self._absent = AbsentGradients(self._models.name_of)
        self._modes, self._decay = TrainingModes(), WeightDecay()
        self._kept: KeptGradients | None = None
        self._own = (self._passes, self._absent, self._modes, self._decay)
        self._hooks: dict[Detector, Any] = {}
        self._loaders = Loaders(run, lambda: self._num_steps + self._passes.total)
        self._is_watched = False
        self._facts: list[Fact] = []
        self._handles = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]

    @classmethod
    def start(cls, run: Run) -> None:
        """Start reading facts for a run, unless another run of the process has them."""
        if _BaseDataLoaderIter.__next__.__module__ == Loaders.__module__:
            return
        recorder = recorder_of(run)
        facts = recorder.torch_facts = cls(run)
        facts._loaders.start()
        recorder.ending.on_end.add(facts.stop)

    def leave_to_watch(self) -> None:
        """Write no more of what `watch` records too."""
        self._is_watched = True
        self._kept = None

    def stop(self) -> None:
        """Undo every change of torch, and write what is known."""
        for handle in [*self._handles, *self._hooks.values()]:
            handle.remove()
        self._hooks.clear()
        self._loaders.stop()
        self._count.end()
        self._settle()

    # -- steps ------------------------------------------------------------------------------------

    @guarded_hook("facts")
    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_ours(optimizer):
            return
        if self._count.begins_with(optimizer):
            self._num_steps += 1
            self._settle()
        if not self._is_watched:
            self._optimizers.before_step(optimizer, self._count.step)
        if self._num_steps == 1 and not self._is_watched:
            self._facts.append(Fact("model", self._models.fields()))

    @guarded_hook("facts")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if id(optimizer) not in self._ids or not self._is_ours(optimizer):
            return
        step = self._count.step
        self._absent.after_step(optimizer, step)
        self._decay.after_step(optimizer, step)
        self._modes.after_step(self._models.models(), step)
        if self._passes in self._hooks:
            self._passes.after_step(step)
        else:
            self._count_passes(optimizer)
        if self._is_watched:
            return
        self._optimizers.after_step(optimizer, step)
        self._check_reset(optimizer)

    def _is_ours(self, optimizer: torch.optim.Optimizer) -> bool:
        if is_capturing() or os.getpid() != self._pid or self._run.state == "finished":
            return False
        if id(optimizer) in self._ids:
            return True
        if len(self._ids) >= _MOST_OPTIMIZERS:
            return False
        self._ids.add(id(optimizer))
        self._loaders.thread = threading.get_ident()
        self._models.add_trained_by(optimizer)
        return True

    def _count_passes(self, optimizer: torch.optim.Optimizer) -> None:
        given = (one for group in optimizer.param_groups for one in group["params"])
        counted = next((one for one in given if is_plain(one) and one.grad is not None), None)
        if counted is not None:
            self._hooks[self._passes] = counted.register_post_accumulate_grad_hook(
                partial(self._on_gradient, self._passes)
            )

    def _check_reset(self, optimizer: torch.optim.Optimizer) -> None:
        if self._kept is None:
            if self._num_steps == 1:
                self._follow_gradient(optimizer)
        elif self._kept in self._hooks and self._kept.after_step(self._count.step):
            self._facts += self._kept.facts()
            self._hooks.pop(self._kept).remove()

    def _follow_gradient(self, optimizer: torch.optim.Optimizer) -> None:
        for parameter in (one for group in optimizer.param_groups for one in group["params"]):
            if is_plain(parameter) and parameter.grad is not None:
                name = self._models.name_of(parameter) or "of an optimizer"
                kept = self._kept = KeptGradients(name, parameter)
                self._hooks[kept] = parameter.register_hook(
                    unserializable_hook(partial(self._on_gradient, kept))  # type: ignore[no-untyped-call]
                )
                return

    @guarded_hook("facts")
    def _on_gradient(self, detector: PassCount | KeptGradients, gradient: Tensor) -> None:
        detector.on_gradient()

    # -- writing ----------------------------------------------------------------------------------

    @guarded_hook("facts")
    def _settle(self) -> None:
        """Write what was found out, once the number of the step is known."""
        for detector in (*self._own, self._optimizers):
            self._facts += detector.facts()
        if self._count.is_guess:
            return
        facts, self._facts = self._facts, []
        for fact in facts:
            if fact.step is not None:
                fact.step += self._count.shift
            if not fact.has_arrived():
                self._facts.append(fact)
            elif (fields := fact.complete()) is not None:
                self._run.event(fact.name, **fields)
