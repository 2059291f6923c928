"""Everything a training goes on from: what it is, how it is taken, how it is put back.

The state of every random number generator that a training draws from is part of it.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import nn

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.rng import Rng
from epochal.torch.schedule.plateau import PlateauScheduler
from epochal.torch.schedule.scheduler import Scheduler
from epochal.torch.structure import unwrapped


@runtime_checkable
class Stateful(Protocol):
    """Anything that tells its state and takes it back, as torch's own objects do."""

    def state_dict(self) -> Any:
        """Return the state: numbers, texts, tensors, and lists and dicts of them."""

    def load_state_dict(self, state_dict: Any, /) -> Any:
        """Go on from a state."""


@dataclass(frozen=True, slots=True)
class TrainingState:
    """The objects that make up a training; nothing is copied until it is saved.

    `scheduler` is torch's or one of Epochal's. `data` is where the training is in its data, `rng`
    generators of your own (one, or several by name): every rank keeps its own of both, and of the
    global generators. Everything else is the same on all ranks and kept once: the model, the
    optimizer, the scheduler, the scaler, and `others` by name (a second optimizer, averaged
    weights).
    """

    model: nn.Module
    optimizer: Stateful | None = None
    scheduler: Stateful | Scheduler | None = None
    scaler: Stateful | None = None
    data: Stateful | None = None
    rng: Any = None
    others: Mapping[str, Stateful] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, nn.Module):
            raise ValueTypeError(f"model must be a torch module, got {type(self.model).__name__}.")
        for name, part in (*self.shared_parts().items(), ("data", self.data)):
            if part is not None and not isinstance(part, (Stateful, Scheduler)):
                raise ValueTypeError(
                    f"{name} must have state_dict() and load_state_dict(), "
                    f"got {type(part).__name__}."
                )
        named_generators(self.rng)

    def shared_parts(self) -> dict[str, Stateful | Scheduler]:
        """What all ranks have in common, besides the model, by name."""
        given = {
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "scaler": self.scaler,
            **{f"others.{name}": part for name, part in (self.others or {}).items()},
        }
        return {name: part for name, part in given.items() if part is not None}

    def shared_state(self) -> dict[str, Any]:
        """The state of what all ranks have in common; the model's tensors are not in it."""
        state = {name: _state_of(part) for name, part in self.shared_parts().items()}
        observed = getattr(unwrapped(self.model), "observation_state", None)
        return {**state, "observation": observed()} if callable(observed) else state

    def own_state(self) -> dict[str, Any]:
        """The state of what each rank has for itself."""
        data = None if self.data is None else {"state": self.data.state_dict()}
        return {"data": data, "rng": generators_state(named_generators(self.rng))}

    def check_shared(self, state: Mapping[str, Any]) -> None:
        """Refuse a saved state that lacks a part which is here."""
        absent = sorted(set(self.shared_parts()) - set(state))
        if absent:
            raise UsageError(
                f"the checkpoint has no state for {', '.join(absent)}: leave it out to go on "
                "without."
            )

    def restore_shared(self, state: Mapping[str, Any]) -> list[str]:
        """Put back what all ranks have in common; returns the saved parts that are not here."""
        parts = self.shared_parts()
        for name, part in parts.items():
            _restore(part, state[name])
        restore = getattr(unwrapped(self.model), "restore_observation", None)
        if "observation" in state and callable(restore):
            restore(state["observation"])
            parts["observation"] = self.model
        return [name for name in state if name not in parts]

    def restore_own(self, state: Mapping[str, Any]) -> list[str]:
        """Put back a rank's own part, generators last: loading data may draw from them."""
        left = []
        if self.data is not None:
            if state["data"] is None:
                raise UsageError("the checkpoint has no state for data: leave it out.")
            self.data.load_state_dict(state["data"]["state"])
        elif state["data"] is not None:
            left.append("data")
        return left + restore_generators(state["rng"], named_generators(self.rng))


