"""Watches a model in training: its parameters and gradients, its optimizers and its inputs.

Two hooks on the step of every optimizer and one on the model's forward pass feed what is measured
here and the detectors in `watch_checks`. Before an optimizer step the gradients are complete
(accumulated, unscaled, clipped as the loop does it), after it the update can be seen. The first
steps are measured often, later ones at an interval; between measured steps a hook costs a few
comparisons. Nothing is drawn at random, nothing waits for a device. Numbers are written when the
next step begins: by then the loop has logged which step it was.

Of every parameter ``p``: ``params/p/norm``, ``grads/p/norm``, ``grads/p/zeros`` (share of exact
zeros), ``grads/p/dead`` (share of rows that are zero, of a weight), and ``update_ratio/p`` (norm of
the update over norm of the weights). At the interval also the histograms ``Parameters/p`` and
``Gradients/p``. Of every BatchNorm ``b`` in training mode: ``running_stats/b/norm``. A parameter
that is frozen (``requires_grad`` is False) and stays as it is has neither gradient nor ratio.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.hooks import unserializable_hook

from epochal.journal.line import now
from epochal.records import Record
from epochal.run.current import given_or_current
from epochal.run.phases import Phase
from epochal.run.run import Run, recorder_of
from epochal.torch.checks import check_module, check_whole
from epochal.torch.guarded import ModuleHook, guarded_hook, is_capturing
from epochal.torch.measure import Reduced, Rows, local, reduce_tensors
from epochal.torch.step_count import StepCount, owns
from epochal.torch.structure import named_modules, named_parameters, tensors_in
from epochal.torch.watch_checks import (
    WEIGHT_LAYERS,
    Detector,
    EvaluationModes,
    Fact,
    Inputs,
    KeptGradients,
    MissingSteps,
    Optimizers,
    frozen_fields,
    is_dense_step,
    is_norm,
    is_plain,
    norms_with_statistics,
    running_norms,
    scale_fields,
    weight_layers,
)

BINS = 64
_HISTOGRAM_FIELDS = ("counts", "min", "max", "mean", "std", "count")
# Of so many optimizers it is checked whether their gradients are reset.
_CHECKED_OPTIMIZERS = 3


@dataclass(slots=True)
class _Taken:
    """Numbers of one step on their way: rows by what they are of, each with its names."""

    step: int
    is_dense: bool
    at: float
    frozen: frozenset[str]
    # Several optimizers of one step come one after the other; of a name, the last is true.
    rows: list[tuple[str, tuple[str, ...], Rows]] = field(default_factory=list)

    def has_arrived(self) -> bool:
        return all(rows.have_arrived() for _, _, rows in self.rows)

    def reduced(self, what: str) -> dict[str, Reduced]:
        found = [zip(names, rows.read(), strict=True) for k, names, rows in self.rows if k == what]
        return dict(chain(*found))

    def numbers(self, what: str) -> dict[str, float]:
        return {name: row.norm for name, row in self.reduced(what).items()}


class Watch:
    """What :func:`watch` gives back; ``remove`` takes every hook out again."""

    def __init__(
        self,
        model: nn.Module,
        run: Run,
        *,
        every: int,
        histograms: bool,
        gradients: bool,
        updates: bool,
        step: int | None = None,
        preflight: bool = False,
    ) -> None:
        self._run = run
        self._every = every
        self._bins = BINS if histograms else 0
        self._wants_gradients = gradients
        self._wants_updates = updates
        self._parameters = dict(named_parameters(model))
        self._ids = {id(parameter) for parameter in self._parameters.values()}
        self._layers = weight_layers(model, self._parameters)
        self._tables = {
            id(one.weight)
            for one in model.modules()
            if isinstance(one, (nn.Embedding, nn.EmbeddingBag))
        }
        self._batchnorms = norms_with_statistics(model)
        self._tells_first = True
        self._count = StepCount(run, step)
        self._num_steps = 0
        self._before: dict[str, Tensor] = {}
        self._taking: _Taken | None = None
        self._held: list[_Taken | Fact] = []
        self._pending: list[_Taken | Fact] = []
        self._modes = EvaluationModes(model)
        self._optimizers = Optimizers(self._parameters)
        self._inputs = Inputs()
        self._last_layer: tuple[str, int] | None = None
        self._kept: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._gradient_hooks: dict[Detector, Any] = {}
        self._first_pass: dict[str, Any] | None = None  # hooks that are on during it
        self._handles: list[Any] = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
            model.register_forward_pre_hook(ModuleHook(model, self._on_forward), with_kwargs=True),
        ]
        if preflight:
            from epochal.torch.preflight.first_batch import FirstBatch

            self._handles.append(FirstBatch(model, run))
        self._missing = MissingSteps()
        trained = [one for one in self._parameters.values() if one.requires_grad and one.is_leaf]
        if trained:
            # Not called by torch.autograd.grad(), after which loops update by hand.
            self._gradient_hooks[self._missing] = trained[0].register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                partial(self._on_gradient, self._missing)
            )
        self._sync: Phase | None = None  # of the exchange of buffers
        self._is_syncing = False
        if isinstance(model, DistributedDataParallel):
            self._time_sync(model)
        if (facts := recorder_of(run).torch_facts) is not None:
            facts.leave_to_watch()
        run.on_finish(self.remove)

    def remove(self) -> None:
        """Write what is still on its way, and take the hooks out."""
        for detector in list(self._gradient_hooks):
            self._end_gradient_hook(detector)
        for handle in [*self._handles, *(self._first_pass or {}).values()]:
            handle.remove()
        self._handles.clear()
        self._first_pass = {}
        self._before = {}
        self._write_rest()

    @guarded_hook("watch")
    def _write_rest(self) -> None:
        self._count.end()
        self._settle()
        self._write_arrived(wait=True)

    # -- steps ------------------------------------------------------------------------------------

    @guarded_hook("watch")
    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if is_capturing():
            return
        self._end_gradient_hook(self._missing)  # an optimizer of copies, as of shards, counts too
        is_ours = owns(optimizer, self._ids)
        if is_ours and self._count.begins_with(optimizer):
            self._num_steps += 1
            self._settle()
            self._begin_step(self._count.step)
        elif is_ours and self._taking is not None:
            theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
            own = {n: p for n, p in self._parameters.items() if p.numel() and id(p) in theirs}
            self._take_gradients(self._taking, own)
        elif not self._num_steps:
            self._settle()
        self._optimizers.before_step(optimizer, self._count.step)

    def _begin_step(self, step: int) -> None:
        if self._num_steps == 1:
            self._held.append(self._model_fact())
        if not is_dense_step(self._num_steps) and step % self._every:
            return
        frozen = {n for n, p in self._parameters.items() if not p.requires_grad}
        self._taking = _Taken(step, is_dense_step(self._num_steps), now(), frozenset(frozen))
        parameters = {n: p for n, p in self._parameters.items() if p.numel()}
        self._take(self._taking, "params", parameters)
        self._take_gradients(self._taking, parameters)
        with torch.no_grad():
            self._take_numbers(self._taking, "running_stats", running_norms(self._batchnorms))

    @guarded_hook("watch")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if is_capturing():
            return
        self._optimizers.after_step(optimizer, self._count.step)
        if not owns(optimizer, self._ids):
            return
        if self._taking is not None and self._before:
            self._take_updates(self._taking)
        self._check_reset(optimizer)

    def _check_reset(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer not in self._kept and len(self._kept) < _CHECKED_OPTIMIZERS:
            self._kept[optimizer] = None
            for name, parameter in self._parameters.items():
                if is_plain(parameter) and owns(optimizer, {id(parameter)}):
                    new = self._kept[optimizer] = KeptGradients(name, parameter)
                    self._gradient_hooks[new] = parameter.register_hook(  # type: ignore[no-untyped-call]
                        unserializable_hook(partial(self._on_gradient, new))  # type: ignore[no-untyped-call]
                    )
                    break
        kept = self._kept.get(optimizer)
        if kept is not None and kept.after_step(self._count.step):
            self._kept[optimizer] = None
            self._end_gradient_hook(kept)
            self._held += kept.facts()

    def _settle(self) -> None:
        """Have the numbers of the step that has ended written under its number, if that is due."""
        if self._taking is not None:
            self._held.append(self._taking)
            self._taking = None
        for detector in (self._modes, self._inputs, self._optimizers):
            self._held += detector.facts()
        if self._count.is_guess:
            return
        held, self._held = self._held, []
        for item in held:
            if item.step is not None:
                item.step += self._count.shift
            if isinstance(item, Fact) or item.is_dense or item.step % self._every == 0:
                self._pending.append(item)
        if self._pending:
            self._write_arrived(wait=False)

    # -- gradients --------------------------------------------------------------------------------

    @guarded_hook("watch")
    def _on_gradient(self, detector: MissingSteps | KeptGradients, gradient: Tensor) -> None:
        if is_capturing():
            return
        detector.on_gradient()
        if detector is self._missing and self._missing.is_over:
            self._end_gradient_hook(detector)
            self._pending += detector.facts()
            self._write_arrived(wait=False)

    def _end_gradient_hook(self, detector: Detector) -> None:
        handle = self._gradient_hooks.pop(detector, None)
        if handle is not None:
            handle.remove()

    # -- forward passes ---------------------------------------------------------------------------

    @guarded_hook("watch")
    def _on_forward(self, model: nn.Module, args: Any, kwargs: Any) -> None:
        if is_capturing():
            return
        self._modes.on_forward()
        self._inputs.on_forward(
            [args, kwargs],
            is_training=torch.is_grad_enabled() and model.training,
            steps=self._num_steps,
            upcoming=self._count.upcoming,
        )
        if self._first_pass is None:
            self._first_pass = {}
            active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
            if isinstance(active, DistributedDataParallel) and active.module is model:
                self._time_sync(active)
            if not _is_compiled(model):
                self._follow_first_pass(model, self._first_pass)

    def _follow_first_pass(self, model: nn.Module, hooks: dict[str, Any]) -> None:
        """Find out which layers come first and last."""
        for name, module in named_modules(model):
            if isinstance(module, WEIGHT_LAYERS) or is_norm(module):
                hooks[name] = module.register_forward_pre_hook(
                    ModuleHook(module, partial(self._on_layer, name)), with_kwargs=True
                )
        hooks[""] = model.register_forward_hook(ModuleHook(model, self._end_first_pass))

    @guarded_hook("watch")
    def _on_layer(self, name: str, layer: nn.Module, args: Any, kwargs: Any) -> None:
        if self._first_pass:
            if not isinstance(layer, WEIGHT_LAYERS):
                self._inputs.after_norm |= self._inputs.layer is None
                return
            self._inputs.layer = self._inputs.layer or name
            if isinstance(layer, nn.Linear):
                self._last_layer = name, layer.out_features
            elif isinstance(layer, _ConvNd):
                self._last_layer = name, layer.out_channels
        if name == self._inputs.layer:
            self._inputs.on_layer([args, kwargs])

    @guarded_hook("watch")
    def _end_first_pass(self, model: nn.Module, args: Any, output: Any) -> None:
        hooks, self._first_pass = self._first_pass or {}, {}
        first = hooks.pop(self._inputs.layer, None) if self._inputs.layer else None
        if first is not None:
            self._handles.append(first)  # the only one that stays
        for handle in hooks.values():
            handle.remove()
        sizes = {size for one in tensors_in(output) for size in one.shape}
        if sizes and self._last_layer is not None and self._last_layer[1] not in {1, *sizes}:
            self._last_layer = None  # another function made the output

    def _model_fact(self) -> Fact:
        parameters = [one for one in self._parameters.values() if not nn.parameter.is_lazy(one)]
        fields: dict[str, Any] = {
            "parameters": len(parameters),
            "trainable": sum(one.requires_grad for one in parameters),
            "elements": sum(one.numel() for one in parameters),
        }
        if self._last_layer is not None:
            fields["last_layer"], fields["outputs"] = self._last_layer
        return Fact("model", fields)

    # -- exchanged buffers ------------------------------------------------------------------------

    def _time_sync(self, wrapper: DistributedDataParallel) -> None:
        """Time the exchange of buffers, from a wrapper's pass to the model's: phase ``sync``."""
        if next(wrapper.module.buffers(), None) is not None:
            inner, self._sync = wrapper.module, self._run.phase("sync")
            self._handles += [
                wrapper.register_forward_pre_hook(ModuleHook(wrapper, self._begin_sync)),
                inner.register_forward_pre_hook(ModuleHook(inner, self._end_sync)),
            ]

    @guarded_hook("watch")
    def _begin_sync(self, wrapper: Any, inputs: Any) -> None:
        if self._is_syncing:  # the model inside is compiled, and runs no hook
            self._end_sync(None, None)
            self._sync = None
        if self._sync and wrapper.will_sync_module_buffers() and self._sync.is_inside_another():
            self._is_syncing = True
            self._sync.__enter__()

    @guarded_hook("watch")
    def _end_sync(self, inner: Any, inputs: Any) -> None:
        if self._is_syncing and self._sync is not None:
            self._is_syncing = False
            self._sync.__exit__(None, None, None)

    # -- measuring --------------------------------------------------------------------------------

    def _take_gradients(self, taken: _Taken, parameters: dict[str, Tensor]) -> None:
        # What is frozen may still hold the gradient of the last step in which it was not.
        trained = {n: p for n, p in parameters.items() if p.requires_grad}
        found = {n: p.grad for n, p in trained.items() if p.grad is not None}
        gradients = {n: g.coalesce().values() if g.is_sparse else g for n, g in found.items()}
        if self._wants_gradients and gradients:
            self._take(taken, "grads", gradients)
            rows = {n: one for n, one in gradients.items() if id(parameters[n]) not in self._tables}
            self._take_numbers(taken, "dead", _dead_rows(rows))
        if self._wants_updates:
            self._before = {n: local(p).clone() for n, p in parameters.items()}

    def _take_updates(self, taken: _Taken) -> None:
        before, self._before = self._before, {}
        with torch.no_grad():
            present = [local(self._parameters[name]) for name in before]
            change = torch._foreach_sub(present, list(before.values()))
            norms = torch._foreach_norm(change)
            self._take_numbers(taken, "updates", dict(zip(before, norms, strict=True)))

    def _take(self, taken: _Taken, what: str, tensors: dict[str, Tensor]) -> None:
        # A step whose number is a guess may turn out to be at the interval.
        has_histograms = self._count.is_guess or taken.step % self._every == 0
        packed = reduce_tensors(list(tensors.values()), bins=self._bins if has_histograms else 0)
        taken.rows.append((what, tuple(tensors), Rows(packed)))

    @staticmethod
    def _take_numbers(taken: _Taken, what: str, numbers: Mapping[str, Tensor]) -> None:
        if not numbers:
            return
        device = next(iter(numbers.values())).device
        column = [one.to(device, torch.float64, non_blocking=True) for one in numbers.values()]
        taken.rows.append((what, tuple(numbers), Rows(torch.stack(column).unsqueeze(1))))

    # -- writing ----------------------------------------------------------------------------------

    def _write_arrived(self, *, wait: bool) -> None:
        while self._pending and (wait or self._pending[0].has_arrived()):
            item = self._pending.pop(0)
            if isinstance(item, _Taken):
                self._write(item)
            else:
                fields = item.complete()
                if fields is not None:
                    self._run.event(item.name, **fields)

    def _write(self, taken: _Taken) -> None:
        metrics: dict[str, float] = {}
        params, grads = taken.reduced("params"), taken.reduced("grads")
        for name, row in params.items():
            metrics[f"params/{name}/norm"] = row.norm
        for name, row in grads.items():
            metrics[f"grads/{name}/norm"] = row.norm
            metrics[f"grads/{name}/zeros"] = row.zeros
        for name, share in taken.numbers("dead").items():
            metrics[f"grads/{name}/dead"] = share
        for name, norm in taken.numbers("running_stats").items():
            metrics[f"running_stats/{name}/norm"] = norm
        for name, change in taken.numbers("updates").items():
            if params[name].norm > 0 and (change != 0 or name not in taken.frozen):
                metrics[f"update_ratio/{name}"] = change / params[name].norm
        # Hundreds of names: for the page, not for the terminal or the closing line.
        self._run.write(
            {"log": "metrics", "t": taken.at, "step": taken.step, "m": metrics}, silent=True
        )
        if self._bins and taken.step % self._every == 0:
            self._write_histograms(taken, "Parameters", params)
            self._write_histograms(taken, "Gradients", grads)
        self._tell_nonfinite(taken, grads)
        if self._tells_first:
            self._tells_first = False
            self._tell_initial(taken, params)

    def _write_histograms(self, taken: _Taken, prefix: str, rows: dict[str, Reduced]) -> None:
        for name, row in rows.items():
            if row.count == 0:
                continue
            record: Record = {"log": "histogram", "t": taken.at, "step": taken.step}
            record |= {"name": f"{prefix}/{name}", "lo": row.min, "hi": row.max}
            record |= {one: getattr(row, one) for one in _HISTOGRAM_FIELDS}
            if row.nonfinite:
                record["nonfinite_count"] = row.nonfinite
            self._run.write(record)

    def _tell_nonfinite(self, taken: _Taken, grads: dict[str, Reduced]) -> None:
        # A sample may miss the value that is not finite; the norm, which is of everything, cannot.
        bad = [n for n, row in grads.items() if row.nonfinite or not math.isfinite(row.norm)]
        if bad:
            fields = {"at_step": taken.step, "parameter": bad[0], "parameters": len(bad)}
            self._run.event("nonfinite-gradient", **fields)

    def _tell_initial(self, taken: _Taken, params: dict[str, Reduced]) -> None:
        """Record frozen parameters, and weights that start at an unusual scale."""
        shapes = {name: tuple(self._parameters[name].shape) for name in params}
        frozen = [name for name in params if name in taken.frozen]
        if frozen:
            norms = {name: row.norm for name, row in params.items()}
            fields = frozen_fields(frozen, shapes, norms)
            self._run.event("frozen-parameters", at_step=taken.step, **fields)
        trained = {name: row for name, row in params.items() if name not in taken.frozen}
        scale = scale_fields(trained, shapes, self._layers)
        if scale is not None:
            self._run.event("initial-scale", at_step=taken.step, **scale)


def watch(
    model: nn.Module,
    run: Run | None = None,
    *,
    every: int = 1000,
    histograms: bool = True,
    gradients: bool = True,
    updates: bool = True,
    step: int | None = None,
    preflight: bool = False,
) -> Watch:
    """Record parameters, gradients and inputs: often at first, then every ``every`` steps.

    Measured are the optimizer steps 1, 2, 5, 10, 20, 50, 100, 200 and 500, and those at the
    interval. The watch ends with the run, or with ``remove()``.

    Args:
        model: The model that is trained.
        run: The run that records it, by default the current one.
        every: The interval of later measurements, in optimizer steps.
        histograms: Record histograms of parameters and gradients.
        gradients: Record the norms of gradients.
        updates: Record how far each step moves the weights, which keeps a copy of them during a
            measured step.
        step: The number of the next step, by default the run's last + 1.
        preflight: Ask the questions of `preflight` at the first training pass, with its batch. Of
            a model that does not return its loss, those that need no loss are asked.

    Returns:
        The watch, whose ``remove()`` ends it.
    """
    check_module(model)
    check_whole(every, name="every", least=1)
    return Watch(
        model,
        given_or_current(run, "watch()"),
        every=every,
        histograms=histograms,
        gradients=gradients,
        updates=updates,
        step=step,
        preflight=preflight,
    )


def _is_compiled(model: nn.Module) -> bool:
    """Whether a part of a model is compiled: hooks that come and go would compile it again."""
    return any(
        hasattr(one, "_orig_mod") or getattr(one, "_compiled_call_impl", None) is not None
        for one in model.modules()
    )


@torch.no_grad()
def _dead_rows(gradients: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The share of rows whose gradient is exactly zero, of each matrix."""
    return {
        name: 1 - local(one).flatten(1).any(1).double().mean()
        for name, one in gradients.items()
        if one.dim() > 1 and local(one).numel()
    }
