"""Flags, data, batches, model and evaluation of the GPT-2 example, each on its own."""

from __future__ import annotations

import json
import math
import os
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from batches import Batch, Batches, Instructions, Windows, read_instructions
from data import Shard, Tokenizer, has_token_files, open_corpus, open_tokenizer, read_tokens
from distributed import Process, StepClock
from epochal import UsageError
from estimate import num_evaluations, record_bytes
from evaluation import Example, draw_samples, find_hellaswag, hellaswag_accuracy, read_examples
from flags import PRESETS, Command, Flags, read_command
from model import GPT, IGNORED, Shape
from resuming import with_environment
from training import make_schedule

CPU = Process(torch.device("cpu"))
BYTES = open_tokenizer("bytes")


def test_the_defaults_are_those_of_the_published_run() -> None:
    flags = read_command([]).flags()
    sizes = (flags.total_batch_size, flags.mini_batch_size, flags.context_length)
    assert (flags.num_steps, sizes) == (95_365, (524_288, 32, 1024))
    assert (flags.num_layers, flags.embd_size, flags.num_heads) == (12, 768, 12)
    rates = (flags.max_lr, flags.min_lr, flags.warmup_steps, flags.weight_decay)
    assert rates == (1e-3, 1e-4, 715, 0.1)
    assert (flags.eval_freq, flags.checkpoint_freq, flags.histogram_freq) == (250, 250, 1000)
    assert (flags.keep_checkpoints, flags.keep_emergency_checkpoints, flags.seed) == (10, 10, 1337)


def test_a_step_is_divided_over_passes_and_ranks() -> None:
    assert (Flags().accumulation(1), Flags().accumulation(8)) == (16, 2)
    with pytest.raises(UsageError, match="--total_batch_size 524288 must be a multiple of"):
        Flags().accumulation(3)


def test_the_command_line_wins_over_the_checkpoint_and_that_over_the_preset() -> None:
    command = read_command(["--preset", "tiny", "--seed", "4", "--report_to", "wandb"])
    saved = {"seed": 9, "max_lr": 1.0, "device": "cuda", "run_name": "old", "parameters": 3}
    flags = command.flags(saved)
    assert (flags.seed, flags.max_lr, flags.device, flags.run_name) == (4, 1.0, None, None)
    assert flags.num_layers == PRESETS["tiny"]["num_layers"]
    assert flags.report_to == ("wandb",)


def test_a_short_run_has_a_short_warm_up_and_one_that_stops_early_keeps_its_schedule() -> None:
    assert read_command(["--steps_per_epoch", "60"]).flags().warmup_steps == 30
    flags = Flags(max_steps=300)
    assert (flags.last_step, flags.num_steps, flags.warmup_steps) == (300, 95_365, 715)
    rates = [make_schedule(flags).lr(step) for step in (0, 714, 95_365)]
    assert rates == pytest.approx([1e-3 / 715, 1e-3, 1e-4])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--eval_freq", "0"], "--eval_freq must be at least 1"),
        (["--histogram_freq", "-1"], "--histogram_freq must be at least 0"),
        (["--min_lr", "1"], "--min_lr 1.0 must not be above it"),
        (["--steps_per_epoch", "100", "--warmup_steps", "715"], "--warmup_steps 715 must be fewer"),
    ],
)
def test_a_flag_that_cannot_work_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_command(words).flags()


def test_a_folder_of_event_files_asks_for_them() -> None:
    trackers = read_command(["--tensorboard_dir", "here", "--report_to", "aim"]).flags().trackers
    assert trackers == ["plain_log", "aim", "tensorboard"]


def test_the_environment_can_name_the_run_that_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Command({}, None, None, False, False)
    monkeypatch.setenv("EPOCHAL_NAME", "one")
    assert with_environment(plain) == plain
    monkeypatch.setenv("EPOCHAL_RESUME", "must")
    named = with_environment(plain)
    assert (named.given, named.resume) == ({"run_name": "one"}, "auto")
    to_a_path = Command({}, None, "some/path", False, False)
    assert with_environment(to_a_path) == to_a_path


def test_bytes_hold_every_text_and_the_vocabulary_of_gpt2_is_padded_as_published() -> None:
    assert BYTES.decode([*BYTES.encode("größer 你好"), BYTES.end, 300]) == "größer 你好"
    assert BYTES.padded_size == 384
    assert Tokenizer("gpt2", 50_257, 50_256, lambda _: [], lambda _: "").padded_size == 50_304


def write_tokens(folder: Path, name: str, count: int = 1000) -> Path:
    path, tokens = folder / name, np.arange(count, dtype=np.uint16)
    if path.suffix == ".npy":
        np.save(path, tokens)
    else:
        path.write_bytes(tokens.tobytes())
    return path


def test_token_files_are_mapped_and_the_header_of_llm_c_is_left_out(tmp_path: Path) -> None:
    for name in ("a.npy", "a.bin"):
        tokens = read_tokens(write_tokens(tmp_path, name))
        assert isinstance(tokens, np.memmap)
        assert list(tokens[-2:]) == [998, 999]
    header = np.zeros(256, dtype=np.int32)
    header[:3] = 20240520, 1, 3
    path = tmp_path / "fineweb_val_000000.bin"
    path.write_bytes(header.tobytes() + np.array([7, 8, 9], dtype=np.uint16).tobytes())
    assert list(read_tokens(path)) == [7, 8, 9]


def test_files_named_for_validation_are_held_out_and_otherwise_the_end_is(tmp_path: Path) -> None:
    for name in ("train_000001.npy", "train_000002.npy"):
        write_tokens(tmp_path, name)
    train, held_out = open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    assert [len(shard.tokens) for shard in train] == [1000, 960]
    assert list(held_out[0].tokens[:2]) == [960, 961]
    write_tokens(tmp_path, "val_000000.npy")
    train, held_out = open_corpus(str(tmp_path), BYTES, context=8, seed=1)
    assert [len(shard.tokens) for shard in train] == [1000, 1000]
    assert [shard.name for shard in held_out] == ["val_000000.npy"]


def test_text_is_tokenised_once_and_again_when_it_changes(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    text = tmp_path / "texts" / "a.txt"
    text.write_text("héllo " * 100, encoding="utf-8")
    cache = Path(os.environ["EPOCHAL_CACHE_DIR"]) / "gpt2"
    for _ in range(2):
        train, held_out = open_corpus(str(text.parent), BYTES, context=8, seed=1)
        assert len(list(cache.iterdir())) == 1
    tokens = [int(token) for shard in (*train, *held_out) for token in shard.tokens]
    assert BYTES.decode(tokens) == "héllo " * 100
    assert tokens[-1] == BYTES.end
    text.write_text("other " * 100, encoding="utf-8")
    train, _ = open_corpus(str(text.parent), BYTES, context=8, seed=1)
    assert BYTES.decode([int(token) for token in train[0].tokens[:5]]) == "other"


def test_data_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    assert not has_token_files(None)
    np.save(tmp_path / "wide.npy", np.zeros(4, dtype=np.int64))
    (tmp_path / "empty.bin").write_bytes(b"")
    (tmp_path / "torn.npy").write_bytes(b"\x93NUMPY")
    (tmp_path / "none").mkdir()
    write_tokens(tmp_path, "short.bin", 9)
    for name, sentence in (
        ("absent", "does not exist"),
        ("none", "contains neither tokens"),
        ("short.bin", "too few tokens to train on at --context_length 8"),
        ("wide.npy", "one row of uint16, but it is int64"),
        ("empty.bin", "holds no tokens"),
        ("torn.npy", "not an array that can be mapped"),
    ):
        with pytest.raises(UsageError, match=sentence):
            open_corpus(str(tmp_path / name), BYTES, context=8, seed=1)


def windows(*lengths: int, context: int = 4) -> Windows:
    """Windows whose tokens tell where they are from."""
    starts = np.cumsum([0, *lengths])
    shards = [
        Shard(f"{index}.npy", np.arange(start, start + length, dtype=np.uint16))
        for index, (start, length) in enumerate(zip(starts, lengths, strict=False))
    ]
    return Windows(shards, context)


def batches(*lengths: int, rank: int = 0, world: int = 1, seed: int = 1, **more: int) -> Batches:
    process = Process(CPU.device, rank, rank, world)
    train = windows(*lengths, **more)
    return Batches(train, windows(41), batch_size=2, seed=seed, process=process)


def firsts(batch: Batch) -> list[int]:
    return [int(row[0]) for row in batch.inputs]


@pytest.mark.parametrize("world", [1, 2, 3])
def test_an_epoch_has_every_window_once_whatever_the_ranks(world: int) -> None:
    num_batches = 20 // (2 * world)
    seen: list[int] = []
    for rank in range(world):
        mine = batches(41, 6, 37, rank=rank, world=world)
        for _ in range(num_batches):
            batch = mine.next()
            assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])
            assert (batch.num_targets, batch.all_tokens) == (8, 8 * world)
            seen += firsts(batch)
        assert mine.epoch == 0
        mine.next()
        assert mine.epoch == 1
    assert len(seen) == len(set(seen)) == num_batches * world * 2


