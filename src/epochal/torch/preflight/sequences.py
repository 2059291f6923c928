"""Questions to models of sequences: what a position sees, and what its label is."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch import Tensor

from epochal.base.guard import attempt
from epochal.torch.preflight.answer import Answer, CannotTellError, failed, passed, unknown
from epochal.torch.preflight.calls import LossCall
from epochal.torch.preflight.dependence import probe_of
from epochal.torch.preflight.subject import Subject

# Labels are the tokens at an offset if so many of those that can tell are.
_MATCHING, _FEWEST = 0.99, 8
_OFFSETS = (-1, 0, 1, 2)


def ask_positions(subject: Subject) -> Answer:
    """Does a position's output depend on later positions, where the model is meant to be causal?"""
    if subject.causal is False:
        return passed("the model is not meant to be causal, as you said")
    key, is_meant, why = _meant_to_be_causal(subject)
    if is_meant is False:
        return passed(f"the model is not meant to be causal: {why}")
    vocabularies = subject.vocabularies
    length = subject.batch.tensors[key].shape[1]
    with subject.changing():
        probe = probe_of(subject)
        if probe.base.dim() < 2 or probe.base.shape[1] not in (length, length - 1):
            raise CannotTellError("the output has not one entry for each position")
        leaks: dict[int, float] = {}
        for position in _positions(length, is_label=key == subject.batch.label_key):
            other = subject.batch.perturbed_after(key, position, vocabularies)
            changes = probe.change(subject.predictions(other)).amax(0)
            earlier, later = float(changes[:position].max()), changes[position:]
            expected = float(later.max()) if later.numel() else 0.0
            if probe.is_change(earlier, max(expected, earlier * 1e-3)):
                leaks[position] = earlier
            elif later.numel() and probe.is_noise(expected):
                raise CannotTellError(f"tokens from position {position} on change no output")
    if not leaks:
        return passed("no position's output depends on later positions", causal=True)
    position, by = next(iter(leaks.items()))
    reason = (
        f"outputs before position {position} change with the tokens from there on (by {by:.3g})"
    )
    if is_meant:
        return failed(f"{reason}: {why}, so it sees the answers", position=position, by=by)
    return unknown(f"{reason}; causal=True says that they must not", position=position, by=by)


def _meant_to_be_causal(subject: Subject) -> tuple[Hashable, bool | None, str]:
    """Which tokens are asked, whether later ones must not be seen, and why; None if unknown."""
    config = getattr(subject.model, "config", None)
    kind = type(subject.model).__name__
    if getattr(config, "is_encoder_decoder", False):
        for name in ("decoder_input_ids", "labels"):
            tensor = subject.batch.tensors.get(name)
            if tensor is not None and tensor.dim() == 2 and tensor.shape[1] > 1:
                return name, True, "a decoder generates from left to right"
        raise CannotTellError("the batch has no tokens for the decoder")
    key = subject.batch.token_key
    if key is None:
        raise CannotTellError("the inputs are no sequences of tokens")
    if subject.causal:
        return key, True, "causal=True"
    if getattr(config, "is_decoder", False) or kind.endswith(("ForCausalLM", "LMHeadModel")):
        return key, True, f"{kind} is a causal language model"
    if "MaskedLM" in kind:
        return key, False, f"{kind} fills in masked tokens"
    if attempt(offset_of_labels, subject)[0] == 1:
        return key, True, "the labels are the next tokens"
    with subject.changing():
        shape = subject.predictions(subject.batch).shape
    if len(shape) < 3 or shape[-1] < subject.vocabularies.get(key, shape[-1] + 1):
        raise CannotTellError("nothing says that the model is meant to be causal: pass causal=")
    return key, None, "tokens in, logits over the vocabulary out"


