"""Questions to the parameters: their gradients, their optimizer, their dtype."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from epochal.base.guard import attempt
from epochal.records.format import plural
from epochal.torch.preflight.answer import (
    Answer,
    CannotTellError,
    count_of,
    failed,
    passed,
    some_names,
    unknown,
)
from epochal.torch.preflight.optimizer import optimizer_for_copy, rate_of
from epochal.torch.preflight.subject import Subject
from epochal.torch.structure import named_parameters

# Names of parts that a batch may leave out on purpose.
_OPTIONAL = ("expert", "moe", "router", "gate", "pooler", "mask_token", "masked_spec_embed")
# From this share of lost updates on, a parameter is not trained.
_LOST = 0.5


def ask_gradients(subject: Subject) -> Answer:
    """Which trainable parameters get a gradient from this loss?"""
    if not subject.trainable:
        raise CannotTellError("every parameter is frozen")
    expected = _expected(subject)
    missing, zero = _without_gradient(subject, expected)
    optional = [name for name in missing if any(part in name.lower() for part in _OPTIONAL)]
    certain = [name for name in missing if name not in optional]
    frozen = len(subject.parameters) - len(subject.trainable)
    facts = {"trainable": len(subject.trainable), "frozen": frozen, "missing": missing}
    if certain:
        return failed(
            f"{count_of(certain)} of {len(expected)} get no gradient from this loss", **facts
        )
    matrices = [name for name in expected if subject.parameters[name].dim() > 1]
    if not math.isfinite(subject.observed[1] or 0.0):
        raise CannotTellError("the loss is not finite")
    if zero and len(zero) > len(matrices) / 2:
        reason = f"the gradient of {count_of(zero)} is zero in every element"
        return failed(f"{reason}: no gradient passes through what follows", **facts, zero=zero)
    if optional or zero:
        names = optional or zero
        reason = f"{count_of(names)} get no gradient from this batch, others may use them"
        return unknown(reason, **facts, zero=zero)
    on_purpose = f", {frozen} are frozen on purpose" if frozen else ""
    return passed(f"all {len(expected)} trainable parameters get a gradient{on_purpose}", **facts)


def _expected(subject: Subject) -> list[str]:
    """The names that should get a gradient: those that an optimizer updates, if one is known."""
    known = _names_in_optimizers(subject)
    return [name for name in subject.trainable if not subject.optimizers or name in known]


def _without_gradient(subject: Subject, expected: list[str]) -> tuple[list[str], list[str]]:
    """The parameters without a gradient, and the matrices whose gradient is zero.

    Layers may be dropped at random: those without one are asked again, in eval mode as well.
    """
    with subject.changing():
        subject.leave_zero()
        missing, zero = _sorted_out(subject.backward(), expected)
    for is_training in (True, False):
        if not missing and not zero:
            break
        with subject.changing():
            subject.leave_zero()
            gradients, _ = attempt(subject.backward, 1, training=is_training)
        if gradients is None:  # some layers have no backward pass in eval mode
            break
        still = _sorted_out(gradients, expected)
        missing, zero = missing & (still[0] | still[1]), (zero | missing) & still[1]
    return [n for n in expected if n in missing], [n for n in expected if n in zero]


def _sorted_out(
    gradients: dict[str, Tensor | None], expected: list[str]
) -> tuple[set[str], set[str]]:
    found = {name: gradients[name] for name in expected}
    missing = {name for name, gradient in found.items() if gradient is None}
    zero = {
        name
        for name, gradient in found.items()
        if gradient is not None
        and gradient.dim() > 1
        and not gradient.is_sparse
        and gradient.numel()
        and not gradient.any()
    }
    return missing, zero


def ask_optimizer(subject: Subject) -> Answer:
    """Which trainable parameters are in no optimizer?"""
    if not subject.optimizers:
        raise CannotTellError("no optimizer was given: pass optimizer=")
    known = _names_in_optimizers(subject)
    own = {id(one) for one in subject.original.parameters()}
    loss_fn = subject.program.loss_fn
    if isinstance(loss_fn, torch.nn.Module):
        own |= {id(one) for one in loss_fn.parameters()}
    strangers = sum(
        id(one) not in own
        for optimizer in subject.optimizers
        for group in optimizer.param_groups
        for one in group["params"]
    )
    outside = [name for name in subject.trainable if name not in known]
    also = f"; it has {plural(strangers, 'parameter')} of another model" if strangers else ""
    facts = {"outside": outside, "strangers": strangers}
    if outside:
        with subject.changing():
            gradients = subject.backward()
        updated = [name for name in outside if gradients[name] is not None]
        if updated:
            reason = f"{count_of(updated)} get a gradient and are in no optimizer{also}"
            return failed(reason, **facts)
    if strangers:
        return unknown(f"every parameter is in an optimizer{also}, or of an older self", **facts)
    return passed(f"all {len(known)} parameters that get a gradient are in an optimizer", **facts)


def _names_in_optimizers(subject: Subject) -> set[str]:
    theirs = {
        id(one)
        for optimizer in subject.optimizers
        for group in optimizer.param_groups
        for one in group["params"]
    }
    return {name for name, one in named_parameters(subject.original) if id(one) in theirs}


def ask_precision(subject: Subject) -> Answer:
    """Are gradients finite, and are updates not rounded away in the dtype of the weights?"""
    with subject.changing():
        gradients = {n: g for n, g in subject.backward().items() if g is not None}
    if not gradients:
        raise CannotTellError("no parameter gets a gradient")
    bad = [name for name, one in gradients.items() if not bool(torch.isfinite(one).all())]
    if bad:
        return failed(f"the gradient of {count_of(bad)} is not finite", nonfinite=bad)
    del gradients
    dtypes = {subject.parameters[name].dtype for name in subject.trainable}
    short = [one for one in dtypes if one in (torch.bfloat16, torch.float16)]
    names = ", ".join(sorted(str(one).removeprefix("torch.") for one in dtypes))
    if not short:
        return passed(f"all gradients are finite, in {names}", dtypes=names)
    if not subject.optimizers:
        return unknown(f"gradients are finite; without optimizer= updates in {names} are unknown")
    lost = _lost_updates(subject)
    share, rate = sum(lost.values()) / max(len(lost), 1), rate_of(subject.optimizers)
    facts = {"dtypes": names, "lost": share, "lr": rate}
    worst = sorted(lost, key=lambda name: -lost[name])
    if lost and share > _LOST:
        return failed(
            f"{100 * share:.0f} % of the updates at lr {rate:g} are rounded away in {names}"
            f" ({some_names(worst)}): keep the weights in float32",
            **facts,
        )
    return passed(
        f"all gradients are finite, {100 * share:.0f} % of updates are rounded away", **facts
    )


def _lost_updates(subject: Subject) -> dict[str, float]:
    """The share of elements with a gradient that one step leaves as they were, by parameter."""
    if any(not type(one).__module__.startswith("torch.optim") for one in subject.optimizers):
        raise CannotTellError("gradients are finite; an optimizer of your own may keep remainders")
    if not subject.is_copy:
        raise CannotTellError("gradients are finite; no copy of the model could take a step")
    with subject.changing():
        gradients = subject.backward()
        before = {n: subject.parameters[n].detach().clone() for n in subject.trainable}
        for optimizer in subject.optimizers:
            optimizer_for_copy(subject, optimizer, 1.0).step()
        lost: dict[str, float] = {}
        for name, gradient in gradients.items():
            if gradient is not None and gradient.element_size() < 4 and bool(gradient.any()):
                counted = gradient != 0
                same = (subject.parameters[name] == before[name]) & counted
                lost[name] = float(same.sum() / counted.sum())
        return lost
