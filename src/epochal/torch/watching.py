"""Watches the parameters and gradients of any model, at some steps, without touching the rest.

Hooks sit on the optimizer's step: before it the gradients are complete (accumulated, unscaled,
clipped as the loop does it), after it the update can be seen. Between watched steps a hook costs a
comparison. Nothing is drawn at random, nothing is kept but the last watched step's numbers.

Of every parameter ``p``: ``params/p/norm``, ``grads/p/norm``, ``grads/p/zeros`` (share of exact
zeros) and ``update_ratio/p`` (norm of the update over norm of the weights); histograms
``Parameters/p`` and ``Gradients/p``; an event that names the first parameter with a non-finite
gradient.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from epochal.errors import UsageError
from epochal.journal.line import now
from epochal.record import Record
from epochal.torch.measure import Reduced, Rows, local, reduce_tensors
from epochal.torch.names import named_parameters, plain_name

BINS = 64


class Recorder(Protocol):
    """A run, as far as watching needs it."""

    @property
    def step(self) -> int:
        """The last training step that was logged."""

    def write(self, record: Record) -> None:
        """Append one record."""

    def write_unseen(self, record: Record) -> None:
        """Append one record and print nothing for it."""

    def event(self, name: str, **fields: Any) -> None:
        """Append something that happened."""

    def on_finish(self, close: Callable[[], object]) -> None:
        """Have something called when the run finishes."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """Numbers of one step on their way: rows by what they are of, each with its names."""

    step: int
    at: float
    rows: dict[str, tuple[tuple[str, ...], Rows]] = field(default_factory=dict)

    def has_arrived(self) -> bool:
        return all(rows.have_arrived() for _, rows in self.rows.values())


class Watch:
    """What :func:`watch` gives back; ``remove`` takes every hook out again."""

    def __init__(
        self,
        model: nn.Module,
        run: Recorder,
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
        self._step = run.step + 1 if step is None else step
        self._before: list[torch.Tensor] | None = None
        self._taking: _Taken | None = None
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
        self._before = None
        self._write_arrived(wait=True)

    # -- hooks ------------------------------------------------------------------------------------

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._is_due() or not self._owns(optimizer):
            return
        parameters = {n: p for n, p in self._parameters.items() if p.numel()}
        taken = _Taken(self._step, now())
        self._take(taken, "params", parameters)
        gradients = {n: p.grad for n, p in parameters.items() if p.grad is not None}
        if self._wants_gradients and gradients:
            self._take(taken, "grads", {n: _dense(g) for n, g in gradients.items()})
        if self._outputs:
            self._take(taken, "outputs", self._outputs)
            self._outputs = {}
        if self._wants_updates:
            self._before = [local(p).clone() for p in parameters.values()]
        self._taking = taken

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if not self._owns(optimizer):
            return
        taken, self._taking = self._taking, None
        if taken is not None:
            self._take_updates(taken)
            self._pending.append(taken)
        self._step += 1
        if self._pending:
            self._write_arrived(wait=False)

    def _take_updates(self, taken: _Taken) -> None:
        before, self._before = self._before, None
        if before is None:
            return
        named = {n: p for n, p in self._parameters.items() if p.numel()}
        with torch.no_grad():
            change = torch._foreach_sub([local(p) for p in named.values()], before)
            norms = torch._foreach_norm(change)
            taken.rows["updates"] = (tuple(named), Rows(torch.stack(norms).double().unsqueeze(1)))

    def _take(self, taken: _Taken, what: str, tensors: dict[str, torch.Tensor]) -> None:
        bins = 0 if what == "outputs" else self._bins
        packed = reduce_tensors(list(tensors.values()), bins=bins)
        taken.rows[what] = (tuple(tensors), Rows(packed))

    def _is_due(self) -> bool:
        return self._step % self._every == 0

    def _owns(self, optimizer: torch.optim.Optimizer) -> bool:
        return any(
            id(parameter) in self._ids
            for group in optimizer.param_groups
            for parameter in group["params"][:1]
        )

    def _watch_outputs(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if name and not any(module.children()):
                self._handles.append(module.register_forward_hook(self._keeper(plain_name(name))))

    def _keeper(self, name: str) -> Callable[..., None]:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            if self._is_due() and isinstance(output, torch.Tensor) and output.is_floating_point():
                self._outputs[name] = output.detach()

        return keep

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
        metrics.update(self._ratios(taken, params))
        # Hundreds of names: for the page, not for the terminal or the closing line.
        self._run.write_unseen({"log": "metrics", "t": taken.at, "step": taken.step, "m": metrics})
        if self._bins:
            self._write_histograms(taken, "Parameters", params)
            self._write_histograms(taken, "Gradients", grads)
        self._tell_nonfinite(taken, grads)

    def _ratios(self, taken: _Taken, params: dict[str, Reduced]) -> dict[str, float]:
        names, rows = taken.rows.get("updates", ((), None))
        if rows is None:
            return {}
        changes = rows.read_column()
        return {
            f"update_ratio/{name}": change / params[name].norm
            for name, change in zip(names, changes, strict=True)
            if params[name].norm > 0
        }

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
        if what not in taken.rows:
            return {}
        names, rows = taken.rows[what]
        return dict(zip(names, rows.read(), strict=True))


def watch(
    model: nn.Module,
    run: Recorder | None = None,
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
    does not run. ``step`` is the number of the next optimizer step, by default the run's last one
    + 1. The watch ends with the run, or with ``remove()``.
    """
    if every < 1:
        raise UsageError(f"every={every} must be 1 or more steps.")
    if run is None:
        from epochal.run.current import current_run

        run = current_run()
    return Watch(
        model,
        run,
        every=every,
        histograms=histograms,
        gradients=gradients,
        updates=updates,
        activations=activations,
        step=step,
    )


def _dense(gradient: torch.Tensor) -> torch.Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient
