"""Why one run is worse than another, on small trainings that Epochal itself recorded."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.api import reading
from epochal.compare.why import RunDifference, Why
from epochal.errors import MetricNotFoundError, UsageError
from tests.store.journals import Journal

STEPS = 200


def train(
    root: Path,
    name: str,
    *,
    lr: float = 0.1,
    seed: int = 0,
    steps: int = STEPS,
    broken_from: int | None = None,
    **options: Any,
) -> Path:
    """Train a linear regression with minibatches; a fault in the code spoils labels from a step."""
    source, data = np.random.default_rng(seed), np.random.default_rng(100)
    inputs = data.normal(size=(512, 8))
    targets = inputs @ data.normal(size=8) + data.normal(scale=0.3, size=512)
    weights = source.normal(size=8)
    run = epochal.init(
        "p",
        name,
        dir=root,
        config={"lr": lr, "batch_size": 32, "seed": seed, **options.pop("config", {})},
        companion=False,
        console=False,
        **options,
    )
    with run:
        for step in range(steps):
            chosen = source.integers(0, 512, size=32)
            wanted = targets[chosen]
            if broken_from is not None and step >= broken_from:
                wanted = wanted[::-1]
            error = inputs[chosen] @ weights - wanted
            weights -= lr * 2 * inputs[chosen].T @ error / 32
            run.log({"loss": float((error**2).mean()), "lr": lr}, step=step)
    return root / "p" / name


def rewrite(folder: Path, **facts: Any) -> None:
    """Change what run.json says, as another machine would have recorded it."""
    path = folder / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def asked(root: Path, run: str, other: str | None = None, **options: Any) -> Why:
    with reading.open(root) as runs:
        return runs.why(run, other, **options)


def difference(found: Why, key: str) -> RunDifference:
    return next(one for one in found.differences if one.key == key)


def test_a_rate_that_is_too_low_explains_a_worse_loss(tmp_path: Path) -> None:
    train(tmp_path, "slow", lr=0.001)
    train(tmp_path, "good", lr=0.1)
    found = asked(tmp_path, "slow", "good")
    first = found.differences[0]
    assert (found.metric, found.worse, found.verdict) == ("loss", "left", "explained")
    assert (first.area, first.key, first.left, first.right) == ("config", "lr", 0.001, 0.1)
    assert first.score > 0.8
    assert "factor of 100" in first.reason
    assert "recorded learning rates differ from step 0" in first.reason
    assert not any(one.area == "schedule" for one in found.differences)
    assert found.parted_at is not None
    assert found.parted_at < 50
    assert found.sentence.startswith("slow is worse than good by ")
    assert "config lr: 0.001 instead of 0.1" in found.sentence
    turned = asked(tmp_path, "good", "slow")
    assert turned.worse == "right"
    assert turned.gap == pytest.approx(-found.gap)
    assert turned.differences[0].key == "lr"
    assert turned.sentence.endswith("config lr: 0.001 instead of 0.1.")


def test_runs_that_differ_in_the_seed_only_are_noise(tmp_path: Path) -> None:
    train(tmp_path, "one", seed=1)
    train(tmp_path, "two", seed=2)
    found = asked(tmp_path, "one", "two")
    assert found.verdict in ("same", "noise")
    assert "noise" in found.sentence
    seed = difference(found, "seed")
    assert seed.score < 0.2
    assert "repeats" in seed.reason


def test_a_gap_that_only_a_seed_leaves_is_called_noise(tmp_path: Path) -> None:
    train(tmp_path, "one", seed=4, lr=0.001)  # starts further away, and does not arrive
    train(tmp_path, "two", seed=7, lr=0.001)
    found = asked(tmp_path, "one", "two")
    assert abs(found.gap) > found.noise
    assert found.verdict == "noise"
    assert "only seed differs" in found.sentence


def test_a_package_explains_what_nothing_else_can(tmp_path: Path) -> None:
    new = train(tmp_path, "new", broken_from=100)
    old = train(tmp_path, "old")
    rewrite(new, packages={"torch": "2.9.0", "rich": "14.0"})
    rewrite(old, packages={"torch": "2.8.0", "rich": "13.0"})
    found = asked(tmp_path, "new", "old")
    first = found.differences[0]
    assert (first.area, first.key, first.left, first.right) == (
        *("packages", "torch"),
        *("2.9.0", "2.8.0"),
    )
    assert "No other recorded difference" in first.reason
    assert found.parted_at == pytest.approx(100, abs=10)
    assert "part late" in first.reason
    assert difference(found, "rich").score < 0.1


def test_equal_runs_with_a_gap_are_not_explained(tmp_path: Path) -> None:
    train(tmp_path, "bad", broken_from=50)
    train(tmp_path, "good")
    found = asked(tmp_path, "bad", "good")
    assert found.verdict == "unexplained"
    assert "No recorded difference explains it." in found.sentence
    assert "config" in found.equal
    assert "data" in found.unknown
    assert "Not compared:" in found.sentence


def test_several_differences_are_not_told_apart(tmp_path: Path) -> None:
    train(tmp_path, "a", lr=0.001, config={"dropout": 0.5})
    train(tmp_path, "b", lr=0.1, config={"dropout": 0.0})
    found = asked(tmp_path, "a", "b")
    assert found.verdict == "several"
    assert "config lr, config dropout" in found.sentence
    assert "Change one at a time" in found.sentence


def test_runs_that_end_alike_have_nothing_to_explain(tmp_path: Path) -> None:
    train(tmp_path, "a", lr=0.1)
    train(tmp_path, "b", lr=0.099)
    found = asked(tmp_path, "a", "b")
    assert found.verdict == "same"
    assert "is within noise" in found.sentence


def test_a_run_that_stopped_early_is_explained_by_that(tmp_path: Path) -> None:
    train(tmp_path, "short", lr=0.01, steps=60)
    train(tmp_path, "long", lr=0.01, steps=400)
    found = asked(tmp_path, "short", "long")
    first = found.differences[0]
    assert (first.area, first.left, first.right) == ("progress", 59, 399)
    assert first.score > 0.8
    assert found.parted_at is None


def test_a_run_that_turned_nan_is_worse_and_its_finding_is_a_symptom(tmp_path: Path) -> None:
    with np.errstate(all="ignore"):
        train(tmp_path, "exploded", lr=50.0)
    train(tmp_path, "good")
    found = asked(tmp_path, "exploded", "good")
    assert (found.worse, found.gap) == ("left", float("inf"))
    assert found.differences[0].key == "lr"
    symptoms = [one for one in found.differences if one.area == "findings"]
    assert any(one.key == "nonfinite" and one.kind == "symptom" for one in symptoms)


def test_other_runs_teach_which_keys_matter(tmp_path: Path) -> None:
    for index in range(12):
        lr, width = (0.002, 0.1)[index % 2], (8, 16, 32)[index % 3]
        train(tmp_path, f"r{index}", lr=lr, seed=index, steps=60, config={"width": width})
    found = asked(tmp_path, "r0", "r1")
    by_rate, by_width = difference(found, "lr"), difference(found, "width")
    assert "of the order of 12 runs" in by_rate.reason
    assert "width has no clear effect on loss" in by_width.reason
    assert by_rate.score > 0.8 > 0.3 > by_width.score
    assert found.verdict == "explained"


def test_repeats_say_how_large_noise_is(tmp_path: Path) -> None:
    for seed in range(5):
        train(tmp_path, f"r{seed}", seed=seed, lr=0.002, config={"note_b": 1})
    train(tmp_path, "other", seed=7, lr=0.002, config={"note_b": 2})
    found = asked(tmp_path, "r0", "other")
    assert found.repeats is not None
    assert (found.repeats.num_runs, found.repeats.num_configs) == (5, 1)


def test_a_loss_that_still_falls_has_no_more_noise_than_repeats(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for lr, seed in itertools.product((0.001, 0.01), range(4)):
        config = {"lr": lr, "seed": seed}
        with epochal.init("p", f"lr{lr}-{seed}", dir=tmp_path, config=config) as run:
            for step in range(0, 120, 20):
                course = 2 + 2.5 * np.exp(-step / 60) + (0.25 if lr == 0.01 else 0)
                run.log({"eval/loss": course + noise.normal(scale=0.05)}, step=step)
    found = asked(tmp_path, "lr0.01-0", "lr0.001-0")
    assert (found.verdict, found.differences[0].key) == ("explained", "lr")
    assert found.repeats is not None
    assert found.noise <= found.repeats.limit < 0.2


def test_runs_of_other_code_are_no_repeats(tmp_path: Path) -> None:
    for seed in range(4):
        good = train(tmp_path, f"good{seed}", seed=seed, lr=0.05)
        rewrite(good, git={"commit": "a" * 40, "dirty": False})
    for seed in range(3):
        bad = train(tmp_path, f"bad{seed}", seed=seed, lr=0.05, broken_from=seed)
        rewrite(bad, git={"commit": "a" * 40, "dirty": True, "patch": "uncommitted.patch"})
        (bad / "blobs").mkdir(exist_ok=True)
        patch = b"diff --git a/data.py b/data.py\n--- a/data.py\n+++ b/data.py\n-x\n+y%d\n" % seed
        (bad / "blobs" / "uncommitted.patch").write_bytes(patch)
    found = asked(tmp_path, "bad0", "good0")
    assert found.repeats is not None
    assert (found.repeats.num_runs, found.repeats.num_configs) == (4, 1)
    assert found.verdict == "explained"
    assert found.differences[0].key == "uncommitted changes"


def test_the_scatter_of_a_run_that_blew_up_is_no_noise(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    for name, level in (("calm", 0.0), ("wild", 9.5)):
        journal = Journal(tmp_path, name, config={"clip": name == "calm"})
        for step in range(200):
            loss = 0.05 * noise.normal() + (np.exp(level + 1.2 * noise.normal()) if level else 0.0)
            journal.metrics(step, loss=float(loss))
        journal.finish()
    found = asked(tmp_path, "wild", "calm")
    assert (found.verdict, found.worse) == ("explained", "left")


def test_the_sentence_names_findings_of_one_run_only(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        journal = Journal(tmp_path, name, config={"lr": 0.1 if name == "good" else 0.2})
        for step in range(200):
            loss = 2.0 * 0.98**step + 0.1
            journal.metrics(step, loss=loss if name == "good" or step < 150 else float("nan"))
        journal.finish()
    told = asked(tmp_path, "bad", "good").sentence
    assert "config lr: 0.2 instead of 0.1" in told
    assert told.endswith("Only bad has findings of nonfinite.")


def test_a_run_that_diverged_makes_no_noise_of_the_others(tmp_path: Path) -> None:
    for lr, level in ((1e-3, 1.0), (1e-1, 2.0)):
        for seed in range(4):
            last = 900.0 if (lr, seed) == (1e-1, 3) else level + 0.01 * seed
            journal = Journal(tmp_path, f"{lr}-{seed}", config={"lr": lr, "seed": seed})
            for step in range(60):
                journal.metrics(step, loss=last + 2.0 * 0.9**step)
            journal.finish()
    found = asked(tmp_path, "0.1-0", "0.001-0")
    assert found.repeats is not None
    assert found.repeats.limit < 0.1
    assert found.verdict == "explained"
    first = found.differences[0]
    assert first.key == "lr"
    assert "differ by 1.0" in first.reason


def test_a_run_is_compared_with_its_group(tmp_path: Path) -> None:
    for seed in range(5):
        train(tmp_path, f"r{seed}", seed=seed, group="base")
    train(tmp_path, "odd", seed=9, lr=0.001, group="base")
    train(tmp_path, "elsewhere", lr=0.001, group="other")
    found = asked(tmp_path, "odd")
    first = found.differences[0]
    assert (found.right.name, len(found.right.runs)) == ("5 other runs", 5)
    assert (first.key, first.left, first.right, first.others) == ("lr", 0.001, 0.1, "5 of 5")
    assert found.verdict == "explained"
    usual = asked(tmp_path, "r0", against='config.lr == 0.1 and group == "base"')
    assert (usual.verdict, len(usual.right.runs)) == ("same", 4)


def test_uncommitted_changes_are_named_by_their_files(tmp_path: Path) -> None:
    bad = train(tmp_path, "bad", broken_from=0)
    good = train(tmp_path, "good")
    commit = "a" * 40
    patch = b"diff --git a/model.py b/model.py\n--- a/model.py\n+++ b/model.py\n-x\n+y\n+z\n"
    rewrite(bad, git={"commit": commit, "dirty": True, "patch": "uncommitted.patch"})
    rewrite(good, git={"commit": commit, "dirty": False})
    (bad / "blobs").mkdir(exist_ok=True)
    (bad / "blobs" / "uncommitted.patch").write_bytes(patch)
    found = asked(tmp_path, "bad", "good")
    first = found.differences[0]
    assert (first.area, first.key, first.right) == ("code", "uncommitted changes", "none")
    assert first.left.startswith("model.py +2 -1 (")
    (bad / "blobs" / "uncommitted.patch").unlink()  # as on a hub, which has only the digest
    for run, digest in ((bad, "1" * 64), (good, "2" * 64)):
        rewrite(run, git={"commit": commit, "dirty": True, "patch_sha256": digest})
    changes = difference(asked(tmp_path, "bad", "good"), "uncommitted changes")
    assert (changes.left, changes.right) == (
        "not stored here (11111111)",
        "not stored here (22222222)",
    )
    rewrite(bad, git={"commit": commit, "dirty": False})
    rewrite(good, git={"commit": "b" * 40, "dirty": False})
    commits = difference(asked(tmp_path, "bad", "good"), "commit")
    assert "git diff aaaaaaaaaaaa bbbbbbbbbbbb" in commits.reason


def test_hardware_and_data_are_compared(tmp_path: Path) -> None:
    for name, files, processes in (("a", 3, 8), ("b", 4, 1)):
        folder = train(tmp_path, name)
        with epochal.init(
            "p", name, dir=tmp_path, companion=False, console=False, resume="must"
        ) as run:
            run.log_dataset("train", files=files)
        rewrite(folder, world_size=processes)
    found = asked(tmp_path, "a", "b")
    assert (difference(found, "train files").left, difference(found, "train files").right) == (3, 4)
    assert (difference(found, "processes").left, difference(found, "processes").right) == (8, 1)


def data_record(*, first: int = 0, mean: float = 0.0, order: int = 7) -> dict[str, Any]:
    """A first epoch over a thousand samples, as ``watch_data`` records it."""
    return {
        "log": "data",
        "name": "train",
        "epoch": 1,
        "dataset": "Digits-1",
        "samples": 1000,
        "dataset_samples": 1000,
        "hash_bits": 2,
        "orders": [[1, 32, order], [2, 64, order]],
        "hashes": [4 * one for one in range(first, first + 250)],
        "mean": mean,
        "std": 1.0,
    }


def test_watched_data_is_compared_by_contents_order_and_scale(tmp_path: Path) -> None:
    records = {
        "same": data_record(),
        "ordered": data_record(order=8),
        "scaled": data_record(mean=120.0),
        "other": data_record(first=125),
        "larger": {**data_record(), "dataset_samples": 2000},
        "labelled": {**data_record(), "labels": {"0": 900, "1": 100}},
    }
    base = {**data_record(), "labels": {"0": 500, "1": 500}}
    for name, record in {"base": base, **records}.items():
        journal = Journal(tmp_path, name).add(record)
        for step in range(40):
            journal.metrics(step, loss=0.9**step)
    found = {name: asked(tmp_path, "base", name).differences for name in records}
    keys = {name: [one.key for one in all_of] for name, all_of in found.items()}
    assert keys["same"] == []
    assert keys["ordered"] == ["train order"]
    assert found["ordered"][0].score < 0.2
    assert keys["scaled"] == ["train inputs"]
    assert found["scaled"][0].right == "mean 120, deviation 1"
    assert keys["other"] == ["train contents"]
    assert "50% of 250 sampled contents" in found["other"][0].reason
    assert keys["larger"] == ["train dataset size"]
    assert keys["labelled"] == ["train"]
    assert found["labelled"][0].right == "2 labels: 0 90%, 1 10%"
    assert "data" in asked(tmp_path, "base", "same").equal


def test_mistakes_are_said(tmp_path: Path) -> None:
    train(tmp_path, "a")
    train(tmp_path, "b")
    with pytest.raises(UsageError, match="no other run"):
        asked(tmp_path, "a", "a")
    with pytest.raises(UsageError, match="not both"):
        asked(tmp_path, "a", "b", against="step > 1")
    with pytest.raises(MetricNotFoundError, match="'nothing'"):
        asked(tmp_path, "a", "b", metric="nothing")
