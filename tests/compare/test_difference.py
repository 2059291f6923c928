from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from numpy.typing import NDArray

from epochal.api import reading
from epochal.compare.difference import Difference
from epochal.compare.groups import Member, MemberValue, RunValues, group_members, group_table
from epochal.journal.row import RunRow, Status
from epochal.store.comparison import ALL_FINISHED
from epochal.store.run import RunView
from tests.store.journals import Journal

FINISHED = Status("finished", "finished")

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
        return runs.groups(by=["lr"]).table("loss").differences


def said(root: Path) -> str:
    with reading.open(root) as runs:
        return runs.groups(by=["lr"]).table("loss").verdict


def test_groups_with_the_same_seeds_are_compared_in_pairs(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: FIRST, 0.2: SECOND})
    assert one.is_paired
    assert (one.units, one.winner) == (4, 0)
    assert one.difference == pytest.approx(-1.025)
    half = 3.182446305284263 * 0.0853912563829967
    assert (one.low, one.high) == pytest.approx((-1.025 - half, -1.025 + half), abs=1e-5)
    assert one.p == pytest.approx(0.0012439231496056522, abs=1e-6)  # by SciPy
    assert said(tmp_path) == (
        "lr=0.1 is best: loss 2.5000 ± 2.0543 (95 %) over 4 seeds;"
        " lr=0.2 is 1.0250 worse on the same seeds (p = 0.0012)."
    )


def test_groups_with_other_seeds_have_one_variance(tmp_path: Path) -> None:
    seeds: dict[object, list[int]] = {0.1: [0, 1, 2, 3], 0.2: [4, 5, 6, 7]}
    (one,) = compared(tmp_path, {0.1: FIRST, 0.2: SECOND}, seeds=seeds)
    assert not one.is_paired
    assert one.p == pytest.approx(0.30414417, abs=1e-6)  # by ttest_ind of SciPy
    assert one.winner is None
    assert said(tmp_path) == (
        "lr=0.1 has the best mean, loss 2.5000 ± 2.0543 (95 %) over 4 seeds,"
        " but lr=0.2 may be as good: it is 1.0250 worse (p = 0.3)."
    )


def test_two_seeds_are_too_few_for_a_winner(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0, 1.1], 0.2: [9.0, 9.11]})
    assert one.winner is None
    assert said(tmp_path).endswith(
        "over 2 seeds, but it takes at least 3 seeds to tell whether it is the best group."
    )


def test_one_seed_has_no_interval(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0], 0.2: [9.0]})
    assert math.isnan(one.p)
    assert math.isnan(one.low)
    assert "loss 1.0000 over 1 seed, but" in said(tmp_path)


