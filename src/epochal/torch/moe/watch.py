"""Watches the routers of a model while it trains: a ``moe`` record each step, loads now and then.

Forward hooks add up what routers do, over micro-steps, on the device of the routers. The
optimizer's step ends the count, and the sums travel to the host while training goes on. Evaluation
is left out, and so is the second forward pass of activation checkpointing. Tokens that an
``attention_mask`` given to the model by name leaves out are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook

from epochal.errors import UsageError
from epochal.journal.line import now
from epochal.run.current import given_or_current
from epochal.torch.compiled import exclude_from_compile
from epochal.torch.guarded import guarded_hook
from epochal.torch.host_copy import HostCopy, copied_to_host
from epochal.torch.moe.routers import Router, find_routers
from epochal.torch.moe.routing_sums import (
    COLUMNS,
    recorded_figures,
    routing_sums,
    rows_known,
    statistics_table,
    wide_dtype,
)
from epochal.torch.moe.stats import AUX_COEF, Z_COEF
from epochal.torch.names import named_parameters
from epochal.torch.step_count import StepCount
from epochal.torch.structure import unwrapped
from epochal.torch.watching import Recorder

_AUX_NAMES = ("router_aux_loss_coef", "aux_loss_alpha", "moe_aux_loss_coeff")
_Z_NAMES = ("router_z_loss_coef", "z_loss_coef", "moe_z_loss_coeff")
_DECIMALS = 5  # of a share; more would only make the record longer


class Speaker(Recorder, Protocol):
    """A run, as far as watching routers needs it."""

    def message(self, text: str, *, level: str = "info") -> None:
        """Say something to people."""


@dataclass(frozen=True, slots=True)
class _Taken:
    """The sums of one step on their way; ``made`` counts the steps since the watch began."""

    step: int
    made: int
    at: float
    sums: HostCopy


@dataclass(frozen=True, slots=True)
class _Seen:
    """What one step's sums say: the figures, and each layer's shares."""

    figures: dict[str, float]
    layers: tuple[str, ...]
    load: list[list[float]]


class MoeWatch:
    """What :func:`watch_moe` gives back; ``remove`` takes every hook out again."""

    def __init__(
        self,
        model: nn.Module,
        run: Speaker,
        routers: Sequence[Router],
        *,
        every: int,
        experts_every: int,
        aux_coef: float,
        z_coef: float,
        mask: str | None,
        reduce: bool,
    ) -> None:
        self._run = run
        self._routers = tuple(routers)
        self._every = every
        self._experts_every = experts_every
        self._aux_coef = aux_coef
        self._z_coef = z_coef
        self._mask_name = mask
        self._reduce = reduce
        self._ids = {id(parameter) for _, parameter in named_parameters(model)}
        self._count = StepCount(run)
        self._is_guessing = self._count.is_guess
        self._mask: Tensor | None = None
        self._sums: dict[int, Tensor] = {}
        self._logits: dict[int, Tensor] = {}  # of the routers that are running
        self._pending: list[_Taken] = []
        self._held: list[tuple[_Taken, _Seen]] = []
        self._made = -1
        self._latest: dict[str, float] = {}
        self._is_told = False
        self._handles: list[Any] = [register_optimizer_step_post_hook(self._after_step)]
        self._handles += [
            router.module.register_forward_hook(self._counter(number))
            for number, router in enumerate(self._routers)
        ]
        self._handles += [
            router.inner.register_forward_hook(self._keeper(number))
            for number, router in enumerate(self._routers)
            if router.inner is not None
        ]
        if mask is not None:
            inner = unwrapped(model)
            self._handles += [
                inner.register_forward_pre_hook(self._keep_mask, with_kwargs=True),
                inner.register_forward_hook(self._drop_mask),
            ]
        exclude_from_compile(
            MoeWatch._add, MoeWatch._keep_logits, MoeWatch._keep_mask, MoeWatch._drop_mask
        )
        run.on_finish(self.remove)

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the layers whose routers are watched."""
        return tuple(router.layer for router in self._routers)

    def fields(self) -> dict[str, float]:
        """The newest figures that have arrived, for ``log_step(moe=…)``; nothing at first."""
        self._write_arrived(wait=False)
        return dict(self._latest)

    def get_moe_stats(self) -> dict[str, Any]:
        """The newest figures, and ``valid`` whether there are any; waits for those on their way."""
        self._write_arrived(wait=True)
        is_valid = bool(self._latest) and all(map(math.isfinite, self._latest.values()))
        known = self._latest if is_valid else {}
        return {**dict.fromkeys(COLUMNS), **known, "valid": is_valid}

    def remove(self) -> None:
        """Write what is still on its way, and take the hooks out."""
        if self._handles and self._sums and self._made < 0:
            self._tell_stepless()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._sums.clear()
        self._logits.clear()
        self._mask = None
        self._count.end()
        self._settle()
        self._write_arrived(wait=True)

    # -- hooks ------------------------------------------------------------------------------------

    def _counter(self, number: int) -> Callable[[nn.Module, Any, Any], None]:
        def count(module: nn.Module, inputs: Any, output: Any) -> None:
            self._add(number, module, inputs, output)

        exclude_from_compile(count)
        return count

    def _keeper(self, number: int) -> Callable[[nn.Module, Any, Any], None]:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:
            self._keep_logits(number, module, output)

        exclude_from_compile(keep)
        return keep

    @guarded_hook("watch_moe")
    def _keep_logits(self, number: int, module: nn.Module, output: Any) -> None:
        if isinstance(output, Tensor) and self._counts(module):
            self._logits[number] = output.detach()

    def _counts(self, module: nn.Module) -> bool:
        """Whether what a module does now belongs to a step that is recorded."""
        is_due = self._is_due(self._count.upcoming, self._made + 1)
        return module.training and is_due and not _is_recomputing()

    @guarded_hook("watch_moe")
    def _add(self, number: int, module: nn.Module, inputs: Any, output: Any) -> None:
        logits = self._logits.pop(number, None)
        if not self._counts(module):
            return
        router = self._routers[number]
        routing = router.read(inputs, output, mask=self._mask, logits=logits)
        if routing is None:
            return
        sums = routing_sums(routing)
        known = self._sums.get(number)
        self._sums[number] = sums if known is None else known.add_(sums)

    @guarded_hook("watch_moe")
    def _keep_mask(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        mask = kwargs.get(self._mask_name or "")
        # Of more dimensions it says which tokens see which, not which are there.
        self._mask = mask if isinstance(mask, Tensor) and mask.dim() == 2 else None

    @guarded_hook("watch_moe")
    def _drop_mask(self, module: nn.Module, inputs: Any, output: Any) -> None:
        self._mask = None

    # Every rank must come to the sum over all of them: a fault in a part leaves only that part out.
    @guarded_hook("watch_moe", rests=False)
    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        groups = optimizer.param_groups
        if not any(id(p) in self._ids for group in groups for p in group["params"]):
            return
        if not self._count.begins_with(optimizer):
            return
        self._made += 1
        self._settle()
        if self._is_due(self._count.step, self._made):
            self._take()
        if self._pending:
            self._write_arrived(wait=False)

    @guarded_hook("watch_moe")
    def _settle(self) -> None:
        """Number what was taken while the run's step was a guess, and write what has arrived."""
        if self._count.is_guess or not self._is_guessing:
            return
        self._is_guessing = False
        shift = self._count.shift
        self._pending = [replace(taken, step=taken.step + shift) for taken in self._pending]
        held, self._held = self._held, []
        for taken, seen in held:
            self._record(replace(taken, step=taken.step + shift), seen)

    def _is_due(self, step: int, made: int) -> bool:
        """Whether a step is recorded; every one is looked at while its number is only guessed."""
        is_guess = self._count.is_guess and not self._reduce
        return is_guess or self._number(step, made) % self._every == 0

    def _number(self, step: int, made: int) -> int:
        """What is due goes by the step, of several ranks by what all of them count alike."""
        return made if self._reduce else step

    # -- from the device --------------------------------------------------------------------------

    @torch.no_grad()
    def _take(self) -> None:
        sums, self._sums = self._sums, {}
        if not sums and not self._reduce:
            self._report_unseen()
            return
        packed = self._packed(sums)
        if packed is None:
            packed = self._packed({})  # after a fault nothing was counted
        if packed is None:
            return
        if self._reduce and dist.is_available() and dist.is_initialized():
            dist.all_reduce(packed)
            if dist.get_rank() != 0:
                return  # rank 0 writes for all
        self._pending.append(
            _Taken(self._count.step, self._made, now(), copied_to_host({"sums": packed}))
        )

    @guarded_hook("watch_moe", rests=False)
    def _packed(self, sums: dict[int, Tensor]) -> Tensor | None:
        device = next(iter(sums.values())).device if sums else _device_of(self._routers[0])
        rows = [
            sums[number].to(device, non_blocking=True)
            if number in sums
            else torch.zeros(2 * router.experts + 4, dtype=wide_dtype(device), device=device)
            for number, router in enumerate(self._routers)
        ]
        return torch.cat(rows)

    def _report_unseen(self) -> None:
        if not self._is_told:
            self._is_told = True
            self._run.message(
                "watch_moe: none of the watched routers ran in this step. A model that was compiled"
                " and run before does not call new hooks: call watch_moe() before its first step. A"
                " layer that uses its router's weight without calling it cannot be watched.",
                level="warning",
            )

    def _tell_stepless(self) -> None:
        self._run.message(
            "watch_moe: routers ran, but no optimizer of torch.optim that has the model's "
            "parameters made a step, so nothing was recorded. Step with one, or give what the "
            "routers compute to moe_stats() and log_moe_stats().",
            level="warning",
        )

    # -- writing ----------------------------------------------------------------------------------

    @guarded_hook("watch_moe")
    def _write_arrived(self, *, wait: bool) -> None:
        while self._pending and (wait or self._pending[0].sums.has_arrived()):
            self._write(self._pending.pop(0))

    def _write(self, taken: _Taken) -> None:
        seen = self._read(taken.sums.ready()["sums"])
        if seen is None:
            self._report_unseen()
            return
        self._latest = seen.figures
        if self._count.is_guess:
            self._held.append((taken, seen))
        else:
            self._record(taken, seen)

    def _record(self, taken: _Taken, seen: _Seen) -> None:
        number = self._number(taken.step, taken.made)
        if number % self._every != 0:
            return
        place = {"t": taken.at, "step": taken.step}
        self._run.write({"log": "moe", **place, **seen.figures})
        if number % self._experts_every == 0 and seen.layers:
            top_k = max(router.top_k for router in self._routers)
            layers, load = list(seen.layers), seen.load
            self._run.write(
                {"log": "experts", **place, "layers": layers, "load": load, "top_k": top_k}
            )

    def _read(self, packed: Tensor) -> _Seen | None:
        """The figures of a step from its sums; layers that routed no token are left out.

        One whose logits are no numbers takes the figures of all with it, but not their load.
        """
        tables, layers, load = [], [], []
        start = 0
        for router in self._routers:
            end = start + 2 * router.experts + 4
            row = packed[start:end].unsqueeze(0)
            start = end
            if row[0, -1] == 0 or row[0, : router.experts].sum() == 0:
                continue
            table, shares = statistics_table(
                row, experts=router.experts, aux_coef=self._aux_coef, z_coef=self._z_coef
            )
            tables.append(table)
            if rows_known(row)[0]:
                layers.append(router.layer)
                load.append([round(share, _DECIMALS) for share in shares[0].tolist()])
        if not tables:
            return None
        return _Seen(recorded_figures(torch.cat(tables)), tuple(layers), load)


def watch_moe(
    model: nn.Module,
    run: Speaker | None = None,
    *,
    every: int = 1,
    experts_every: int = 100,
    routers: Sequence[str] | None = None,
    top_k: int | None = None,
    aux_coef: float | None = None,
    z_coef: float | None = None,
    mask: str | None = "attention_mask",
    reduce: bool = False,
) -> MoeWatch:
    """Record what a model's routers do every ``every`` optimizer steps, from the first on.

    The loads of all experts are recorded every ``experts_every`` steps. Routers are found by
    themselves, or named in ``routers`` (``*`` stands for any part of a name) with ``top_k``. The
    coefficients of the two losses are those of the model's ``config`` when not given. ``reduce``
    adds up the tokens of all ranks, and every rank must then watch; otherwise each rank records its
    own. Call it before a compiled model runs for the first time. Raises when no router is found.
    """
    for name, number in (("every", every), ("experts_every", experts_every)):
        if number < 1:
            raise UsageError(f"{name}={number} must be 1 or more steps.")
    found = find_routers(model, names=routers, top_k=top_k)
    config = getattr(unwrapped(model), "config", None)
    return MoeWatch(
        model,
        given_or_current(run, "watch_moe()"),
        found,
        every=every,
        experts_every=experts_every,
        aux_coef=_coefficient(config, _AUX_NAMES, AUX_COEF) if aux_coef is None else aux_coef,
        z_coef=_coefficient(config, _Z_NAMES, Z_COEF) if z_coef is None else z_coef,
        mask=mask,
        reduce=reduce,
    )


def _coefficient(config: Any, names: Sequence[str], otherwise: float) -> float:
    for name in names:
        value = getattr(config, name, None)
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
    return otherwise


def _device_of(router: Router) -> torch.device:
    parameter = next(router.module.parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def _is_recomputing() -> bool:
    """Whether this forward pass happens inside a backward one: activation checkpointing."""
    # As torch's own checkpointing tells; torch has no public name for it.
    return bool(torch._C._current_graph_task_id() != -1)
