from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from epochal.errors import FormatError, UsageError
from epochal.recipes.gpt2.finetune import Instruction, InstructionBatches, read_instructions
from epochal.recipes.gpt2.model import IGNORED
from epochal.recipes.gpt2.place import Place
from epochal.recipes.gpt2.tokens import open_tokenizer

BYTES = open_tokenizer("bytes")


def write(path: Path, *rows: object) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def batches(
    num_rows: int = 9, *, rank: int = 0, world: int = 1, size: int = 2
) -> InstructionBatches:
    rows = [Instruction((1,) * (3 + n), (10 + n,) * (1 + n % 3)) for n in range(num_rows)]
    place = Place(torch.device("cpu"), rank, rank, world)
    return InstructionBatches(rows, batch_size=size, seed=1, place=place, end=0)


def test_both_usual_forms_are_read(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"instruction": "Add.", "input": "1 1", "output": "2"},
        {"prompt": "Add.", "completion": "3"},
    )
    first, second = read_instructions(path, BYTES, context=100)
    assert BYTES.decode(first.question) == "### Instruction:\nAdd.\n1 1\n\n### Response:\n"
    assert first.answer == (ord("2"), BYTES.end)
    assert BYTES.decode(second.question) == "### Instruction:\nAdd.\n\n### Response:\n"


def test_what_is_too_long_keeps_the_end_of_the_question(tmp_path: Path) -> None:
    rows = [{"prompt": "x" * 90, "response": "yes"}, {"prompt": "x", "response": "n" * 90}]
    first, second = read_instructions(write(tmp_path / "a.jsonl", *rows), BYTES, context=30)
    assert len(first) == len(second) == 31
    assert BYTES.decode(first.question).endswith("### Response:\n")
    assert BYTES.decode(first.answer) == "yes"
    assert len(second.answer) == 29


def test_only_the_answer_counts() -> None:
    batch = batches().next()
    for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
        counted = [target for target in targets if target != IGNORED]
        assert len(set(counted)) == 1
        start = targets.index(counted[0])
        assert set(inputs[: start + 1]) == {1}
    assert batch.num_targets == int((batch.targets != IGNORED).sum())


def test_every_rank_knows_what_all_have() -> None:
    both = [batches(rank=rank, world=2).next() for rank in range(2)]
    assert both[0].all_targets == both[1].all_targets == sum(b.num_targets for b in both)
    assert both[0].all_tokens == both[1].all_tokens
    assert set(both[0].targets.flatten().tolist()) & set(both[1].targets.flatten().tolist()) <= {-1}


def test_a_state_goes_on_where_it_was_taken() -> None:
    one, other = batches(), batches()
    for _ in range(6):
        one.next()
    other.load_state_dict(one.state_dict())
    for _ in range(9):
        assert torch.equal(one.next().inputs, other.next().inputs)
    with pytest.raises(UsageError, match="has 11 examples to train on; the checkpoint was saved"):
        batches(12).load_state_dict(one.state_dict())


def test_a_line_that_is_no_example_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"prompt": "a", "response": "b"}, {"prompt": "a"})
    with pytest.raises(FormatError, match="line 2 needs one of instruction, prompt and one of"):
        read_instructions(path, BYTES, context=30)
    with pytest.raises(UsageError, match="cannot be read"):
        read_instructions(str(tmp_path / "absent"), BYTES, context=30)
    with pytest.raises(FormatError, match="at least 2 examples"):
        read_instructions(write(tmp_path / "b.jsonl"), BYTES, context=30)
    with pytest.raises(UsageError, match="8 examples are too few for --mini_batch_size 5 on 2"):
        batches(size=5, world=2)