def _state_of(part: Stateful | Scheduler) -> Any:
    if isinstance(part, Scheduler):
        try:
            return {"schedule": part.state()}
        except UsageError:
            return {"schedule": None}  # a kind of the user's own: its code is its state
    return part.state_dict()


def _restore(part: Stateful | Scheduler, state: Any) -> None:
    if not isinstance(part, Scheduler):
        part.load_state_dict(state)
    elif state["schedule"] is not None:
        _restore_schedule(part, Scheduler.from_state(state["schedule"]))


def _restore_schedule(present: Any, saved: Any) -> None:
    """Carry over what a schedule has observed; what it is stays as the program says."""
    if type(present) is not type(saved):
        return
    if isinstance(present, PlateauScheduler):
        for item in fields(present):
            if not item.init:
                setattr(present, item.name, getattr(saved, item.name))
    elif is_dataclass(present):
        for item in fields(present):
            inner = getattr(present, item.name)
            if isinstance(inner, Scheduler):
                _restore_schedule(inner, getattr(saved, item.name))


def generators_state(own: Mapping[str, Any]) -> dict[str, Any]:
    """Python's, numpy's and torch's global generators, all GPUs', and the caller's own by name.

    Numpy's is kept where numpy is loaded, the GPUs' where CUDA is started.
    """
    state: dict[str, Any] = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "own": {name: _generator_state(generator, name=name) for name, generator in own.items()},
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state["numpy"] = numpy.random.get_state()
    cuda: Any = torch.cuda
    if cuda.is_available() and cuda.is_initialized():
        state["cuda"] = cuda.get_rng_state_all()
    return state


def restore_generators(state: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Go on where `generators_state` was taken; returns what could not be restored here."""
    if set(state["own"]) != set(own):
        raise UsageError(
            f"rng must hold {sorted(state['own']) or 'nothing'}, as it did when the checkpoint "
            f"was saved, got {sorted(own) or 'nothing'}."
        )
    for name, generator in own.items():
        _restore_generator(generator, state["own"][name], name=name)
    random.setstate(state["python"])
    torch.set_rng_state(state["torch"])
    if "numpy" in state:
        import numpy

        numpy.random.set_state(state["numpy"])
    saved = state.get("cuda", [])
    here = torch.cuda.device_count() if saved and torch.cuda.is_available() else 0
    for index, gpu in enumerate(saved[:here]):
        torch.cuda.set_rng_state(gpu, index)
    return [f"generator of GPU {index}" for index in range(here, len(saved))]


def named_generators(rng: Any) -> dict[str, Any]:
    """The caller's own generators by name, given as one or as a mapping."""
    if rng is None:
        return {}
    named = dict(rng) if isinstance(rng, Mapping) else {"rng": rng}
    for name, generator in named.items():
        _generator_kind(generator, name=name)
    return named


def _generator_state(generator: Any, *, name: str) -> Any:
    kind = _generator_kind(generator, name=name)
    if kind == "rng":
        return generator.state()
    if kind == "python":
        return generator.getstate()
    return generator.get_state() if kind == "torch" else generator.bit_generator.state


def _restore_generator(generator: Any, state: Any, *, name: str) -> None:
    kind = _generator_kind(generator, name=name)
    if kind == "rng":
        generator.set_state(state)
    elif kind == "python":
        generator.setstate(state)
    elif kind == "torch":
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _generator_kind(generator: Any, *, name: str) -> str:
    if isinstance(generator, Rng):
        return "rng"
    if isinstance(generator, random.Random):
        return "python"
    if isinstance(generator, torch.Generator):
        return "torch"
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(generator, numpy.random.Generator):
        return "numpy"
    raise ValueTypeError(
        f"{name} must be an epochal Rng, a random.Random, a torch or a numpy Generator, "
        f"got {type(generator).__name__}."
    )
