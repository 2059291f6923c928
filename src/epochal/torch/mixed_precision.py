"""Mixed precision: the dtype that suits a device, and a loss scaler whose work can be seen.

float16 has too small a range for gradients: losses are scaled up before `backward`, gradients down
before anything looks at them, and a step whose gradients overflowed is skipped. bfloat16 needs none
of it, and a scaler for it lets everything through.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.amp.grad_scaler import OptState

from epochal.errors import UsageError
from epochal.torch.clip import ClipStats, NonFinite, Parameters, clip_grad_norm

Place = torch.device | str | nn.Module | Tensor | None

_HALF_TYPES = (torch.float16, torch.bfloat16)
_STEPS, _SKIPPED = "steps", "skipped_steps"


def autocast_dtype(device: Place = None) -> torch.dtype:
    """The dtype that pays on a device: bfloat16 where it is native, float16 where it is not.

    `device` may be a device, its name, a module or a tensor on it; None is the GPU if there is one.
    """
    kind = _device_type(device)
    if kind == "mps":
        return torch.float16
    if kind == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
        return torch.float16
    return torch.bfloat16


def autocast(
    device: Place = None, *, dtype: torch.dtype | None = None, enabled: bool = True
) -> torch.autocast:
    """A context, or decorator, in which matrix products run in half precision.

    `dtype` is `autocast_dtype(device)` unless given: float16 or bfloat16. The forward pass and the
    loss belong inside, `backward` does not.
    """
    chosen = autocast_dtype(device) if dtype is None else dtype
    _check_dtype(chosen)
    return torch.autocast(_device_type(device), dtype=chosen, enabled=enabled)


class GradScaler(torch.amp.GradScaler):
    """Torch's loss scaler, with clipping in the right order and with what it did as metrics::

        scaler.scale(loss).backward()
        norm = scaler.clip_grad_norm(model, 1.0, optimizer=optimizer)
        scaler.step(optimizer)
        scaler.update()
        run.log({"loss": loss, "norm": norm, **scaler.metrics()})

    The scale starts at 65,536, doubles after 2,000 good steps and halves with each skipped one.
    `enabled` None: only for float16, which `dtype` says, or `autocast_dtype(device)` without it.
    Its state, counts included, is `TrainingState(scaler=...)`'s to save.
    """

    def __init__(
        self,
        device: Place = None,
        *,
        dtype: torch.dtype | None = None,
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool | None = None,
    ) -> None:
        chosen = autocast_dtype(device) if dtype is None else dtype
        _check_dtype(chosen)
        if not 0.0 < init_scale < float("inf"):
            raise UsageError(f"init_scale must be a number above 0, got {init_scale!r}.")
        if not growth_factor > 1.0 or not 0.0 < backoff_factor < 1.0 or growth_interval < 1:
            raise UsageError(
                "growth_factor must be above 1, backoff_factor between 0 and 1, growth_interval at"
                f" least 1; got {growth_factor!r}, {backoff_factor!r} and {growth_interval!r}."
            )
        super().__init__(
            _device_type(device),
            init_scale=init_scale,
            growth_factor=growth_factor,
            backoff_factor=backoff_factor,
            growth_interval=growth_interval,
            enabled=chosen is torch.float16 if enabled is None else enabled,
        )
        # Steps, skipped ones and whether the last was, on the device: reading them is what waits.
        self._figures: Tensor | None = None
        self._restored = (0, 0)

    def clip_grad_norm(
        self,
        params: Parameters,
        max_norm: float,
        *,
        optimizer: torch.optim.Optimizer,
        nonfinite: NonFinite = "keep",
        stats: ClipStats | None = None,
    ) -> Tensor:
        """Scale the gradients back, then clip them to their true norm, which is returned.

        Keep 'nonfinite' at 'keep': the step must find the overflow to skip it.
        """
        if self.is_enabled() and not self._is_unscaled(optimizer):
            self.unscale_(optimizer)
        return clip_grad_norm(params, max_norm, nonfinite=nonfinite, stats=stats)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Count the step and adapt the scale; once, after `step` of every optimizer."""
        if self.is_enabled():
            self._count(self._overflows())
        super().update(new_scale)

    def metrics(self) -> dict[str, Tensor]:
        """Return `loss_scale` and `skipped_steps` for `log`, as tensors; empty when disabled.

        Empty before the first step, too.
        """
        if self._figures is None or self._scale is None:
            return {}
        # Copies: both change in place with the next step.
        return {"loss_scale": self._scale.clone(), _SKIPPED: self._figures[1].clone()}

    @property
    def steps(self) -> int:
        """How many steps there were, those before a resume included; waits for the GPU."""
        return self._restored[0] if self._figures is None else int(self._figures[0].item())

    @property
    def skipped_steps(self) -> int:
        """How many of them were skipped, because gradients overflowed; waits for the GPU."""
        return self._restored[1] if self._figures is None else int(self._figures[1].item())

    @property
    def was_skipped(self) -> bool:
        """Whether the last step was skipped: its weights are those before it; waits for the GPU.

        A schedule that counts updates does not count that step.
        """
        return self._figures is not None and bool(self._figures[2].item())

    def state_dict(self) -> dict[str, Any]:
        """Return scale, steps since it grew and counts; empty when disabled."""
        state: dict[str, Any] = super().state_dict()
        return {**state, _STEPS: self.steps, _SKIPPED: self.skipped_steps} if state else state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state; one of torch's own scaler will do, its counts begin at 0."""
        if self.is_enabled() and not state_dict:
            raise UsageError(
                "the saved scaler was disabled and this one is not: leave the scaler out, or make"
                " it with enabled=False."
            )
        super().load_state_dict(state_dict)
        self._restored = (int(state_dict.get(_STEPS, 0)), int(state_dict.get(_SKIPPED, 0)))
        self._figures = None

    def _is_unscaled(self, optimizer: torch.optim.Optimizer) -> bool:
        return bool(self._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED)

    def _overflows(self) -> list[Tensor]:
        return [
            found
            for state in self._per_optimizer_states.values()
            for found in state["found_inf_per_device"].values()
        ]

    def _count(self, overflows: Iterable[Tensor]) -> None:
        found = list(overflows)
        if not found:
            return  # super().update says what is wrong
        if self._figures is None:
            self._figures = torch.tensor([*self._restored, 0], dtype=torch.float64).to(
                found[0].device
            )
        place = self._figures.device
        total = sum((one.reshape(()).to(place) for one in found), torch.zeros((), device=place))
        skipped = (total > 0).to(torch.float64)
        self._figures[0].add_(1)
        self._figures[1].add_(skipped)
        self._figures[2].copy_(skipped)


def _device_type(device: Place) -> str:
    if device is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    if isinstance(device, nn.Module):
        first = next(device.parameters(), None)
        return "cpu" if first is None else first.device.type
    if isinstance(device, Tensor):
        return device.device.type
    try:
        return torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"device must be a device, its name, a module or a tensor, got {device!r}."
        ) from error


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in _HALF_TYPES:
        raise UsageError(f"dtype must be torch.float16 or torch.bfloat16, got {dtype}.")