@pytest.mark.parametrize("first", [[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
def test_pairs_that_differ_by_the_same_amount_are_the_strongest_evidence(
    tmp_path: Path, first: list[float]
) -> None:
    (one,) = compared(tmp_path, {0.1: first, 0.2: [value + 0.05 for value in first]})
    assert (one.winner, one.p) == (0, 0.0)
    assert said(tmp_path).endswith("lr=0.2 is 0.0500 worse on the same seeds (p < 0.001).")


def test_equal_groups_have_no_winner(tmp_path: Path) -> None:
    (one,) = compared(tmp_path, {0.1: [1.0, 2.0, 4.0], 0.2: [1.0, 2.0, 4.0]})
    assert (one.winner, one.p) == (None, 1.0)
    assert said(tmp_path).endswith("may be as good: it has the same mean on the same seeds.")


def test_values_that_are_all_zero_have_no_winner(tmp_path: Path) -> None:
    found = compared(tmp_path, {lr: [0.0, 0.0, 0.0] for lr in (0.1, 0.2, 0.3)})
    assert [(one.winner, one.p) for one in found] == [(None, 1.0), (None, 1.0)]


def test_many_groups_do_not_hide_a_gap_of_many_deviations(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(15, 3))
    groups: dict[object, list[float]] = {
        lr: (2.09 + 0.13 * (lr > 0) + noise[lr]).tolist() for lr in range(15)
    }
    assert {one.winner for one in compared(tmp_path, groups)} == {0}
    assert said(tmp_path).startswith("lr=0 is best: loss 2.09")


def test_a_group_that_is_far_noisier_hides_no_winner(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(3, 3))
    groups: dict[object, list[float]] = {
        lr: (2.0 + 0.1 * lr + noise[lr]).tolist() for lr in range(3)
    }
    groups[3] = [200.0, 500.0, 900.0]
    found = compared(tmp_path, groups)
    assert [one.right for one in found] == [1, 2, 3]
    assert {one.winner for one in found} == {0}
    assert math.isnan(found[-1].low)


def test_a_noisy_group_with_a_good_run_is_not_shown_to_be_worse(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).normal(scale=0.01, size=(3, 3))
    groups: dict[object, list[float]] = {
        lr: (2.0 + 0.1 * lr + noise[lr]).tolist() for lr in range(3)
    }
    groups[3] = [1.0, 2.0, 4.0]
    winners = {one.right: one.winner for one in compared(tmp_path, groups)}
    assert winners == {1: 0, 2: 0, 3: None}
    assert said(tmp_path).endswith(
        "but lr=3 may be as good: it varies too much between its runs to tell."
    )


def test_the_sentence_names_whole_groups(tmp_path: Path) -> None:
    for lr, loss in ((0.1, 1.0), (0.2, 2.0)):
        for seed in range(3):
            config = {"lr": lr, "model": "b", "seed": seed}
            journal = Journal(tmp_path, f"{lr}-{seed}", config=config)
            journal.metrics(1, loss=loss + seed / 100 * lr).finish()
    with reading.open(tmp_path) as runs:
        verdict = runs.groups(by=["lr", "model"]).table("loss").verdict
    assert verdict.startswith("lr=0.1, model=b is best: ")
    assert "lr=0.2, model=b is 1.00" in verdict


# The noise of a run has the deviation 1; so has what a seed does to all groups, if it does any.
@pytest.mark.slow
@pytest.mark.parametrize("num_groups", [3, 15])
@pytest.mark.parametrize(("is_paired", "seed_effect"), [(True, 0.0), (True, 1.0), (False, 0.0)])
def test_simulated_sweeps_have_the_right_winner_and_no_other(
    num_groups: int, is_paired: bool, seed_effect: float
) -> None:
    source = np.random.default_rng(num_groups)
    deviation = math.hypot(1.0, seed_effect)
    right = wrong = 0
    for trial in range(100):
        losses = source.normal(size=(num_groups, 3)) + seed_effect * source.normal(size=3)
        wrong += winner_of(losses, is_paired=is_paired) is not None
        best = trial % num_groups
        losses[best] -= 4 * deviation
        right += winner_of(losses, is_paired=is_paired) == best
    assert right >= 90  # 18 of 20
    assert wrong <= 15  # 3 of 20


def winner_of(losses: NDArray[np.float64], *, is_paired: bool) -> int | None:
    """The group that beats all others; a simulated run is nothing but its config and its loss."""
    seeds = np.arange(losses.shape[1]) + (0 if is_paired else 100 * np.arange(len(losses))[:, None])
    members, values = [], []
    for (lr, n), loss in np.ndenumerate(losses):
        run_id = f"{lr}-{n}"
        info = RunRow(id=run_id, name="", project="", folder="", status=FINISHED)
        seed = int(np.broadcast_to(seeds, losses.shape)[lr, n])
        members.append(Member(cast("RunView", None), info, {"lr": lr, "seed": seed}))
        values.append(MemberValue(run_id, "", float(loss), 1.0, "counted"))
    runs = RunValues("loss", "min", members, values, ALL_FINISHED)
    found = group_table(group_members(members, by=["lr"]), runs)
    winners = {one.winner for one in found.differences}
    assert ("is best" in found.verdict) == (winners == {found.best})
    assert ("may be as good" in found.verdict) == (None in winners)
    return found.best if None not in winners else None


def test_other_keys_are_averaged_within_a_seed(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        for seed in range(3):
            for model, base in (("a", 0.0), ("b", 50.0)):
                loss = base + lr * 10 + seed * 0.01 * (lr * 10)
                name = f"{lr}-{seed}-{model}"
                config = {"lr": lr, "seed": seed, "model": model}
                Journal(tmp_path, name, config=config).metrics(1, loss=loss).finish()
    with reading.open(tmp_path) as runs:
        (one,) = runs.groups(by=["lr"]).table("loss").differences
        verdict = runs.groups(by=["lr"]).table("loss").verdict
    assert (one.units, one.is_paired, one.winner) == (3, True, 0)
    assert "over 6 runs (3 seeds); lr=0.2 is 1.01" in verdict


def test_a_group_alone_is_not_the_best(tmp_path: Path) -> None:
    assert compared(tmp_path, {0.1: [1.0, 2.0, 3.0]}) == []
    with reading.open(tmp_path) as runs:
        found = runs.groups(by=["lr"]).table("loss")
    assert found.verdict == "lr=0.1 is the only group: its mean loss is 2.0000."
    assert found.best is None


def test_groups_without_a_finite_value_say_so(tmp_path: Path) -> None:
    compared(tmp_path, {0.1: [math.nan], 0.2: [math.inf]})
    with reading.open(tmp_path) as runs:
        verdict = runs.groups(by=["lr"]).table("loss").verdict
    assert verdict == "No run that counts has a finite loss."
