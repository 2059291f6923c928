"""Whether a healthy training is healthy, by other rates."""

import math
from pathlib import Path

import pytest

pytest.importorskip("torch")

from benchmarks.clinic.rates import (
    VARIANTS,
    Trial,
    attempt,
    best_factor,
    is_better,
    markdown,
    trials,
)

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


def test_the_best_rate_has_no_better_one_beside_it() -> None:
    results = {"a third": 0.9, "as it is": 0.7, "three times": 0.5, "nine times": 0.4}
    assert best_factor({name: {0: one, 1: one} for name, one in results.items()}) == "nine times"
    assert best_factor({"as it is": {0: 0.7}, "nine times": {0: 0.4}}) == "as it is"


def test_results_are_compared_by_the_seeds_that_both_have() -> None:
    found = [Trial("mlp/adamw", "as it is", seed, 0.7, 0.1) for seed in range(3)]
    found.append(Trial("mlp/adamw", "three times", 2, 0.5, 0.1))
    row = markdown(found).splitlines()[-1]
    assert row.endswith("| 0.7, 0.7, 0.7 | 0.5 | too low |")


def test_time_that_is_up_ends_the_trials(tmp_path: Path) -> None:
    path = tmp_path / "trials.jsonl"
    assert trials(("linear/sgd",), seeds=1, jobs=1, minutes=0.0, to=path) == []
    assert path.read_text() == ""


def test_a_table_says_what_is_too_high() -> None:
    results = {"a third": 0.5, "as it is": 0.7, "three times": 2.0, "warm-up": 0.7}
    found = [Trial("mlp/adamw", variant, 0, results[variant], 0.1) for variant in VARIANTS]
    assert markdown(found).splitlines()[-1].endswith("| 0.5 | 0.7 | 2 | 0.7 | too high |")
