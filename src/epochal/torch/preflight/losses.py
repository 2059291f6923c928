"""Questions to the loss: where it starts, and whether it fits what it is given."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import Answer, CannotTellError, failed, passed, unknown
from epochal.torch.preflight.calls import BINARY, CLASSIFYING, LossCall
from epochal.torch.preflight.program import NO_LOSS
from epochal.torch.preflight.sequences import aligned_targets, offset_of_labels
from epochal.torch.preflight.subject import Subject

# A loss at the start of so many times an ignorant model's is wrong; from the second on, of squares.
_TOO_HIGH, _SQUARES_TOO_HIGH = 10.0, 1000.0
# Probabilities add up to 1 within this, in short dtypes as well.
_SUM_TOLERANCE = 0.02
_NO_CALL = "the loss calls no loss function of torch that is read here"


def _loss_call(subject: Subject) -> tuple[LossCall, float]:
    calls, loss = subject.observed
    if loss is None:
        raise CannotTellError(NO_LOSS)
    if calls.main is None:
        raise CannotTellError(_NO_CALL)
    return calls.main, loss


# -- the start ------------------------------------------------------------------------------------


def ask_start(subject: Subject) -> Answer:
    """What is the loss at the start, against what an ignorant model has?"""
    _, loss = subject.observed
    if loss is not None and not math.isfinite(loss):
        return failed(f"the loss at the start is {loss}", loss=loss)
    call, _ = _loss_call(subject)
    ignorant, what = _ignorant(call)
    value = _mean_of(call)
    facts = {"loss": value, "ignorant": ignorant, "labels": what}
    sentence = f"the loss starts at {value:.3g}, an ignorant model has {ignorant:.3g} ({what})"
    ratio = value / ignorant
    limit = _SQUARES_TOO_HIGH if call.name not in (*CLASSIFYING, *BINARY) else _TOO_HIGH
    if ratio <= min(limit, _TOO_HIGH):
        return passed(sentence, **facts)
    if ratio <= limit or _is_tied(subject):
        return unknown(f"{sentence}: outputs are large, which costs the first steps", **facts)
    return failed(f"{sentence}: the scale of outputs or targets is wrong", **facts)


def _ignorant(call: LossCall) -> tuple[float, str]:
    """The loss of the best constant answer, and what it follows from."""
    if call.name in CLASSIFYING:
        classes = call.classes
        if classes < 2:
            raise CannotTellError("the loss has one class")
        entropy = _entropy(call)
        also = "" if entropy is None else f"; entropy of the labels {entropy:.3g}"
        return math.log(classes), f"log of {classes} classes{also}"
    target = call.target.float()
    if call.name in BINARY:
        return math.log(2), "log of 2"
    if target.shape[0] < 2:
        raise CannotTellError("the batch has one target")
    if call.name == "mse_loss":
        spread, what = float(target.var(0, correction=0).mean()), "variance of the targets"
    else:
        middle = target.median(0).values
        spread, what = float((target - middle).abs().mean()), "deviation of the targets"
    if spread <= 0:
        raise CannotTellError("all targets of the batch are equal")
    return spread, what


def _entropy(call: LossCall) -> float | None:
    if not call.has_class_labels:
        return None
    valid = call.target[call.target != call.ignored]
    if not valid.numel():
        return None
    shares = torch.unique(valid, return_counts=True)[1].double() / valid.numel()
    return float(-(shares * shares.log()).sum())


def _mean_of(call: LossCall) -> float:
    if call.reduction == "sum":
        count = call.target.numel()
        if call.has_class_labels:
            count = int((call.target != call.ignored).sum())
        return float(call.result) / max(count, 1)
    return float(call.result.float().mean())


def _is_tied(subject: Subject) -> bool:
    """Whether a parameter has two names, such as that of an embedding and of the last layer."""
    every = [id(p) for _, p in subject.model.named_parameters(remove_duplicate=False)]
    return len(every) != len(set(every))


# -- the fit --------------------------------------------------------------------------------------


def ask_loss(subject: Subject) -> Answer:
    """Do reduction, softmax, padding and ignored labels fit the loss?"""
    main, loss = _loss_call(subject)
    wrong: list[str] = []
    doubtful: list[str] = []
    for call in subject.calls.losses:
        wrong += [_probabilities(call), _broadcast(call), _all_ignored(call)]
    reduction = _sum_over_batch(main, loss)
    (wrong if main.name in CLASSIFYING else doubtful).append(reduction)
    wrong.append(_padding(subject, main))
    found = [one for one in wrong if one]
    if found:
        return failed("; ".join(found), function=main.name)
    maybe = [one for one in doubtful if one]
    if maybe:
        return unknown("; ".join(maybe), function=main.name)
    share = float((main.target == main.ignored).float().mean()) if main.has_class_labels else 0.0
    also = f", {100 * share:.0f} % of the labels are ignored" if share else ""
    return passed(f"{main.name} gets what it expects{also}", function=main.name, ignored=share)


def _probabilities(call: LossCall) -> str:
    """What was computed too much or too little before the loss."""
    if call.name in CLASSIFYING and call.classes > 1:
        rows = call.rows().float()
        if call.name == "nll_loss":
            is_log = bool((rows.logsumexp(1).abs() < _SUM_TOLERANCE).all())
            return "" if is_log else "nll_loss gets values that are not of log_softmax"
        sums = (rows.sum(1) - 1).abs() < _SUM_TOLERANCE
        if bool(sums.all()) and float(rows.min()) >= 0:
            return "cross_entropy gets probabilities: softmax is applied twice"
    if call.name == "binary_cross_entropy_with_logits" and call.made_by.startswith("Sigmoid"):
        return f"{call.name} gets probabilities: sigmoid is applied twice"
    return ""


def _broadcast(call: LossCall) -> str:
    if call.name in CLASSIFYING or call.shape == call.target.shape:
        return ""
    shape, _ = attempt(torch.broadcast_shapes, call.shape, call.target.shape)
    if shape is None or shape.numel() <= max(call.shape.numel(), call.target.numel()):
        return ""
    given, target = list(call.shape), list(call.target.shape)
    return f"{call.name} compares {given} with {target}, which makes {list(shape)} of them"


def _all_ignored(call: LossCall) -> str:
    if not call.has_class_labels or not bool((call.target == call.ignored).all()):
        return ""
    return f"every label is {call.ignored}, which {call.name} ignores"


def _sum_over_batch(call: LossCall, loss: float) -> str:
    size = call.target.shape[0] if call.target.dim() else 1
    result = float(call.result.float().sum())
    is_same = math.isclose(result, loss, rel_tol=1e-3)
    if call.reduction != "sum" or size < 2 or not is_same:
        return ""
    return f"the loss is a sum over {size} targets: gradients grow with the size of the batch"


def _padding(subject: Subject, call: LossCall) -> str:
    """Labels of padding that count."""
    key, mask = subject.batch.token_key, subject.batch.mask
    config = getattr(subject.model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        return _padding_of_decoder(subject, config)
    if key is None or mask is None:
        return ""
    tokens = subject.batch.tensors[key]
    targets = aligned_targets(call, tokens)
    if targets is None or mask.shape != tokens.shape:
        return ""
    is_next = targets.shape[1] < tokens.shape[1] or attempt(offset_of_labels, subject)[0] == 1
    shift = int(is_next)
    padded = mask[:, shift : shift + targets.shape[1]] == 0
    counted = padded & (targets[:, : padded.shape[1]] != call.ignored)
    return _counted(counted, targets)


def _padding_of_decoder(subject: Subject, config: object) -> str:
    labels, pad = subject.batch.labels, getattr(config, "pad_token_id", None)
    if labels is None or pad is None or pad == getattr(config, "eos_token_id", None):
        return ""
    return _counted(labels == pad, labels)


def _counted(counted: Tensor, targets: Tensor) -> str:
    number = int(counted.sum())
    if not number:
        return ""
    return f"{number} of {targets.numel()} labels are padding, and they count in the loss"
