from __future__ import annotations

from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.recipes.gpt2.flags import PRESETS, Flags, as_words, read_command


def test_the_defaults_are_those_of_the_published_run() -> None:
    flags = read_command([]).flags()
    assert flags.num_steps == 95_365
    assert (flags.total_batch_size, flags.mini_batch_size, flags.context_length) == (
        524288,
        32,
        1024,
    )
    assert (flags.num_layers, flags.embd_size, flags.num_heads) == (12, 768, 12)
    assert (flags.max_lr, flags.min_lr, flags.warmup_steps, flags.weight_decay) == (
        1e-3,
        1e-4,
        715,
        0.1,
    )
    assert (flags.eval_freq, flags.checkpoint_freq, flags.histogram_freq) == (250, 250, 1000)
    assert (flags.keep_checkpoints, flags.keep_emergency_checkpoints, flags.seed) == (10, 10, 1337)


def test_a_step_is_divided_over_passes_and_ranks() -> None:
    assert Flags().accumulation(1) == 16
    assert Flags().accumulation(8) == 2
    with pytest.raises(UsageError, match="--total_batch_size 524288 must be a multiple of"):
        Flags().accumulation(3)


def test_the_command_line_wins_over_the_file_that_over_the_checkpoint_that_over_the_preset(
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("max_lr: 6e-4\nseed: 3\nreport_to: wandb\n", encoding="utf-8")
    asked = read_command(["--preset", "tiny", "--config", str(file), "--seed", "4"])
    flags = asked.flags({"seed": 9, "max_lr": 1.0, "min_lr": 1e-5, "num_heads": 8})
    assert (flags.seed, flags.max_lr, flags.min_lr, flags.num_heads) == (4, 6e-4, 1e-5, 8)
    assert flags.num_layers == PRESETS["tiny"]["num_layers"]
    assert flags.report_to == ("wandb",)


def test_a_training_ends_where_it_was_to_end_unless_that_is_said_anew() -> None:
    saved = Flags(max_steps=5).hyperparameters()
    assert read_command([]).flags(saved).last_step == 5
    assert read_command(["--max_steps", "9"]).flags(saved).last_step == 9


def test_a_short_run_has_a_short_warm_up() -> None:
    assert read_command(["--steps_per_epoch", "60"]).flags().warmup_steps == 30
    assert (
        read_command(["--steps_per_epoch", "60", "--warmup_steps", "7"]).flags().warmup_steps == 7
    )
    saved = read_command(["--steps_per_epoch", "60"]).flags().hyperparameters()
    assert read_command(["--num_epochs", "9"]).flags(saved).warmup_steps == 30
    assert as_words(saved) == ["--steps_per_epoch", "60"]


def test_a_configuration_is_as_the_flags_that_ask_for_it() -> None:
    flags = Flags(num_layers=3, compile=True, report_to=("wandb", "aim"), data="a b")
    words = as_words(flags.hyperparameters())
    assert read_command(words).flags() == flags
    assert as_words(Flags().hyperparameters()) == []


def test_a_checkpoint_does_not_say_where_and_on_what_a_training_goes_on() -> None:
    saved = {"device": "cuda", "run_name": "old", "forked_from": {"run": "x"}}
    assert read_command([]).flags(saved) == Flags()


def test_an_unknown_key_of_a_file_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"eval_frequency": 3}', encoding="utf-8")
    with pytest.raises(
        UsageError, match="'eval_frequency' is not a flag; the nearest is 'eval_freq'"
    ):
        read_command(["--config", str(file)])


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("seed: 1.5", "seed must be of type int, got 1.5"),
        ("seed: true", "seed must be of type int, got True"),
        ("compile: 1", "compile must be of type bool, got 1"),
        ("max_lr: fast", "max_lr must be of type float, got 'fast'"),
        ("- 1", "must have names and values"),
        ("preset: huge", "preset 'huge' is not known"),
        ("a: [", "neither YAML nor JSON"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=sentence):
        read_command(["--config", str(file)])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--eval_freq", "0"], "--eval_freq must be at least 1"),
        (["--histogram_freq", "-1"], "--histogram_freq must be at least 0"),
        (["--min_lr", "1"], "--min_lr 1.0 not above it"),
        (["--steps_per_epoch", "100", "--warmup_steps", "715"], "--warmup_steps 715 must be fewer"),
    ],
)
def test_a_flag_that_cannot_be_meant_is_refused(words: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        read_command(words).flags()


def test_a_folder_of_event_files_asks_for_them() -> None:
    assert read_command(["--tensorboard_dir", "here"]).flags().trackers == [
        "plain_log",
        "tensorboard",
    ]
    both = read_command(["--use_tensorboard", "--report_to", "aim", "tensorboard"]).flags()
    assert both.trackers == ["plain_log", "aim", "tensorboard"]


def test_a_run_that_is_stopped_early_keeps_its_schedule() -> None:
    flags = Flags(max_steps=300)
    assert (flags.last_step, flags.num_steps) == (300, 95_365)
