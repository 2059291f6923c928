"""Completions of TRL's trainers, from what TRL 1.16.0 logs. ``tests/frameworks`` has real TRL."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from PIL import Image

import epochal.wandb as wandb
from epochal.integrations.rollouts import completions_of, conversation_text, tables_by_step
from tests.doubles.journals import of_kind

# What GRPOTrainer had at three steps of a real training with two reward functions.
PAYLOADS: list[dict[str, list[Any]]] = [
    {
        "step": [step] * 2,
        "prompt": ["w0 w1", "w0 w1"],
        "completion": [f"w14 w15 w7 w1{step}", "w13 w1 w2"],
        "short": [-15.0, -9.0],
        "has_w1": [1.0, float("nan")],
        "advantage": [-0.7070, 0.7070],
    }
    for step in (1, 2, 3)
]
COLUMNS = ["prompt", "completion", "length_chars", "short", "has_w1", "advantage"]


class Frame:
    """What ``wandb.Table`` and ``wandb.log`` use of a data frame of pandas."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self._values = columns
        self.columns = list(columns)

    def __len__(self) -> int:
        return len(self._values["prompt"])

    def itertuples(self, index: bool = True) -> Iterator[tuple[Any, ...]]:
        return zip(*self._values.values(), strict=True)

    def to_dict(self) -> dict[str, list[Any]]:
        return self._values


def trainer(payload: dict[str, list[Any]], **more: Any) -> SimpleNamespace:
    """A trainer of TRL, as far as its completions are concerned."""
    rewards: dict[str, deque[Any]] = defaultdict(deque)
    rewards |= {name: deque(payload[name]) for name in ("short", "has_w1")}
    logs = {
        "images": deque(),
        "prompt": deque(payload["prompt"]),
        "completion": deque(payload["completion"]),
        "rewards": rewards,
        "advantages": deque(payload["advantage"]),
        "extra": defaultdict(deque),
    }
    return SimpleNamespace(log_completions=True, _logs={**logs, **more})


def tables(folder: Path, name: str) -> list[dict[str, Any]]:
    found = [record for record in of_kind(folder, "blob") if record["name"] == name]
    return [json.loads((folder / "blobs" / record["file"]).read_bytes()) for record in found]


@pytest.mark.parametrize("has_table", [True, False], ids=["GRPOTrainer", "LogCompletionsCallback"])
def test_the_drop_in_of_wandb_keeps_every_step(
    has_table: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for setting in ("GIT", "COMPANION", "CONSOLE"):
        monkeypatch.setenv(f"EPOCHAL_{setting}", "0")
    run = wandb.init(project="p", name="a", dir=str(tmp_path))
    for payload in PAYLOADS:
        frame = Frame(payload)
        wandb.log({"train/loss": 0.5, "train/global_step": payload["step"][0]})
        wandb.log({"completions": wandb.Table(dataframe=frame) if has_table else frame})
    wandb.finish()
    kept = tables(run.epochal.dir, "completions")
    assert [table["columns"] for table in kept] == [["step", *COLUMNS]] * 3
    assert [table["data"][0][0] for table in kept] == [1, 2, 3]
    assert kept[2]["data"][1] == [3, "w0 w1", "w13 w1 w2", 9, -9.0, "nan", 0.7070]


def test_a_trainer_has_its_completions_rewards_and_advantages() -> None:
    table = completions_of(trainer(PAYLOADS[0]))
    assert table is not None
    assert table.columns == COLUMNS
    assert table.rows[0] == ["w0 w1", "w14 w15 w7 w11", 14, -15.0, 1.0, -0.7070]


def test_what_reward_functions_add_and_pictures_are_columns() -> None:
    picture = Image.new("RGB", (4, 4))
    extra = {"answer": deque(["a", "b"]), "of the batch before": deque(["a"])}
    given = trainer(PAYLOADS[0], extra=extra, images=deque([[picture], [picture, picture]]))
    table = completions_of(given)
    assert table is not None
    assert table.columns == [*COLUMNS[:-1], "answer", "advantage", "image", "image_1"]
    assert [row[-2:] for row in table.rows] == [[picture, None], [picture, picture]]


def test_distillation_has_no_rewards_and_other_trainers_no_completions() -> None:
    texts = {"prompt": deque(["a"]), "completion": deque(["bc"])}
    table = completions_of(SimpleNamespace(log_completions=True, _logs=texts))
    assert table is not None
    assert (table.columns, table.rows) == (COLUMNS[:3], [["a", "bc", 2]])
    assert completions_of(SimpleNamespace(log_completions=False, _logs=texts)) is None
    assert completions_of(SimpleNamespace()) is None


def test_a_length_that_is_there_stays_the_only_one() -> None:
    table = completions_of(trainer(PAYLOADS[0], extra={"tokens": deque([4, 3])}))
    assert table is not None
    assert "length_chars" not in table.columns


def test_conversations_are_text() -> None:
    question = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is it?"}]},
    ]
    assert conversation_text(question) == "system: Be short.\n\nuser: [image]\nWhat is it?"
    assert conversation_text([{"role": "assistant", "content": "A cat."}]) == "A cat."
    assert conversation_text([{"role": "assistant", "content": None}]) == ""
    assert conversation_text("plain") == "plain"


def test_rows_of_the_callback_become_a_table_for_each_step() -> None:
    rows = [("2", "a", "bc"), ("2", "d", "e"), ("4", "a", "bcd")]
    found = {step: table.rows for step, table in tables_by_step(rows)}
    assert found == {2: [["a", "bc", 2], ["d", "e", 1]], 4: [["a", "bcd", 3]]}
