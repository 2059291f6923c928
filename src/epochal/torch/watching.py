"""Watches the parameters and gradients of any model, at some steps, without touching the rest.

Hooks sit on the optimizer's step: before it the gradients are complete (accumulated, unscaled,
clipped as the loop does it), after it the update can be seen. Between watched steps a hook costs a
comparison. Nothing is drawn at random, nothing is kept but the last watched step's numbers. They
are written when the next step begins: by then the loop has logged which step it was.

Of every parameter ``p``: ``params/p/norm``, ``grads/p/norm``, ``grads/p/zeros`` (share of exact
zeros) and ``update_ratio/p`` (norm of the update over norm of the weights); histograms
``Parameters/p`` and ``Gradients/p``; an event that names the first parameter with a non-finite
gradient. A parameter that is frozen (``requires_grad`` is False) and stays as it is has neither
gradient nor ratio; the first record comes with an event that counts those, and with one about
weights that start at an unusual scale. Of every BatchNorm ``b``
in training mode: ``running_stats/b/norm``. Evaluations in training mode are an event, and so are
gradients without a step, and those that are not reset between steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from epochal.errors import UsageError
from epochal.journal.line import now
from epochal.records import Record
from epochal.run.current import given_or_current
from epochal.run.run import Run
from epochal.torch.guarded import guarded_hook
from epochal.torch.measure import Reduced, Rows, local, reduce_tensors
from epochal.torch.step_count import StepCount
from epochal.torch.structure import named_parameters, plain_name
from epochal.torch.watch_checks import (
    BufferSync,
    EvaluationModes,
    InitialScale,
    KeptGradients,
    MissingSteps,
    RunningStats,
    initialised,
)

BINS = 64


@dataclass(frozen=True, slots=True)
class _Taken:
    """Numbers of one step on their way: rows by what they are of, each with its names."""

    step: int
    at: float
    frozen: frozenset[str]
    # Several optimizers of one step come one after the other; of a name, the last is true.
    rows: list[tuple[str, tuple[str, ...], Rows]] = field(default_factory=list)

    def of(self, what: str) -> list[tuple[tuple[str, ...], Rows]]:
        return [(names, rows) for kind, names, rows in self.rows if kind == what]

    def has_arrived(self) -> bool:
        return all(rows.have_arrived() for _, _, rows in self.rows)


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
        activations: bool,
        step: int | None = None,
    ) -> None:
        self._run = run
        self._every = every
        self._bins = BINS if histograms else 0
        self._wants_gradients = gradients
        self._wants_updates = updates
        self._parameters = dict(named_parameters(model))
        self._ids = {id(parameter) for parameter in self._parameters.values()}
        self._running_stats = RunningStats(model)
        self._modes = EvaluationModes(model, run, self._report_passes)
        self._missing_steps = MissingSteps(self._parameters, run, self._report_no_step)
        self._kept_gradients = KeptGradients(self._parameters, run, self._report_kept)
        self._buffer_sync = BufferSync(model, run)
        self._initial_scale = InitialScale(model, self._parameters)
        self._tells_first = True
        self._count = StepCount(run, step)
        self._before: dict[str, torch.Tensor] = {}
        self._taking: _Taken | None = None
        self._held: list[_Taken] = []
        self._pending: list[_Taken] = []
        self._outputs: dict[str, torch.Tensor] = {}
        self._handles: list[Any] = [
            register_optimizer_step_pre_hook(self._before_step),
            register_optimizer_step_post_hook(self._after_step),
        ]
        if activations:
            self._watch_outputs(model)
        run.on_finish(self.remove)

    def remove(self) -> None:
        """Write what is still on its way, and take the hooks out."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._modes.remove()
        self._buffer_sync.remove()
        self._missing_steps.end()
        self._kept_gradients.end()
        self._before = {}
        self._write_rest()

    @guarded_hook("watch")
    def _write_rest(self) -> None:
        self._modes.settle()
        self._count.end()
        self._settle()
        self._write_arrived(wait=True)

    # -- hooks ------------------------------------------------------------------------------------

    @guarded_hook("watch")
    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._missing_steps.end()  # an optimizer of copies, as of sharded weights, counts as well
        if not self._owns(optimizer):
            return
        if self._count.begins_with(optimizer):
            self._modes.settle()
            self._settle()
            if self._is_due(self._count.step):
                frozen = {n for n, p in self._parameters.items() if not p.requires_grad}
                self._taking = _Taken(self._count.step, now(), frozenset(frozen))
                parameters = {n: p for n, p in self._parameters.items() if p.numel()}
                self._take(self._taking, "params", parameters)
                self._take_gradients(self._taking, parameters)
                self._take_running_stats(self._taking)
        elif self._taking is not None:
            theirs = {id(p) for group in optimizer.param_groups for p in group["params"]}
            own = {n: p for n, p in self._parameters.items() if p.numel() and id(p) in theirs}
            self._take_gradients(self._taking, own)

    @guarded_hook("watch")
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        self._kept_gradients.after_step(optimizer)
        if self._taking is not None and self._before and self._owns(optimizer):
            self._take_updates(self._taking)

    def _settle(self) -> None:
        """Have the numbers of the step that has ended written under its number, if that is due."""
        if self._taking is not None:
            self._held.append(self._taking)
            self._taking = None
        if self._count.is_guess:
            return
        held, self._held = self._held, []
        labelled = [replace(taken, step=taken.step + self._count.shift) for taken in held]
        self._pending += [taken for taken in labelled if taken.step % self._every == 0]
        if self._pending:
            self._write_arrived(wait=False)

    def _take_gradients(self, taken: _Taken, parameters: dict[str, torch.Tensor]) -> None:
        # What is frozen may still hold the gradient of the last step in which it was not.
        trained = {n: p for n, p in parameters.items() if p.requires_grad}
        gradients = {n: p.grad for n, p in trained.items() if p.grad is not None}
        if self._wants_gradients and gradients:
            self._take(taken, "grads", {n: _dense(g) for n, g in gradients.items()})
        if self._outputs:
            self._take(taken, "outputs", self._outputs)
            self._outputs = {}
        if self._wants_updates:
            self._before = {n: local(p).clone() for n, p in parameters.items()}

    def _take_running_stats(self, taken: _Taken) -> None:
        names, norms = self._running_stats.norms()
        if norms is not None:
            taken.rows.append(("running_stats", names, Rows(norms)))

    def _take_updates(self, taken: _Taken) -> None:
        before, self._before = self._before, {}
        with torch.no_grad():
            present = [local(self._parameters[name]) for name in before]
            change = torch._foreach_sub(present, list(before.values()))
            norms = torch._foreach_norm(change)
            rows = Rows(torch.stack(norms).double().unsqueeze(1))
            taken.rows.append(("updates", tuple(before), rows))

    def _take(self, taken: _Taken, what: str, tensors: dict[str, torch.Tensor]) -> None:
        bins = 0 if what == "outputs" else self._bins
        packed = reduce_tensors(list(tensors.values()), bins=bins)
        taken.rows.append((what, tuple(tensors), Rows(packed)))

    def _is_due(self, step: int) -> bool:
        """Whether a step is watched; the first one is while its number is only guessed."""
        is_first_guess = self._count.is_guess and not self._held and self._taking is None
        return step % self._every == 0 or is_first_guess

    def _owns(self, optimizer: torch.optim.Optimizer) -> bool:
        return any(
            id(parameter) in self._ids
            for group in optimizer.param_groups
            for parameter in group["params"]
        )

    def _watch_outputs(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if name and not any(module.children()):
                self._handles.append(
                    module.register_forward_hook(partial(self._keep_output, plain_name(name)))
                )

    @guarded_hook("watch")
    def _keep_output(self, name: str, module: nn.Module, inputs: Any, output: Any) -> None:
        is_due = self._is_due(self._count.upcoming)
        if is_due and isinstance(output, torch.Tensor) and output.is_floating_point():
            self._outputs[name] = output.detach()

    # -- writing ----------------------------------------------------------------------------------

    def _write_arrived(self, *, wait: bool) -> None:
        while self._pending and (wait or self._pending[0].has_arrived()):
            self._write(self._pending.pop(0))

    def _write(self, taken: _Taken) -> None:
        metrics: dict[str, float] = {}
        params = self._rows(taken, "params")
        for name, row in params.items():
            metrics[f"params/{name}/norm"] = row.norm
        grads = self._rows(taken, "grads")
        for name, row in grads.items():
            metrics[f"grads/{name}/norm"] = row.norm
            metrics[f"grads/{name}/zeros"] = row.zeros
        for name, row in self._rows(taken, "outputs").items():
            metrics[f"activations/{name}/mean"] = row.mean
            metrics[f"activations/{name}/std"] = row.std
            metrics[f"activations/{name}/zeros"] = row.zeros
        for names, rows in taken.of("running_stats"):
            for name, norm in zip(names, rows.read_column(), strict=True):
                metrics[f"running_stats/{name}/norm"] = norm
        metrics.update(self._ratios(taken, params))
        # Hundreds of names: for the page, not for the terminal or the closing line.
        self._run.write(
            {"log": "metrics", "t": taken.at, "step": taken.step, "m": metrics}, silent=True
        )
        if self._bins:
            self._write_histograms(taken, "Parameters", params)
            self._write_histograms(taken, "Gradients", grads)
        self._tell_nonfinite(taken, grads)
        if self._tells_first:
            self._tells_first = False
            self._tell_frozen(taken, {name: row.norm for name, row in params.items()})
            self._tell_scale(taken, params)

    @staticmethod
    def _ratios(taken: _Taken, params: dict[str, Reduced]) -> dict[str, float]:
        changes = {
            name: change
            for names, rows in taken.of("updates")
            for name, change in zip(names, rows.read_column(), strict=True)
        }
        return {
            f"update_ratio/{name}": change / params[name].norm
            for name, change in changes.items()
            if params[name].norm > 0 and (change != 0 or name not in taken.frozen)
        }

    def _tell_frozen(self, taken: _Taken, norms: dict[str, float]) -> None:
        """Count the frozen parameters, and those of them whose norms are as initialised."""
        frozen = [name for name in norms if name in taken.frozen]
        if not frozen:
            return
        shapes = {name: tuple(self._parameters[name].shape) for name in frozen}
        fitting, others = initialised(shapes, norms)
        # A copy starts equal to what is trained: the target of a self-supervised or Q network.
        trained = {norms[name] for name in norms if name not in taken.frozen}
        drawn = [name for name in fitting if len(shapes[name]) > 1 and norms[name] > 0]
        copies = [name for name in drawn if norms[name] in trained]
        self._run.event(
            "frozen-parameters",
            at_step=taken.step,
            parameter=frozen[0],
            parameters=len(frozen),
            of=len(norms),
            initialised=0 if copies else len(fitting),
            others=len(others),
        )

    def _tell_scale(self, taken: _Taken, params: dict[str, Reduced]) -> None:
        trained = {n: row for n, row in params.items() if n not in taken.frozen and row.count}
        sizes = {name: row.norm / math.sqrt(row.count) for name, row in trained.items()}
        shapes = {name: self._parameters[name].shape for name in trained}
        found = self._initial_scale.unusual(sizes, shapes)
        if found is not None:
            self._run.event(
                "initial-scale",
                at_step=taken.step,
                parameter=found.parameter,
                parameters=found.parameters,
                scale=found.value,
            )

    def _report_no_step(self, passes: int) -> None:
        self._run.event("no-optimizer-step", passes=passes)

    def _report_kept(self, parameter: str, steps: int) -> None:
        step = self._count.step
        self._run.event("gradients-kept", at_step=step, parameter=parameter, steps=steps)

    def _report_passes(self, **facts: Any) -> None:
        self._run.event("evaluation-passes", **facts)

    def _write_histograms(self, taken: _Taken, prefix: str, rows: dict[str, Reduced]) -> None:
        for name, row in rows.items():
            if row.count == 0:
                continue
            record: Record = {
                "log": "histogram",
                "t": taken.at,
                "step": taken.step,
                "name": f"{prefix}/{name}",
                "lo": row.min,
                "hi": row.max,
                "counts": row.counts,
                "min": row.min,
                "max": row.max,
                "mean": row.mean,
                "std": row.std,
                "count": row.count,
            }
            if row.nonfinite:
                record["nonfinite_count"] = row.nonfinite
            self._run.write(record)

    def _tell_nonfinite(self, taken: _Taken, grads: dict[str, Reduced]) -> None:
        # A sample may miss the value that is not finite; the norm, which is of everything, cannot.
        bad = [n for n, row in grads.items() if row.nonfinite or not math.isfinite(row.norm)]
        if bad:
            first = bad[0]
            self._run.event(
                "nonfinite-gradient", at_step=taken.step, parameter=first, parameters=len(bad)
            )

    @staticmethod
    def _rows(taken: _Taken, what: str) -> dict[str, Reduced]:
        return {
            name: row
            for names, rows in taken.of(what)
            for name, row in zip(names, rows.read(), strict=True)
        }


def watch(
    model: nn.Module,
    run: Run | None = None,
    *,
    every: int = 1000,
    histograms: bool = True,
    gradients: bool = True,
    updates: bool = True,
    activations: bool = False,
    step: int | None = None,
) -> Watch:
    """Record a model's parameters and gradients every ``every`` optimizer steps, from the first on.

    ``run`` is the current run when not given. ``updates`` keeps a copy of the weights during a
    watched step. ``activations`` puts forward hooks on the leaf modules, which a compiled model
    does not run. Steps are numbered as the run logs them; ``step`` is the number of the next one,
    by default the run's last + 1. The watch ends with the run, or with ``remove()``.
    """
    if every < 1:
        raise UsageError(f"every={every} must be 1 or more steps.")
    return Watch(
        model,
        given_or_current(run, "watch()"),
        every=every,
        histograms=histograms,
        gradients=gradients,
        updates=updates,
        activations=activations,
        step=step,
    )


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
