"""What a program does to ``run.config`` is recorded, or refused in a sentence."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from epochal.errors import RunFinishedError, UsageError
from epochal.run.config import RunConfig
from epochal.store.local.by_path import load_run
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

START = {"lr": 0.1, "model": {"width": 64, "heads": [1, 2]}, "betas": [0.9, 0.95]}


def set_all(config: Any) -> None:
    config["lr"] = 0.2
    config.update({"seed": 1}, depth=3)
    config |= {"wd": 0.1}
    assert config.setdefault("lr", 5) == 0.2
    config.setdefault("epochs", 2)


def change_nested(config: Any) -> None:
    config["model"]["width"] = 128
    config["model"]["heads"].append(3)
    config["model"].update(name="gpt")
    del config["model"]["name"]
    config["betas"][1] = 0.999


def replace_nested(config: Any) -> None:
    config["model"] = {"inner": {"a": 1}}
    config["model"]["inner"]["b"] = 2


def set_attributes(config: Any) -> None:
    config.lr = config.lr * 2
    config.model.width = 128
    config.model.rope = {"base": np.float32(0.5)}
    config.model.rope.base = 2
    model = config.model
    config.model.depth = 3
    del model.heads
    config.items = 7


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            set_attributes,
            {
                **START,
                "lr": 0.2,
                "model": {"width": 128, "rope": {"base": 2}, "depth": 3},
                "items": 7,
            },
        ),
        (set_all, {**START, "lr": 0.2, "seed": 1, "depth": 3, "wd": 0.1, "epochs": 2}),
        (
            change_nested,
            {**START, "model": {"width": 128, "heads": [1, 2, 3]}, "betas": [0.9, 0.999]},
        ),
        (replace_nested, {**START, "model": {"inner": {"a": 1, "b": 2}}}),
    ],
)
def test_a_change_is_there_in_the_process_and_for_readers(
    start_run: StartRun, change: Callable[[Any], None], expected: dict[str, Any]
) -> None:
    run = start_run(config=START)
    change(run.config)
    assert run.config == expected
    run.finish()
    assert load_run(run.dir).config == expected


def test_each_entry_set_is_one_option_record(start_run: StartRun) -> None:
    run = start_run()
    run.config.update({"a": np.float32(0.5), "b": (1, 2)})
    options = [(r["name"], r["value"]) for r in of_kind(run.dir, "option")]
    assert options == [("a", 0.5), ("b", [1, 2])]
    assert run.config == {"a": 0.5, "b": [1, 2]}


@pytest.mark.parametrize(
    "remove",
    [
        lambda config: config.pop("lr"),
        lambda config: config.clear(),
        lambda config: config.popitem(),
        lambda config: config.__delitem__("lr"),
    ],
)
def test_an_entry_cannot_be_removed(start_run: StartRun, remove: Callable[[Any], None]) -> None:
    run = start_run(config=START)
    with pytest.raises(UsageError, match="cannot be removed"):
        remove(run.config)
    assert run.config == START


def test_a_finished_run_takes_no_change(start_run: StartRun) -> None:
    run = start_run(config=START)
    run.finish()
    with pytest.raises(RunFinishedError):
        run.config["lr"] = 3
    with pytest.raises(RunFinishedError):
        run.config.model.width = 3
    assert run.config == START


def test_an_entry_that_is_missing_is_an_attribute_error(start_run: StartRun) -> None:
    config = start_run(config=START).config
    assert getattr(config, "seed", 1) == 1
    with pytest.raises(AttributeError, match="no entry 'seed'"):
        _ = config.seed
    with pytest.raises(AttributeError, match="no entry 'seed'"):
        del config.seed
    with pytest.raises(UsageError, match="cannot be removed"):
        del config.lr


@pytest.mark.parametrize(
    "copied",
    [
        lambda config: config.copy(),
        copy.deepcopy,
        lambda config: pickle.loads(pickle.dumps(config)),
        lambda config: json.loads(json.dumps(config)),
    ],
)
def test_a_copy_is_plain_and_its_changes_are_its_own(
    start_run: StartRun, copied: Callable[[RunConfig], dict[str, Any]]
) -> None:
    run = start_run(config=START)
    plain = copied(run.config)
    assert (type(plain), type(plain["model"]), type(plain["betas"])) == (dict, dict, list)
    plain["lr"] = 5
    plain["model"]["width"] = 5
    assert run.config == START
    assert of_kind(run.dir, "option") == []