def _positions(length: int, *, is_label: bool) -> list[int]:
    """Where other tokens begin. The last label is no input of a decoder."""
    last = length - 1 - is_label
    return sorted({one for one in (1, length // 2, last) if 0 < one <= last})


# -- labels ---------------------------------------------------------------------------------------


def ask_labels(subject: Subject) -> Answer:
    """Are the labels equal to the inputs at their place, or shifted?"""
    if subject.batch.token_key is None:
        return _ask_targets(subject)
    offset = offset_of_labels(subject)
    if offset == 1:
        return passed("each label is the next token", offset=1)
    meant, _ = attempt(_meant_to_be_causal, subject)
    is_causal = meant is not None and meant[1] is True
    if offset == 0:
        seen, _ = attempt(ask_positions, subject)
        if is_causal or (seen is not None and seen.facts.get("causal")):
            reason = "each label is the token at its own place, which the model sees"
            return failed(f"{reason}: shift the labels by one", offset=0)
        return unknown(
            "each label is the token at its own place, which suits autoencoders", offset=0
        )
    if offset == 2 or (offset == -1 and is_causal):
        what = "two tokens ahead: they are shifted twice" if offset == 2 else "the token before"
        return failed(f"each label is {what}", offset=offset)
    if is_causal and meant is not None and meant[0] != subject.batch.label_key:
        return unknown("the labels are not the next tokens")
    return passed("the labels are neither the inputs nor shifted inputs", offset=offset)


def _ask_targets(subject: Subject) -> Answer:
    labels = subject.batch.labels
    if labels is None:
        raise CannotTellError("no labels are known in the batch")
    for one in subject.batch.inputs.values():
        if one.shape == labels.shape and one.dtype == labels.dtype and torch.equal(one, labels):
            return unknown("the targets are equal to the inputs, which suits autoencoders")
    return passed("the labels are not equal to the inputs")


def offset_of_labels(subject: Subject) -> int | None:
    """By how many positions the labels that the loss sees are ahead of the tokens."""
    key, main = subject.batch.token_key, subject.calls.main
    if key is None:
        raise CannotTellError("the inputs are no sequences of tokens")
    tokens = subject.batch.tensors[key]
    targets = subject.batch.labels if main is None else aligned_targets(main, tokens)
    if targets is None or targets.shape[:1] != tokens.shape[:1] or targets.dim() != 2:
        raise CannotTellError("the labels have not one entry for each position")
    ignored = -100 if main is None else main.ignored
    shares = {
        offset: share
        for offset in _OFFSETS
        if (share := _share_equal(tokens, targets, ignored, offset)) is not None
    }
    if not shares:
        raise CannotTellError("the batch has too few labels")
    best = max(shares, key=lambda offset: shares[offset])
    if main is None and (best != 1 or shares[best] < _MATCHING):
        raise CannotTellError("the loss, which may shift the labels, calls no function of torch")
    return best if shares[best] >= _MATCHING else None


def aligned_targets(call: LossCall | None, tokens: Tensor) -> Tensor | None:
    """The targets of a loss as one row for each sequence; None if they are not of positions."""
    if call is None or not call.has_class_labels:
        return None
    size, length = tokens.shape
    if call.target.numel() not in (size * length, size * (length - 1)):
        return None
    return call.target.reshape(size, -1)


def _share_equal(tokens: Tensor, targets: Tensor, ignored: int, offset: int) -> float | None:
    """The share of labels equal to the token at an offset, where its neighbours are others.

    None if there are too few.
    """
    length = tokens.shape[1]
    start = max(0, -offset)
    end = max(start, min(targets.shape[1], length - max(0, offset)))
    mine, theirs = targets[:, start:end], tokens[:, start + offset : end + offset]
    differs = torch.ones_like(tokens, dtype=torch.bool)
    differs[:, 1:] = tokens[:, 1:] != tokens[:, :-1]
    differs[:, :-1] &= differs[:, 1:].clone()
    counted = (mine != ignored) & differs[:, start + offset : end + offset]
    if int(counted.sum()) < _FEWEST:
        return None
    return float(((mine == theirs) & counted).sum() / counted.sum())
