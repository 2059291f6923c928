from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from epochal import reading
from epochal.store.difference import Difference, holm
from epochal.store.groups import best_index
from tests.store.journals import Journal

# By hand: differences 1.0, 1.2, 0.8, 1.1 have mean 1.025 and standard error 0.0853912563829967;
# the quantile of t with 3 degrees of freedom is 3.182446305284263.
FIRST, SECOND = [1.0, 2.0, 3.0, 4.0], [2.0, 3.2, 3.8, 5.1]


def compared(
    root: Path, groups: dict[object, list[float]], *, seeds: dict[object, list[int]] | None = None
) -> list[Difference]:
    for lr, values in groups.items():
        for index, value in enumerate(values):
            seed = index if seeds is None else seeds[lr][index]
            config = {"lr": lr, "seed": seed}
            Journal(root, f"{lr}-{index}", config=config).metrics(1, loss=value).finish()
    with reading.open(root) as runs:
        return runs.groups(by=["lr"]).differences("loss")


def test_groups_with_the_same_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: FIRST, 0.2: SECOND})
    assert one.is_paired
    assert (one.units, one.winner) == (4, 0)
    assert one.difference == pytest.approx(-1.025)
    half = 3.182446305284263 * 0.0853912563829967
    assert (one.low, one.high) == pytest.approx((-1.025 - half, -1.025 + half))
    assert one.p == pytest.approx(0.0012439231496056522, abs=1e-9)  # by SciPy
    assert one.sentence == (
        "lr=0.1 beats lr=0.2 by 1.0250 ± 0.2718 in loss over 4 seeds, in pairs (p = 0.0012)."
    )


def test_groups_with_other_seeds_are_compared_by_welch(tmp_path: Path) -> None:
    seeds: dict[object, list[int]] = {0.1: [0, 1, 2, 3], 0.2: [4, 5, 6, 7]}
    (one,) = compared(tmp_path, {0.1: FIRST, 0.2: SECOND}, seeds=seeds)
    assert not one.is_paired
    assert one.p == pytest.approx(0.30414431893715693, abs=1e-9)  # by SciPy
    assert one.winner is None
    # As far as the first is ahead, so with the sign of "ahead by", not of the difference.
    assert one.sentence == (
        "lr=0.1 is ahead of lr=0.2 by 1.0250 in loss over 4 seeds: the 95 % interval of the"
        f" difference, {-one.high:.4f} to {-one.low:.4f}, holds 0, so there is no winner."
    )
    assert -one.high < 1.025 < -one.low


def test_two_seeds_name_no_winner(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0, 1.1], 0.2: [9.0, 9.11]})
    assert one.winner is None
    assert "fewer than 3 seeds tell nothing" in one.sentence


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0], 0.2: [9.0]})
    assert math.isnan(one.p)
    assert "over 1 seed: fewer than 3 seeds" in one.sentence


def test_seeds_that_change_nothing_are_no_evidence(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0] * 5, 0.2: [2.0] * 5})
    assert one.winner is None
    assert "the seeds change nothing" in one.sentence


def test_a_winner_must_survive_the_correction_over_all_pairs(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(size=(5, 5))
    groups: dict[object, list[float]] = {
        lr: (10 + noise[index]).tolist() for index, lr in enumerate((1, 2, 3, 4, 5))
    }
    # Alone, this difference would be significant.
    groups[6] = (np.array(groups[1]) - [0.5, 1.5, 0.4, 1.6, 1.0]).tolist()
    found = compared(tmp_path, groups)
    one = next(each for each in found if {each.left, each.right} == {0, 5})
    assert one.p < 0.05 < one.p_holm
    assert one.winner is None
    assert "after Holm's correction over 15 pairs" in one.sentence


def test_other_keys_are_averaged_within_a_seed(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        for seed in range(3):
            for model, base in (("a", 0.0), ("b", 50.0)):
                loss = base + lr * 10 + seed * 0.01 * (lr * 10)
                name = f"{lr}-{seed}-{model}"
                config = {"lr": lr, "seed": seed, "model": model}
                Journal(tmp_path, name, config=config).metrics(1, loss=loss).finish()
    with reading.open(tmp_path) as runs:
        (one,) = runs.groups(by=["lr"]).differences("loss")
        verdict = runs.groups(by=["lr"]).verdict("loss")
    assert (one.units, one.is_paired, one.winner) == (3, True, 0)
    assert verdict == one.sentence


def test_a_group_alone_is_not_the_best(tmp_path: Path) -> None:
    assert compared(tmp_path, {0.1: [1.0, 2.0, 3.0]}) == []
    with reading.open(tmp_path) as runs:
        groups = runs.groups(by=["lr"])
        verdict, values = groups.verdict("loss"), groups.values("loss")
    assert verdict == "lr=0.1 is the only group: its mean of loss is 2.0000."
    assert best_index(values) is None


def test_groups_without_a_finite_value_say_so(tmp_path: Path) -> None:
    compared(tmp_path, {0.1: [math.nan], 0.2: [math.inf]})
    with reading.open(tmp_path) as runs:
        verdict = runs.groups(by=["lr"]).verdict("loss")
    assert verdict == "No run counts: none reached the end with a finite loss."


def test_holm_is_the_step_down_correction() -> None:
    corrected = holm([0.01, 0.04, math.nan, 0.03, 0.005])
    assert corrected[:2] == pytest.approx([0.03, 0.06])
    assert math.isnan(corrected[2])
    assert corrected[3:] == pytest.approx([0.06, 0.02])
