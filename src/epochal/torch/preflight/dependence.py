"""Questions to the outputs: what they depend on, and whether they come again."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import Answer, CannotTellError, failed, passed, unknown
from epochal.torch.preflight.subject import Subject

# A change is none below this share of the change that was asked for, times the rounding.
_SMALLEST = 1e-4
_ROUNDINGS = 4
_NOISES = 10
# Results that differ by less than this share, or so many roundings of short dtypes, are the same up
# to the order of additions.
_SAME, _SAME_ROUNDINGS = 1e-4, 0.25
_MOST_SAMPLES = 3


@dataclass(slots=True)
class Probe:
    """The predictions for the batch as it is, and how much they vary without a reason."""

    base: Tensor
    noise: float

    def change(self, other: Tensor) -> Tensor:
        """The largest change of each sample, or of each position of each sample."""
        if other.shape != self.base.shape:
            raise CannotTellError("other inputs give an output of another shape")
        rows = [_largest(a, b) for a, b in zip(self.base, other, strict=True)]
        return torch.stack(rows)

    def is_change(self, change: float, expected: float) -> bool:
        """Whether a change is more than rounding, beside one that was expected."""
        rounding = _ROUNDINGS * torch.finfo(self.base.dtype).eps
        return change > max(_SMALLEST, rounding) * expected and not self.is_noise(change)

    def check_noise(self) -> None:
        """Refuse to judge where two passes with the same seed differ by more than rounding."""
        if self.noise > _SMALLEST * float(self.base.float().abs().max()):
            raise CannotTellError("two passes with the same input give other outputs")

    def is_noise(self, change: float) -> bool:
        """Whether a change is no more than two passes differ by."""
        return change <= _NOISES * self.noise


def _largest(a: Tensor, b: Tensor) -> Tensor:
    """The largest difference, at each position if there are several."""
    difference = (a.float() - b.float()).abs()
    return difference.flatten(1).amax(1) if difference.dim() > 1 else difference.reshape(-1)


def probe_of(subject: Subject) -> Probe:
    """Ask for the predictions twice. The caller puts the model back."""
    subject.leave_zero()
    base = subject.predictions(subject.batch)
    if not bool(torch.isfinite(base).all()):
        raise CannotTellError("the output is not finite")
    probe = Probe(base, 0.0)
    probe.noise = float(probe.change(subject.predictions(subject.batch)).max())
    return probe


def ask_inputs(subject: Subject) -> Answer:
    """Does the output depend on the input at all?"""
    vocabularies = subject.vocabularies
    with subject.changing():
        probe = probe_of(subject)
        largest = 0.0
        for seed in (1, 2):
            other = subject.batch.perturbed(slice(None), vocabularies, seed)
            largest = max(largest, float(probe.change(subject.predictions(other)).max()))
    if probe.is_noise(largest):
        probe.check_noise()
        return failed("the output is the same for any input", change=largest)
    return passed("the output depends on the input", change=largest)


def ask_samples(subject: Subject) -> Answer:
    """Does every sample's output depend on its own input and, in eval mode, on no other's?"""
    size, vocabularies = subject.batch.size, subject.vocabularies
    if size < 2:
        raise CannotTellError("the batch has one sample")
    asked = sorted({0, size // 2, size - 1})[:_MOST_SAMPLES]
    deaf, leaks = [], []
    with subject.changing():
        probe = probe_of(subject)
        for sample in asked:
            other = subject.batch.perturbed(slice(sample, sample + 1), vocabularies)
            changes = probe.change(subject.predictions(other)).flatten(1).amax(1)
            own = float(changes[sample])
            changes[sample] = 0
            if probe.is_noise(own):
                deaf.append(sample)
            if probe.is_change(float(changes.max()), max(own, float(changes.max()) * 1e-3)):
                leaks.append((sample, int(changes.argmax()), float(changes.max())))
    if leaks:
        is_square = probe.base.shape[:2] == (size, size)
        return _leak(subject, leaks, is_square=is_square)
    if deaf:
        probe.check_noise()
        if subject.batch.mask is not None or not _depends(subject):
            raise CannotTellError(f"the input of sample {deaf[0]} changes no output")
        return failed(f"the output of sample {deaf[0]} does not depend on its input", samples=deaf)
    return passed(f"{len(asked)} samples change their own output and no other", samples=asked)


def _depends(subject: Subject) -> bool:
    return ask_inputs(subject).state == "pass"


def _leak(subject: Subject, leaks: list[tuple[int, int, float]], *, is_square: bool) -> Answer:
    changed, other, by = leaks[0]
    reason = f"in eval mode the output of sample {other} changes with the input of sample {changed}"
    facts = {"sample": changed, "changes": other, "by": by}
    experts = [n for n in subject.parameters if "expert" in n.lower() or "moe" in n.lower()]
    tensors = subject.batch.tensors.items()
    has_graph = any(isinstance(k, str) and ("edge" in k or "adj" in k) for k, _ in tensors) or any(
        (not t.is_floating_point() and t.dim() == 2 and t.shape[0] == 2 != subject.batch.size)
        or t.layout is not torch.strided
        for _, t in tensors
    )
    if is_square:
        return unknown(f"{reason}: the output may compare samples with each other", **facts)
    if subject.calls.joins or has_graph or experts:
        return unknown(
            f"{reason}: a graph, experts or a scale of all of them may join them", **facts
        )
    return failed(f"{reason} (by {by:.3g})", **facts)


# -- repetition -----------------------------------------------------------------------------------


def ask_repetition(subject: Subject) -> Answer:
    """Is the result the same twice with the same seed?"""
    results = []
    for _ in range(2):
        with subject.changing():
            results.append(_result(subject))
    first, second = results
    if not bool(torch.isfinite(first).all()):
        raise CannotTellError("the result is not finite")
    largest = float((first - second).abs().max())
    share = largest / max(float(first.abs().max()), 1e-30)
    dtypes = {p.dtype for p in subject.parameters.values() if p.is_floating_point()}
    rounding = max((torch.finfo(one).eps for one in dtypes), default=0.0)
    if share > max(_SAME, _SAME_ROUNDINGS * rounding):
        reason = f"two passes with the same seed differ by {100 * share:.2g} %"
        return failed(f"{reason}: something draws from another generator", difference=share)
    exactly = "exactly" if largest == 0 else f"up to rounding ({share:.1g})"
    return passed(
        f"two passes with the same seed give the same result, {exactly}", difference=share
    )


def _result(subject: Subject) -> Tensor:
    """The loss in training mode; the predictions where there is no loss."""
    loss, error = attempt(subject.loss)
    if loss is not None:
        return loss.detach().float()
    if not isinstance(error, CannotTellError):
        raise error or CannotTellError("there is no result")
    return subject.predictions(subject.batch, training=True).float()
