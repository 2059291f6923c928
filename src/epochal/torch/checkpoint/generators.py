"""The state of every random number generator a training draws from."""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch

from epochal.errors import UsageError, ValueTypeError
from epochal.torch.rng import Rng


def generators_state(own: Mapping[str, Any]) -> dict[str, Any]:
    """Python's, numpy's and torch's global generators, all GPUs', and the caller's own by name.

    Numpy's is kept where numpy is loaded, the GPUs' where CUDA is started.
    """
    state: dict[str, Any] = {
        "python": random.getstate(),
        "torch": torch.get_rng_state(),
        "own": {name: _state(generator, name=name) for name, generator in own.items()},
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
        _restore(generator, state["own"][name], name=name)
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
        _kind(generator, name=name)
    return named


def _state(generator: Any, *, name: str) -> Any:
    kind = _kind(generator, name=name)
    if kind == "rng":
        return generator.state()
    if kind == "python":
        return generator.getstate()
    return generator.get_state() if kind == "torch" else generator.bit_generator.state


def _restore(generator: Any, state: Any, *, name: str) -> None:
    kind = _kind(generator, name=name)
    if kind == "rng":
        generator.set_state(state)
    elif kind == "python":
        generator.setstate(state)
    elif kind == "torch":
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _kind(generator: Any, *, name: str) -> str:
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
