from __future__ import annotations

import math

import pytest
import torch

from epochal.errors import UsageError
from epochal.recipes.gpt2.model import GPT, IGNORED, Shape

SMALL = Shape(vocab_size=32, context_length=8, num_layers=2, num_heads=2, embd_size=16)


def small() -> GPT:
    torch.manual_seed(0)
    return GPT(SMALL)


def test_the_default_is_the_124m_model() -> None:
    with torch.device("meta"):
        model = GPT(Shape())
    assert model.num_parameters == 124_475_904  # 124,439,808 published, and 47 rows of padding


def test_the_first_guess_is_that_every_token_is_as_likely() -> None:
    model = small()
    tokens, targets = torch.randint(32, (2, 64, 8))
    assert model(tokens, targets).item() == pytest.approx(math.log(32), rel=0.02)


def test_nothing_is_expected_from_what_comes_later() -> None:
    model, tokens = small(), torch.randint(32, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 32
    before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[0, :5], after[0, :5])
    assert not torch.equal(before[0, 5], after[0, 5])


def test_targets_that_are_ignored_count_for_nothing() -> None:
    model, tokens = small(), torch.randint(32, (2, 8))
    targets = tokens.clone()
    targets[1] = IGNORED
    assert model(tokens, targets).item() == pytest.approx(model(tokens[:1], tokens[:1]).item())


def test_every_parameter_is_in_one_group_and_only_matrices_decay() -> None:
    model = small()
    decayed, others = (group["params"] for group in model.decay_groups(0.1))
    assert isinstance(decayed, list)
    assert isinstance(others, list)
    assert len(decayed) + len(others) == len(list(model.parameters()))
    assert all(p.dim() >= 2 for p in decayed)
    assert all(p.dim() < 2 for p in others)


def test_what_is_added_to_the_stream_starts_smaller_and_norms_start_as_identity() -> None:
    model = small()
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
    added, inner = weights["h.0.mlp.c_proj.weight"], weights["h.0.mlp.c_fc.weight"]
    assert float(added.std() / inner.std()) == pytest.approx(0.5, rel=0.2)
    assert torch.all(model.ln_f.weight == 1)
    assert torch.all(model.ln_f.bias == 0)


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(UsageError, match="--embd_size 10 must be a multiple of --num_heads 4"):
        Shape(embd_size=10, num_heads=4)
