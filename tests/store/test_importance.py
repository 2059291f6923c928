from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal import reading
from epochal.errors import UsageError
from epochal.series.effects import between_levels, holm, partial_effect, rank_correlation, ranks
from epochal.store.importance import Importance, has_forest
from tests.store.journals import Journal

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2)


def ranked(root: Path, runs: Iterable[tuple[dict[str, Any], float]], **options: Any) -> Importance:
    for index, (config, loss) in enumerate(runs):
        Journal(root, f"r{index}", config=config).metrics(1, loss=loss).finish()
    with reading.open(root) as opened:
        return opened.importance("loss", **options)


def grid() -> list[tuple[dict[str, Any], float]]:
    """A rate whose best value lies in the middle, a model with an effect, a seed with none."""
    noise = np.random.default_rng(0)
    return [
        (
            {"lr": lr, "model": model, "seed": seed},
            math.log10(lr / 1e-3) ** 2 + 0.2 * (model == "a") + float(noise.normal(scale=0.02)),
        )
        for lr, model, seed in itertools.product(RATES, "ab", range(2))
    ]


def test_a_rate_with_its_best_value_in_the_middle_ranks_first(tmp_path: Path) -> None:
    found = ranked(tmp_path, grid())
    first, second, third = found.parameters
    assert [one.key for one in found.parameters] == ["lr", "model", "seed"]
    assert abs(first.spearman) < 0.2
    assert first.share > 0.7
    assert (first.best, second.best) == ("0.001", "b")
    assert [one.verdict for one in found.parameters] == ["matters", "matters", "no effect seen"]
    assert math.isnan(third.spearman)  # the number of a seed is no quantity
    assert found.sentence.startswith("lr matters most for loss: it explains")
    assert found.sentence.endswith("No effect is seen of seed.")