def test_epochs_have_different_orders_and_seeds_too() -> None:
    one, other = batches(81), batches(81, seed=2)
    first, second = ([firsts(one.next()) for _ in range(10)] for _ in range(2))
    assert sorted(chain(*first)) == sorted(chain(*second))
    assert first != second
    assert first != [firsts(other.next()) for _ in range(10)]


@pytest.mark.parametrize("after", [0, 3, 10, 14])
def test_a_state_continues_where_it_was_taken(after: int) -> None:
    one, other = batches(41, 42), batches(41, 42, seed=99)
    for _ in range(after):
        one.next()
    other.load_state_dict(one.state_dict())
    for _ in range(20):
        assert firsts(one.next()) == firsts(other.next())
    for changed in (batches(41, 43), batches(42, 41), batches(41, 42, context=5)):
        with pytest.raises(UsageError, match="data has changed since the checkpoint was saved"):
            changed.load_state_dict(one.state_dict())


def test_validation_is_the_same_every_time_and_the_ranks_share_it() -> None:
    ranks = [batches(81, rank=rank, world=3) for rank in range(3)]
    shares = [[firsts(b) for b in one.validation(100)] for one in ranks]
    assert sorted(chain(*chain(*shares))) == list(range(0, 40, 4))
    assert [firsts(b) for b in ranks[0].validation(100)] == shares[0]
    assert len(list(ranks[0].validation(1))) == 1
    with pytest.raises(UsageError, match="10 training examples, which is too few for --mini_batch"):
        batches(41, world=6)


def write_rows(path: Path, *rows: object) -> str:
    path.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    return str(path)


def test_only_the_answer_counts() -> None:
    rows = [([1] * (3 + n), [10 + n] * (1 + n % 3)) for n in range(8)]
    made = [
        Batches(
            Instructions(rows, end=0),
            Instructions(rows, end=0),
            batch_size=2,
            seed=1,
            process=Process(CPU.device, rank, rank, 2),
        ).next()
        for rank in range(2)
    ]
    for batch in made:
        for inputs, targets in zip(batch.inputs.tolist(), batch.targets.tolist(), strict=True):
            counted = [target for target in targets if target != IGNORED]
            assert len(set(counted)) == 1
            assert set(inputs[: targets.index(counted[0]) + 1]) == {1}
        assert batch.num_targets == int((batch.targets != IGNORED).sum())
    assert made[0].all_targets == made[1].all_targets == sum(b.num_targets for b in made)


def test_both_usual_forms_of_instructions_are_read(tmp_path: Path) -> None:
    rows = [
        {"instruction": "Add.", "input": "1 1", "output": "2"},
        {"prompt": "x" * 90, "completion": "yes"},
    ]
    path = write_rows(tmp_path / "a.jsonl", *rows)
    train, held_out = read_instructions(path, BYTES, context=60)
    inputs, targets = train.collate([0])
    assert BYTES.decode(inputs[0].tolist()) == "### Instruction:\nAdd.\n1 1\n\n### Response:\n2"
    assert targets[0, -2:].tolist() == [ord("2"), BYTES.end]
    assert held_out.count([0]) == (4, 61)  # too long: it keeps the end of its question
    assert "### Response:\nyes" in BYTES.decode(held_out.collate([0])[0][0].tolist())
    for name, more, sentence in (
        ("b.jsonl", [{"prompt": "a"}], "line 2 needs one of instruction, prompt and one of"),
        ("c.jsonl", [], "needs at least 2 examples"),
    ):
        path = write_rows(tmp_path / name, {"prompt": "a", "response": "b"}, *more)
        with pytest.raises(UsageError, match=sentence):
            read_instructions(path, BYTES, context=60)


def tiny_model(context: int = 8) -> GPT:
    torch.manual_seed(0)
    return GPT(Shape(384, context, num_layers=1, num_heads=1, embd_size=4))


