from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal.api import reading
from epochal.compare.importance import Importance
from epochal.errors import UsageError
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
    assert first.score > 0.6
    assert (first.best, second.best) == ("0.001", "b")
    assert [one.verdict for one in found.parameters] == ["matters", "matters", "repeats the run"]
    assert math.isnan(third.p)  # nor is it a hypothesis
    assert math.isnan(third.spearman)  # the number of a seed is no quantity
    assert found.sentence.startswith("lr matters most for loss: it explains")
    assert "seed" not in found.sentence


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
    assert verdicts == ["matters", "repeats the run", "too few runs"]


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
