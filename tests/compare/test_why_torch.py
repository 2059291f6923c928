"""Why one run is worse than another, on pairs of small torch trainings with a known reason."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

import epochal
from epochal.api import reading
from epochal.compare.why import RunDifference, Why

CLASSES, WIDTH = 4, 12


def asked(root: Path, run: str, other: str, metric: str | None = None) -> Why:
    with reading.open(root) as runs:
        return runs.why(run, other, metric=metric)


def difference(why: Why, area: str) -> RunDifference:
    return next(each for each in why.differences if each.area == area)


def samples(count: int, *, draw: int, noise: float = 0.7) -> tuple[Tensor, Tensor]:
    """Points around the same centres, whatever is drawn."""
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(1))
    source = torch.Generator().manual_seed(draw)
    targets = torch.randint(CLASSES, (count,), generator=source)
    return centres[targets] + noise * torch.randn(count, WIDTH, generator=source), targets


def train(
    root: Path,
    name: str,
    *,
    seed: int = 0,
    steps: int = 150,
    draw: int = 2,
    random_labels: float = 0.0,
    is_frozen: bool = False,
    is_watched: bool = True,
    noise: float = 0.7,
) -> None:
    """Train a classifier; a share of the labels may be random, or the first layers frozen."""
    torch.manual_seed(seed)
    inputs, targets = samples(320, draw=draw, noise=noise)
    is_random = torch.rand(len(targets)) < random_labels
    targets = torch.where(is_random, torch.randint(CLASSES, targets.shape), targets)
    held_out = samples(200, draw=99, noise=noise)
    model = nn.Sequential(nn.Linear(WIDTH, 24), nn.ReLU(), nn.Linear(24, CLASSES))
    if is_frozen:
        model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    loader = DataLoader(TensorDataset(inputs, targets), batch_size=32, shuffle=True)
    config = {"seed": seed}
    with epochal.init(
        "pairs", name, dir=root, config=config, companion=False, console=False
    ) as run:
        epochal.watch(model)
        batches = epochal.watch_data(loader, "train") if is_watched else loader
        step = 0
        while step < steps:
            for batch, wanted in batches:
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(batch), wanted)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                run.log({"train/loss": loss}, step=step)
                if step % 10 == 9:
                    with torch.no_grad():
                        evaluation = functional.cross_entropy(model(held_out[0]), held_out[1])
                    run.log({"eval/loss": evaluation}, step=step)
                step += 1


def test_gradients_that_are_never_cleared_explain_the_pair_of_the_readme(tmp_path: Path) -> None:
    torch.manual_seed(0)
    for name in ("forgetful", "correct"):
        model = nn.Linear(8, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with epochal.init("first", name, dir=tmp_path, companion=False, console=False) as run:
            epochal.watch(model)
            for _ in range(60):
                if name == "correct":
                    optimizer.zero_grad()
                inputs = torch.randn(64, 8)
                loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
                loss.backward()
                optimizer.step()
                run.log({"loss": loss})
    why = asked(tmp_path, "forgetful", "correct")
    assert (why.verdict, why.worse) == ("explained", "left")
    assert (why.differences[0].key, why.differences[0].kind) == ("gradients-add-up", "cause")
    assert "This is a fault in the code and can explain the gap." in why.differences[0].reason
    assert "The best explanation is the finding gradients-add-up" in why.sentence
    assert {"config", "data", "labels"} <= set(why.unknown)
    turned = asked(tmp_path, "correct", "forgetful")
    assert (turned.verdict, turned.differences[0].key) == ("explained", "gradients-add-up")


def test_frozen_layers_explain_a_worse_run(tmp_path: Path) -> None:
    train(tmp_path, "bad", is_frozen=True)
    train(tmp_path, "good")
    why = asked(tmp_path, "bad", "good")
    assert why.verdict == "explained"
    first = why.differences[0]
    assert (first.area, first.key) == ("model", "trainable parameters")
    assert (first.left, first.right) == (2, 4)
    assert "model trainable parameters: 2 instead of 4" in why.sentence


def test_labels_of_which_half_are_random_are_a_difference(tmp_path: Path) -> None:
    train(tmp_path, "random", random_labels=0.5)
    train(tmp_path, "right")
    why = asked(tmp_path, "random", "right")
    assert why.verdict == "explained"
    assert (why.differences[0].area, why.differences[0].key) == ("labels", "train")
    assert "sampled inputs that both runs saw have different labels" in why.differences[0].reason
    assert "data" in why.equal
    assert "labels" not in why.equal


def test_equal_labels_are_equal_and_unwatched_ones_are_not_compared(tmp_path: Path) -> None:
    train(tmp_path, "short", steps=30)
    train(tmp_path, "long")
    assert {"data", "labels"} <= set(asked(tmp_path, "short", "long").equal)
    train(tmp_path, "unwatched", steps=30, is_watched=False)
    why = asked(tmp_path, "unwatched", "long")
    assert {"data", "labels"} <= set(why.unknown)
    assert not {"data", "labels"} & set(why.equal)


def test_a_run_that_stopped_at_a_third_is_explained_by_its_progress(tmp_path: Path) -> None:
    for seed in range(4):
        train(tmp_path, f"long{seed}", seed=seed, steps=300)
    train(tmp_path, "short", seed=4, steps=100)
    for metric in ("eval/loss", "train/loss"):
        why = asked(tmp_path, "short", "long0", metric)
        first = why.differences[0]
        assert (why.verdict, first.area, first.left, first.right) == (
            *("explained", "progress"),
            *((why.left.at, why.right.at)),
        )


def test_another_draw_of_the_samples_with_another_seed_explains_nothing(tmp_path: Path) -> None:
    train(tmp_path, "one", seed=1, draw=5)
    train(tmp_path, "two", seed=2, draw=6)
    contents = difference(asked(tmp_path, "one", "two"), "data")
    assert contents.key == "train contents"
    assert contents.score < 0.2
    assert "another seed draws other samples" in contents.reason


def test_repeats_of_another_task_say_nothing_of_the_noise(tmp_path: Path) -> None:
    for seed in range(4):
        train(tmp_path, f"own{seed}", seed=seed, steps=60)
        for size in (0.5, 3.0):
            other = f"other{seed}-{size}"
            train(tmp_path, other, seed=seed, steps=60, noise=size, is_watched=False)
    why = asked(tmp_path, "own0", "own1")
    assert why.repeats is not None
    assert (why.repeats.num_runs, why.repeats.num_configs) == (4, 1)