def test_the_124m_model_has_its_parameters_and_starts_at_chance() -> None:
    with torch.device("meta"):
        assert GPT(Shape(vocab_size=50_257)).num_parameters == 124_439_808
    tokens = torch.randint(384, (4, 8))
    assert tiny_model()(tokens, tokens).item() == pytest.approx(math.log(384), rel=0.05)
    matrices, others = tiny_model().decay_groups(0.1)
    assert (matrices["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    with pytest.raises(UsageError, match="--embd_size 10 must be a multiple of --num_heads 3"):
        Shape(embd_size=10, num_heads=3)


def test_later_tokens_and_ignored_targets_change_nothing() -> None:
    model, tokens = tiny_model(), torch.randint(384, (2, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 384
    assert torch.equal(model.logits(tokens)[0, :5], model.logits(changed)[0, :5])
    targets = tokens.clone()
    targets[1] = IGNORED
    assert model(tokens, targets).item() == pytest.approx(model(tokens[:1], tokens[:1]).item())


def test_samples_differ_repeat_themselves_and_leave_the_training_s_randomness_alone() -> None:
    model, before = tiny_model(), torch.get_rng_state()
    texts = draw_samples(model, BYTES, CPU, prompt="Hello")
    assert len(set(texts)) == 5
    assert all(text.startswith("Hello") for text in texts)
    assert draw_samples(model, BYTES, CPU, prompt="Hello") == texts
    assert draw_samples(model, BYTES, Process(CPU.device, 1), prompt="Hello") != texts
    assert len(draw_samples(model, BYTES, CPU, prompt="")) == 5
    assert torch.equal(torch.get_rng_state(), before)
    with torch.no_grad():
        model.wte.weight.fill_(math.nan)
    assert draw_samples(model, BYTES, CPU, prompt="Hello") == ["Hello"] * 5


class Likes(GPT):
    """A model that expects one letter everywhere."""

    def __init__(self, letter: str) -> None:
        super().__init__(Shape(384, 16, num_layers=1, num_heads=1, embd_size=4))
        self._letter = ord(letter)

    def logits(self, tokens: torch.Tensor) -> torch.Tensor:
        logits = torch.zeros(*tokens.shape, 384)
        logits[..., self._letter] = 5.0
        return logits


def test_the_likeliest_ending_is_chosen() -> None:
    endings = ("zz", "aa", "qq", "xx")
    examples = [Example("b", endings, 1)] * 3 + [Example("b", endings, 0)]
    assert hellaswag_accuracy(Likes("a"), BYTES, examples, CPU) == (0.75, 0.75)
    # By the sum a short ending is best, by the mean the one with most of the expected letters.
    examples = [Example("b", ("aaaaz z z", "zz", "zzzz", "zzzzz"), 0)]
    assert hellaswag_accuracy(Likes("a"), BYTES, examples, CPU) == (0.0, 1.0)
    # A text that does not fit loses its beginning.
    examples = [Example("b" * 50, ("z" * 5, "a" * 5, "q" * 50, "x"), 1)] * 9
    assert hellaswag_accuracy(Likes("a"), BYTES, examples, CPU)[1] == 1.0


def test_the_file_of_hellaswag_is_searched_beside_the_data_and_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    assert find_hellaswag(None, data="data") is None
    row: dict[str, Any] = {"ctx": "a", "endings": ["b", "c", "d", "e"], "label": 1}
    write_rows(tmp_path / "data" / "hellaswag_val.jsonl", row, {**row, "label": 3})
    path = find_hellaswag(None, data="data")
    assert path is not None
    assert [example.label for example in read_examples(path)] == [1, 3]
    assert read_examples(path, 1) == [Example("a", ("b", "c", "d", "e"), 1)]
    with pytest.raises(UsageError, match="--hellaswag nowhere does not exist"):
        find_hellaswag("nowhere", data=None)
    for bad, sentence in ((3, "line 1 is not an example"), ({**row, "label": 4}, "a label from 0")):
        with pytest.raises(UsageError, match=sentence):
            read_examples(Path(write_rows(tmp_path / "bad.jsonl", bad)))


def test_the_clock_leaves_out_what_is_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("distributed.time.perf_counter", lambda: now)
    clock = StepClock(CPU)
    now = 1.0
    with clock.paused():
        now = 100.0
    now = 102.0
    assert clock.lap_ms() == 3000.0


def test_the_whole_run_takes_the_disk_that_was_measured() -> None:
    record, board = record_bytes(Flags(), num_tensors=148)
    assert record == pytest.approx(6.7e6, rel=0.05)
    assert board == pytest.approx(65e6, rel=0.05)
    assert record_bytes(Flags(histogram_freq=0), num_tensors=148)[0] < record
    assert [num_evaluations(Flags(max_steps=n)) for n in (1, 250, 251, 500)] == [2, 2, 3, 3]
