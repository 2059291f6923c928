from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from epochal.api import reading
from epochal.compare.groups import series_rows
from epochal.errors import MetricNotFoundError, UsageError
from tests.store.journals import Journal

NAN = float("nan")


def write(
    root: Path, name: str, losses: list[float], *, end: str | None = "finished", **config: object
) -> None:
    journal = Journal(root, name, config=config)
    for step, loss in enumerate(losses):
        journal.metrics(step, loss=loss)
    if end is not None:
        journal.finish(end)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for lr, level in ((1e-3, 1.0), (3e-3, 2.0)):
        for seed in range(3):
            losses = [level + seed / 10 + 3 - step for step in range(4)]
            write(tmp_path, f"lr{lr}-s{seed}", losses, lr=lr, seed=seed, optim={"wd": 0.1})
    return tmp_path


def test_runs_are_grouped_by_a_key_of_their_config(root: Path) -> None:
    with reading.open(root) as runs:
        groups = runs.groups(by=["lr"])
        labels = [(group.label, len(group.members)) for group in groups]
        first, second = groups.series("loss")
    assert labels == [("lr=0.001", 3), ("lr=0.003", 3)]
    assert first.numbers.mean.tolist() == pytest.approx([4.1, 3.1, 2.1, 1.1])
    assert second.numbers.n.tolist() == [3, 3, 3, 3]
    assert series_rows(second)[3]["mean"] == pytest.approx(2.1)


def test_everything_but_the_seed_is_what_differs_otherwise(root: Path) -> None:
    write(root, "wide", [1.0], lr=1e-3, seed=0, optim={"wd": 0.2}, out_dir="runs/wide")
    with reading.open(root) as runs:
        groups = runs.groups(by_all_but=["seed"])
    assert groups.keys == ("lr", "optim.wd")
    assert [len(group.members) for group in groups] == [3, 1, 3]
    assert groups.repeats == ("seed",)


def test_a_key_may_be_the_end_of_a_dotted_one_or_a_field(root: Path) -> None:
    with reading.open(root) as runs:
        assert runs.groups(by=["wd"]).keys == ("optim.wd",)
        assert runs.groups(by=["config.lr", "project"]).keys == ("lr", "project")
        with pytest.raises(UsageError, match=r"none of the 6 runs has 'lrr'.*Did you mean 'lr'"):
            runs.groups(by=["lrr"])
        with pytest.raises(UsageError, match=r"'sed'.*Did you mean 'seed'"):
            runs.groups(by_all_but=["sed"])
        with pytest.raises(UsageError, match="either"):
            runs.groups()
        with pytest.raises(MetricNotFoundError, match="nothing"):
            runs.groups(by=["lr"]).table("nothing")


def test_1_and_1_0_are_one_level_and_true_is_another(tmp_path: Path) -> None:
    for index, value in enumerate((1, 1.0, True, None)):
        write(tmp_path, f"r{index}", [1.0], k=value)
    with reading.open(tmp_path) as runs:
        assert sorted(len(group.members) for group in runs.groups(by=["k"])) == [1, 1, 2]


def test_members_that_end_early_or_turn_nan_are_counted_and_marked(root: Path) -> None:
    write(root, "killed", [9.0, 9.0], end="failed", lr=1e-3, seed=3)
    write(root, "nan", [9.0, NAN, NAN, NAN], lr=1e-3, seed=4)
    write(root, "empty", [], lr=1e-3, seed=5)
    with reading.open(root) as runs:
        first, _ = runs.groups(by=["lr"], unfinished=True).series("loss")
        row, _ = runs.groups(by=["lr"]).table("loss").rows
    assert first.numbers.n.tolist() == [5, 4, 3, 3]
    assert first.numbers.nonfinite.tolist() == [0, 1, 1, 1]
    assert first.numbers.ended.tolist() == [0, 0, 1, 1]
    assert first.missing == 1
    marks = [(one.name, one.at, one.why, one.state) for one in first.dropouts]
    assert marks == [("killed", 1.0, "ended", "failed"), ("nan", 1.0, "nonfinite", "finished")]
    assert row.mean == pytest.approx(np.mean([1.0, 1.1, 1.2]))
    assert (len(row.members), row.n, row.nonfinite, row.unfinished, row.missing) == (6, 3, 1, 1, 1)


def test_a_series_ends_where_fewer_than_half_of_the_members_remain(tmp_path: Path) -> None:
    for seed, steps in enumerate((4, 6, 8, 10)):
        write(tmp_path, f"s{seed}", [float(seed)] * steps, lr=1, seed=seed)
        write(tmp_path, f"n{seed}", [1.0] * steps + [NAN] * (10 - steps), lr=2, seed=seed)
    with reading.open(tmp_path) as runs:
        ended, turned_nan = runs.groups(by=["lr"]).series("loss")
        (zoomed, _) = runs.groups(by=["lr"]).series("loss", lo=6, hi=9)
    # The last point of the third that leaves is the last one of two members out of four.
    assert ended.numbers.n.tolist() == [4, 4, 4, 4, 3, 3, 2, 2]
    assert turned_nan.numbers.n.tolist() == [4, 4, 4, 4, 3, 3, 2, 2]
    assert zoomed.numbers.at.tolist() == [6, 7]


def test_the_value_of_a_member_is_the_last_the_best_or_that_at_a_step(root: Path) -> None:
    write(root, "rising", [0.5, 7.0, 7.0, 7.0], lr=1, seed=0)
    with reading.open(root) as runs:
        groups = runs.groups(by=["lr"])
        means = [
            groups.table("loss", **choice).rows[-1].mean
            for choice in ({}, {"value": "best"}, {"value": "mean"}, {"at": 0})
        ]
        with pytest.raises(UsageError, match="use one of last, best"):
            groups.table("loss", value="median")  # type: ignore[arg-type]
    assert means == [7.0, 0.5, 21.5 / 4, 0.5]


def test_hidden_runs_are_in_no_group_and_a_query_selects(root: Path) -> None:
    with reading.open(root) as runs:
        hidden = runs.run("lr0.001-s0").view
        hidden.relabel(lambda labels: replace(labels, hidden=True))
        assert [len(group.members) for group in runs.groups(by=["lr"])] == [2, 3]
        (group,) = runs.groups("config.lr < 2e-3", by=["lr"])
        assert len(group.members) == 2


def test_groups_along_time_need_no_common_positions(root: Path) -> None:
    with reading.open(root) as runs:
        first, _ = runs.groups(by=["lr"]).series("loss", x="relative", points=50)
    assert first.x == "relative"
    assert first.numbers.n.max() == 3


def test_members_are_smoothed_over_their_points_before_they_are_averaged(root: Path) -> None:
    with reading.open(root) as runs:
        groups = runs.groups(by=["lr"])
        first, _ = groups.series("loss", smooth="ema:0.5", points=2)
        expected = np.mean(
            [
                runs.run(f"lr0.001-s{seed}").series("loss", smooth="ema:0.5").values
                for seed in range(3)
            ],
            axis=0,
        )
    assert first.numbers.mean == pytest.approx(expected[first.numbers.at.astype(int)], abs=1e-9)


def test_runs_without_groups_have_a_best_one(root: Path) -> None:
    with reading.open(root) as runs:
        sentence = runs.groups(by=[]).table("loss").verdict
    assert sentence == (
        "lr0.001-s0 is best: loss 1.0000; the next, lr0.001-s1, is 0.1000 worse. These runs are not"
        " grouped, so chance is not ruled out: group them by everything but seed."
    )
