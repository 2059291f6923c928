"""The question that trains: does a copy of the model overfit this one batch?"""

from __future__ import annotations

import math
import time
from typing import Any

import torch

from epochal.records.format import plural
from epochal.torch.preflight.answer import Answer, CannotTellError, failed, passed, unknown
from epochal.torch.preflight.optimizer import default_optimizer, optimizer_for_copy, rate_of
from epochal.torch.preflight.program import NO_LOSS
from epochal.torch.preflight.subject import Subject, free_bytes

# The rates that are tried, as factors of the optimizer's own.
_FACTORS = (1.0, 0.1, 10.0, 0.01)
_STEPS = 40
_FEWEST_STEPS = 5
# A rate fits the batch when this share of the loss is gone, and is none below the second. The
# optimizer's own goes on to the third.
_FITS, _FALLS, _GONE = 0.5, 0.02, 0.9
# Below this share the loss has not fallen at all.
_NOTHING = 1e-3
# A rate is too high when the loss ends at so many times its start.
_DIVERGED = 2.0
# The share of the time that is left which all rates together may take.
_SHARE_OF_TIME = 0.8
_SMALL_LOSS = 1e-3


def ask_overfit(subject: Subject) -> Answer:
    """Does a copy overfit this one batch in a bounded number of steps, and at which rates?"""
    _check_room(subject)
    own = rate_of(subject.optimizers)
    start = subject.observed[1]
    if start is None:
        raise CannotTellError(NO_LOSS)
    if abs(start) < _SMALL_LOSS:
        return passed(f"the loss of this batch is {start:.2g} before any step", loss=start)
    losses: dict[float, list[float]] = {}
    ends_at = time.monotonic() + _SHARE_OF_TIME * max(subject.seconds_left, 0.0)
    for index, factor in enumerate(_FACTORS):
        left = (ends_at - time.monotonic()) / (len(_FACTORS) - index)
        with subject.changing():
            losses[own * factor] = _train(subject, factor, left)
    return _judged(losses, own, has_schedule=_has_schedule(subject))


def _check_room(subject: Subject) -> None:
    if not subject.is_copy:
        raise CannotTellError("no independent copy of the model could be made to train")
    if not subject.trainable:
        raise CannotTellError("every parameter is frozen")
    trainable = [subject.parameters[name] for name in subject.trainable]
    needed = 3 * sum(one.numel() * one.element_size() for one in trainable)
    if free_bytes(subject.device) < needed:
        raise CannotTellError(f"training a copy needs {needed / 2**30:.1f} GiB of free memory")


def _optimizers(subject: Subject, factor: float) -> list[Any]:
    if not subject.optimizers:
        return [default_optimizer(subject, factor)]
    made = [optimizer_for_copy(subject, one, factor) for one in subject.optimizers]
    return [one for one in made if any(group["params"] for group in one.param_groups)]


def _train(subject: Subject, factor: float, seconds: float) -> list[float]:
    """The losses of some steps on the batch, each with the same random numbers."""
    enough = _GONE if factor == 1 else _FITS
    optimizers = _optimizers(subject, factor)
    losses: list[float] = []
    ends_at = time.monotonic() + seconds
    for _ in range(_STEPS):
        losses.append(_step(subject, optimizers))
        if not math.isfinite(losses[-1]) or _drop(losses) >= enough:
            break
        if time.monotonic() > ends_at:
            break
    return losses


def _step(subject: Subject, optimizers: list[Any]) -> float:
    for parameter in subject.parameters.values():
        parameter.grad = None
    with torch.enable_grad():
        loss = subject.loss()
        loss.backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        optimizer.step()
    return float(loss.detach())


def _drop(losses: list[float]) -> float:
    """The share of the first loss that is gone; of a loss below zero, how far it fell."""
    return (losses[0] - min(losses)) / max(abs(losses[0]), _SMALL_LOSS)


def _judged(losses: dict[float, list[float]], own: float, *, has_schedule: bool) -> Answer:
    steps = max(map(len, losses.values()))
    high = sorted(rate for rate, row in losses.items() if _has_diverged(row))
    fits = sorted(rate for rate, row in losses.items() if rate not in high and _drop(row) >= _FITS)
    falls = sorted(r for r, row in losses.items() if r not in high and _drop(row) >= _FALLS)
    best = max(losses, key=lambda rate: -1 if rate in high else _drop(losses[rate]))
    row = losses[best]
    facts = {"steps": steps, "fits": fits, "falls": falls, "too_high": high, "own": own}
    sentence = f"the loss of this batch falls from {row[0]:.3g} to {min(row):.3g} at lr {best:g}"
    allowed = f"it falls at {_rates(falls)}" + (f", diverges at {_rates(high)}" if high else "")
    if own in high and falls and not has_schedule:
        return failed(f"lr {own:g} diverges on this one batch; {allowed}", **facts)
    if fits:
        return passed(f"{sentence}; {allowed}", **facts)
    if steps < _STEPS // 2:
        return unknown(f"there was time for {plural(steps, 'step')} only; {sentence}", **facts)
    if _drop(row) > _NOTHING:
        return unknown(f"{sentence} in {plural(len(row), 'step')}, and no further", **facts)
    return failed(f"no rate of {_rates(sorted(losses))} lowers the loss of this batch", **facts)


def _has_diverged(losses: list[float]) -> bool:
    last = losses[-1]
    rise = last - losses[0]
    return not math.isfinite(last) or rise > (_DIVERGED - 1) * max(abs(losses[0]), _SMALL_LOSS)


def _rates(rates: list[float]) -> str:
    return "lr " + ", ".join(f"{rate:g}" for rate in rates) if rates else "no rate"


def _has_schedule(subject: Subject) -> bool:
    """Whether a schedule sets the rate, which may begin far lower."""
    groups = [group for one in subject.optimizers for group in one.param_groups]
    return any("initial_lr" in group for group in groups)
