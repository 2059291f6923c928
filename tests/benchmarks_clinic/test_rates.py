"""Whether a healthy training is healthy, by other rates."""

import math

import pytest

pytest.importorskip("torch")

from benchmarks.clinic.rates import VARIANTS, Trial, attempt, is_better, markdown

pytestmark = pytest.mark.slow


def test_better_means_every_seed_and_more_than_seeds_differ() -> None:
    assert is_better([0.5, 0.6], than=[0.7, 0.82])
    assert not is_better([0.5, 0.9], than=[0.7, 0.82])
    assert not is_better([0.699, 0.819], than=[0.7, 0.82])
    assert not is_better([0.69, 0.6], than=[0.7, 0.82])


def test_what_ends_is_better_than_what_is_lost() -> None:
    assert is_better([0.5, 0.6], than=[math.nan, 0.4])
    assert not is_better([0.5, math.inf], than=[0.7, 0.8])


def test_a_lower_rate_gives_another_result() -> None:
    own, less = (attempt("linear/sgd", variant, 0) for variant in ("as it is", "a third"))
    assert own.result != less.result
    assert all(map(math.isfinite, (own.result, less.result, own.final_loss)))


def test_a_table_says_what_is_too_high() -> None:
    results = {"a third": 0.5, "as it is": 0.7, "three times": 2.0, "warm-up": 0.7}
    found = [Trial("mlp/adamw", variant, 0, results[variant], 0.1) for variant in VARIANTS]
    assert markdown(found).splitlines()[-1].endswith("| 0.5 | 0.7 | 2 | 0.7 | too high |")
