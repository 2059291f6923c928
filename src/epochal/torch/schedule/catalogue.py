"""Every schedule by its short name: how it is written as text and kept in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, cast

from epochal.errors import UsageError
from epochal.torch.schedule import formulas, wrappers
from epochal.torch.schedule.plateau import PlateauScheduler
from epochal.torch.schedule.scheduler import Scheduler

if TYPE_CHECKING:
    from torch.optim import Optimizer

    from epochal.torch.schedule.adapter import TorchSchedule

KINDS: Mapping[str, type[Scheduler]] = {
    "constant": formulas.ConstantLR,
    "linear": formulas.LinearLR,
    "step": formulas.StepDecay,
    "multistep": formulas.MultiStepLR,
    "exponential": formulas.ExponentialLR,
    "cosine": formulas.CosineScheduler,
    "onecycle": formulas.OneCycleLR,
    "cyclic": formulas.CyclicLR,
    "wsd": formulas.WSD,
    "inverse_sqrt": formulas.InverseSqrt,
    "warmup": wrappers.WarmupScheduler,
    "cooldown": wrappers.Cooldown,
    "override": wrappers.TemporaryOverride,
    "reduce": wrappers.PermanentReduction,
    "scale": wrappers.ScaledLR,
    "sequence": wrappers.SequentialLR,
    "plateau": PlateauScheduler,
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a schedule's text form."""

    name: str
    type_name: str
    required: bool
    default: Any = None


def name_of(schedule: Scheduler) -> str:
    """The short name of a schedule's kind; a kind of the user's own has none."""
    for name, kind in KINDS.items():
        if type(schedule) is kind:
            return name
    raise UsageError(
        f"{type(schedule).__name__} is not one of Epochal's own schedules, so it has no text form "
        "and no state."
    )


def parameters_of(name: str) -> tuple[Parameter, ...]:
    """The arguments of a kind in the order they are written."""
    found = [
        Parameter(
            name=item.name,
            type_name=str(item.type),
            required=item.default is MISSING and item.name != "target_lr",
            default=None if item.default is MISSING else item.default,
        )
        for item in fields(cast(Any, KINDS[name]))
        if item.init
    ]
    # The target of a warm-up is seldom said: required arguments come first.
    return tuple(sorted(found, key=lambda parameter: not parameter.required))


def state_of(schedule: Scheduler) -> dict[str, Any]:
    """A schedule as plain JSON values, its kind under ``schedule``."""
    names = [item.name for item in fields(cast(Any, schedule))] if _is_ours(schedule) else []
    return {
        "schedule": name_of(schedule),
        **{name: _plain(getattr(schedule, name)) for name in names},
    }


def schedule_from(state: Mapping[str, Any]) -> Scheduler:
    """The schedule that :func:`state_of` described; a ValueError names what does not fit."""
    values = dict(state)
    kind = KINDS.get(values.pop("schedule", ""))
    if kind is None:
        raise UsageError(
            f"state must name one of {', '.join(KINDS)} under 'schedule', "
            f"got {state.get('schedule')!r}."
        )
    known = {item.name: item for item in fields(cast(Any, kind))}
    if set(values) != set(known):
        raise UsageError(
            f"state must hold {', '.join(known)}, got {', '.join(values) or 'nothing'}."
        )
    read = {name: _read(value) for name, value in values.items()}
    schedule = kind(**{name: value for name, value in read.items() if known[name].init})
    for name, value in read.items():
        if not known[name].init:
            setattr(schedule, name, value)
    return schedule


def torch_schedule(optimizer: Optimizer, *schedules: Scheduler) -> TorchSchedule:
    """Drive an optimizer by one schedule, or by one for each of its parameter groups."""
    # A schedule has a text form and a state without torch, so torch is imported only here.
    from epochal.torch.schedule.adapter import TorchSchedule

    return TorchSchedule(optimizer, *schedules)


def _is_ours(schedule: Scheduler) -> bool:
    return type(schedule) in KINDS.values()


def _plain(value: Any) -> Any:
    if isinstance(value, Scheduler):
        return value.state()
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return schedule_from(value)
    return tuple(_read(item) for item in value) if isinstance(value, (list, tuple)) else value