def test_an_effect_that_is_sure_but_tiny_is_called_little(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    runs = [
        ({"lr": lr, "wd": wd, "copy": copy}, 10 * lr + 0.3 * wd + float(noise.normal(scale=0.15)))
        for lr, wd, copy in itertools.product(range(10), range(2), range(20))
    ]
    found = ranked(tmp_path, runs)
    little = next(one for one in found.parameters if one.key == "wd")
    assert (little.p < 0.05, little.score < 0.01) == (True, True)
    assert little.verdict == "little effect"
    assert "The effect of wd is below 1 %." in found.sentence
    assert "No effect is seen of copy." in found.sentence


def test_levels_and_the_interaction_are_means_of_the_values(tmp_path: Path) -> None:
    runs = grid()
    found = ranked(tmp_path, runs)
    levels = {one.label: one.mean for one in found.parameters[0].levels}
    for lr in RATES:
        expected = np.mean([loss for config, loss in runs if config["lr"] == lr])
        assert levels[f"{lr:g}".replace("e-0", "e-")] == pytest.approx(expected, abs=1e-12)
    table = found.interaction
    assert table is not None
    assert (table.keys, table.columns) == (("lr", "model"), ("a", "b"))
    chosen = [loss for config, loss in runs if (config["lr"], config["model"]) == (1e-3, "b")]
    assert table.mean[2][1] == pytest.approx(np.mean(chosen), abs=1e-12)
    assert table.n == [[2, 2]] * 5


def test_many_numbers_are_cut_into_levels_of_equally_many_runs(tmp_path: Path) -> None:
    source = np.random.default_rng(1)
    rates = 10 ** source.uniform(-5, -1, size=40)
    found = ranked(
        tmp_path,
        [({"lr": float(r), "x": float(source.random())}, (math.log10(r) + 3) ** 2) for r in rates],
    )
    first = found.parameters[0]
    assert (first.key, first.verdict) == ("lr", "matters")
    assert {one.num_runs for one in first.levels} <= {6, 7}
    assert "–" in first.levels[0].label


def test_runs_that_ended_as_nan_count_as_the_worst(tmp_path: Path) -> None:
    runs = [
        ({"lr": lr, "seed": seed}, float("nan") if lr == 1 else 1.0 + seed / 10)
        for lr, seed in itertools.product((0.1, 1), range(6))
    ]
    found = ranked(tmp_path, runs)
    assert (found.parameters[0].key, found.parameters[0].verdict) == ("lr", "matters")
    assert (found.num_runs, found.nonfinite) == (12, 6)
    assert found.parameters[0].best == "0.1"


def test_too_few_runs_are_said_to_be_too_few(tmp_path: Path) -> None:
    found = ranked(tmp_path, [({"lr": lr}, lr) for lr in (1.0, 2.0, 3.0)])
    assert found.parameters[0].verdict == "too few runs"
    assert "3 runs with loss are too few" in found.sentence


def test_keys_that_always_change_together_are_one(tmp_path: Path) -> None:
    runs = [({**config, "optim": {"lr": config["lr"]}}, loss) for config, loss in grid()]
    found = ranked(tmp_path, runs, pair=["model", "optim.lr"])
    assert (found.parameters[0].key, found.parameters[0].same_as) == ("lr", ("optim.lr",))
    assert found.interaction is not None
    assert found.interaction.keys == ("model", "lr")


def test_keys_with_a_value_for_every_run_are_not_the_same(tmp_path: Path) -> None:
    source = np.random.default_rng(3)
    runs = [
        (
            {"lr": (lr := float(source.random())), "scaled": 2 * lr, "seed": n, "tag": f"t{n * 7}"},
            lr + float(source.normal(scale=0.01)),
        )
        for n in range(16)
    ]
    found = ranked(tmp_path, runs)
    assert [(one.key, one.same_as) for one in found.parameters] == [
        ("lr", ("scaled",)),
        ("seed", ()),
        ("tag", ()),
    ]
    verdicts = [one.verdict for one in found.parameters]
    assert verdicts == ["matters", "too few runs", "too few runs"]


def test_integers_beyond_a_double_are_ranked(tmp_path: Path) -> None:
    found = ranked(tmp_path, [({"big": 10**400 + n, "few": n % 2}, float(n)) for n in range(12)])
    assert {one.key for one in found.parameters} == {"big", "few"}


def test_one_run_says_nothing_about_keys(tmp_path: Path) -> None:
    assert ranked(tmp_path, [({"lr": 1}, 1.0)]).sentence.startswith("One run has loss:")


def test_runs_that_differ_in_nothing_have_no_ranking(tmp_path: Path) -> None:
    found = ranked(tmp_path, [({"lr": 1}, 1.0), ({"lr": 1}, 2.0)])
    assert (found.parameters, found.interaction) == ((), None)
    assert "No key of the config differs" in found.sentence
    with reading.open(tmp_path) as runs, pytest.raises(UsageError, match="do not both differ"):
        runs.importance("loss", pair=["lr", "wd"])


def test_a_forest_gives_its_out_of_bag_score(tmp_path: Path) -> None:
    if not has_forest():
        with pytest.raises(UsageError, match="pip install scikit-learn"):
            ranked(tmp_path, grid(), forest=True)
        return
    found = ranked(tmp_path, grid(), forest=True)
    assert found.forest_score is not None
    assert found.forest_score > 0.5
    assert sum(one.forest or 0.0 for one in found.parameters) == pytest.approx(1.0)


def test_effects_are_those_of_the_analysis_of_variance() -> None:
    # By SciPy: f_oneway of [1, 2, 3], [2, 4, 6], [9, 8, 10] and spearmanr of the lists below.
    codes = np.repeat(np.arange(3), 3)
    y = np.array([1, 2, 3, 2, 4, 6, 9, 8, 10], dtype=float)
    effect = between_levels(codes, y)
    assert effect.share == pytest.approx(1 - 12 / 90)
    assert effect.p == pytest.approx(0.0023703703703703703, abs=1e-12)
    rho, p = rank_correlation([1, 2, 3, 4, 5, 6], [2, 1, 4, 3, 7, 5])
    assert (rho, p) == pytest.approx((0.8285714285714287, 0.04156268221574334))
    assert ranks([3, 1, 3, 2]).tolist() == [3.5, 1, 3.5, 2]


def test_an_effect_beside_a_larger_one_is_seen() -> None:
    large, small = np.repeat(np.arange(4), 4), np.tile(np.arange(2), 8)
    noise = np.random.default_rng(2).normal(scale=0.05, size=16)
    y = 10.0 * large + 0.3 * small + noise
    assert between_levels(small, y).p > 0.9
    assert partial_effect([large], small, y).p < 1e-4


def test_holm_is_the_step_down_correction() -> None:
    corrected = holm([0.01, 0.04, math.nan, 0.03, 0.005])
    assert corrected[:2] == pytest.approx([0.03, 0.06])
    assert math.isnan(corrected[2])
    assert corrected[3:] == pytest.approx([0.06, 0.02])
