"""The flags of the trainer: one dataclass, from which the command line is built.

A flag on the command line wins over the checkpoint that a training continues from, the checkpoint
wins over ``--preset``, and the preset over the default.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_type_hints

from epochal import UsageError


def _flag(default: Any, text: str) -> Any:
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True, kw_only=True)
class Flags:
    """The flags, with their defaults."""

    # The batch and the model.
    total_batch_size: int = _flag(524_288, "tokens in one step, over all ranks")
    mini_batch_size: int = _flag(32, "windows in one forward pass of one rank")
    context_length: int = _flag(1024, "tokens in a window")
    num_layers: int = _flag(12, "blocks")
    embd_size: int = _flag(768, "width of the embeddings")
    num_heads: int = _flag(12, "heads of attention")
    vocab_size: int | None = _flag(None, "rows of the embedding (default: set by the tokenizer)")
    # Training.
    max_lr: float = _flag(1e-3, "learning rate after the warm-up")
    min_lr: float = _flag(1e-4, "learning rate at the end")
    warmup_steps: int | None = _flag(
        None, "steps of the warm-up to max_lr (default: 715, or a tenth of a shorter run)"
    )
    weight_decay: float = _flag(0.1, "weight decay of matrices; biases and norms have none")
    grad_clip: float = _flag(1.0, "largest gradient norm")
    num_epochs: int = _flag(5, "epochs; the run has num_epochs x steps_per_epoch steps")
    steps_per_epoch: int = _flag(19_073, "steps in one epoch")
    max_steps: int | None = _flag(
        None, "stop after this number of steps; the schedule does not change"
    )
    seed: int = _flag(1337, "seed of the weights and of the order of the data")
    compile: bool = _flag(False, "use torch.compile")
    device: str | None = _flag(None, "cpu or cuda (default: a GPU if there is one)")
    # Data and evaluation.
    data: str | None = _flag(None, "folder or file of tokens or text (default: a generated text)")
    tokenizer: str | None = _flag(
        None, "bytes, or a name of tiktoken's (default: bytes for text, gpt2 for tokens)"
    )
    init_from: str | None = _flag(None, "a run, checkpoint or file with initial weights")
    finetune: str | None = _flag(None, "fine-tune on a .jsonl file of instructions and answers")
    eval_freq: int = _flag(250, "steps between evaluations; the start and the end are evaluated")
    eval_batches: int = _flag(20, "validation batches of each evaluation")
    hellaswag: str | None = _flag(
        None, "the public hellaswag_val.jsonl (default: searched beside the data)"
    )
    hellaswag_examples: int | None = _flag(None, "number of examples to use (default: all)")
    sample_prompt: str = _flag("Hello, I am a language model,", "the beginning of samples")
    # Records and checkpoints.
    checkpoint_freq: int = _flag(250, "steps between checkpoints")
    keep_checkpoints: int = _flag(
        10, "rolling checkpoints to keep; latest and best are always kept"
    )
    keep_emergency_checkpoints: int = _flag(10, "emergency checkpoints to keep")
    histogram_freq: int = _flag(1000, "steps between histograms of all parameters; 0 for none")
    use_tensorboard: bool = _flag(False, "also write TensorBoard event files")
    report_to: tuple[str, ...] = _flag((), "other trackers: wandb, aim, mlflow, trackio, …")
    run_name: str | None = _flag(None, "name of the run (default: gpt2_train_DATE-TIME)")
    project: str = _flag("gpt2", "project of the run")
    dir: str | None = _flag(None, "folder that holds projects (default: runs)")
    logdir: str | None = _flag(None, "folder of the plain log (default: the run's)")
    checkpoint_dir: str | None = _flag(None, "folder of checkpoints (default: the run's)")
    tensorboard_dir: str | None = _flag(None, "folder of event files (default: the run's)")
    serve: int | None = _flag(None, "serve the live page on this port; 0 for any free one")

    def __post_init__(self) -> None:
        if self.warmup_steps is None:
            object.__setattr__(self, "warmup_steps", min(715, self.num_steps // 10))
        for names, least in ((_POSITIVE, 1), (_NOT_NEGATIVE, 0)):
            for name in names.split():
                value = getattr(self, name)
                if value is not None and value < least:
                    raise UsageError(f"--{name} must be at least {least}, got {value}.")
        if not self.max_lr > 0 or self.min_lr > self.max_lr:
            raise UsageError(
                f"--max_lr {self.max_lr} must be above 0, and --min_lr {self.min_lr} must not be "
                "above it."
            )
        if self.warmup >= self.num_steps:
            raise UsageError(
                f"--warmup_steps {self.warmup} must be fewer than the {self.num_steps} steps of "
                "the run (--num_epochs x --steps_per_epoch)."
            )

    @property
    def num_steps(self) -> int:
        """Steps of the whole run."""
        return self.num_epochs * self.steps_per_epoch

    @property
    def last_step(self) -> int:
        """The step before which this training ends."""
        return min(self.max_steps or self.num_steps, self.num_steps)

    @property
    def beyond_plan(self) -> str | None:
        """What to say if ``--max_steps`` is larger than the number of steps of the run."""
        if self.max_steps is None or self.max_steps <= self.num_steps:
            return None
        enough = -(-self.max_steps // self.steps_per_epoch)
        return (
            f"--max_steps {self.max_steps} is beyond the {self.num_steps} steps of this run "
            f"({self.num_epochs} epochs of {self.steps_per_epoch}), so it ends after "
            f"{self.num_steps}. To train longer, use --num_epochs {enough}; the learning rate then "
            "follows the longer schedule."
        )

    @property
    def warmup(self) -> int:
        """The steps of the warm-up, with the default filled in."""
        return self.warmup_steps or 0

    def accumulation(self, world_size: int) -> int:
        """Return the number of forward passes that each rank makes in one step."""
        at_once = self.mini_batch_size * self.context_length * world_size
        if self.total_batch_size % at_once:
            raise UsageError(
                f"--total_batch_size {self.total_batch_size} must be a multiple of "
                f"--mini_batch_size x --context_length x ranks = {at_once}."
            )
        return self.total_batch_size // at_once

    def hyperparameters(self) -> dict[str, Any]:
        """Return everything except names, folders and the machine."""
        left_out = {*_NOT_SAVED, "init_from"}  # the origin of weights is recorded separately
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @property
    def trackers(self) -> list[str]:
        """The trackers that the run is sent to, and the plain log."""
        wants_board = self.use_tensorboard or self.tensorboard_dir is not None
        return list(dict.fromkeys(["plain_log", *self.report_to, *["tensorboard"] * wants_board]))


_POSITIVE = """total_batch_size mini_batch_size context_length num_layers embd_size num_heads
    vocab_size num_epochs steps_per_epoch max_steps eval_freq eval_batches hellaswag_examples
    checkpoint_freq"""
_NOT_NEGATIVE = """warmup_steps min_lr weight_decay keep_checkpoints keep_emergency_checkpoints
    histogram_freq seed"""
# A training may continue on another machine and in other folders.
_NOT_SAVED = {"run_name", "project", "dir", "logdir", "checkpoint_dir", "tensorboard_dir"} | {
    "serve",
    "device",
}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "tiny": {
        "total_batch_size": 4096,
        "mini_batch_size": 8,
        "context_length": 128,
        "num_layers": 4,
        "embd_size": 128,
        "num_heads": 4,
        "max_lr": 3e-3,
        "min_lr": 3e-4,
        "warmup_steps": 20,
        "num_epochs": 2,
        "steps_per_epoch": 150,
        "eval_freq": 50,
        "eval_batches": 4,
        "checkpoint_freq": 50,
        "histogram_freq": 50,
    },
    "10M": {
        "total_batch_size": 8192,
        "mini_batch_size": 16,
        "context_length": 256,
        "num_layers": 6,
        "embd_size": 384,
        "num_heads": 6,
        "warmup_steps": 100,
        "num_epochs": 8,
        "steps_per_epoch": 254,
        "eval_freq": 127,
        "checkpoint_freq": 127,
        "keep_checkpoints": 3,
        "histogram_freq": 254,
    },
    "124M": {"num_layers": 12, "num_heads": 12, "embd_size": 768},
    "355M": {"num_layers": 24, "num_heads": 16, "embd_size": 1024},
    "774M": {"num_layers": 36, "num_heads": 20, "embd_size": 1280},
    "1558M": {"num_layers": 48, "num_heads": 25, "embd_size": 1600},
}


@dataclass(frozen=True)
class Command:
    """A command line: the flags that were given, and what is to be done."""

    given: Mapping[str, Any]
    preset: str | None
    resume: str | None
    list_checkpoints: bool
    estimate: bool

    def flags(self, saved: Mapping[str, Any] | None = None) -> Flags:
        """Return the flags, on top of those that a checkpoint was saved with."""
        known = {entry.name for entry in fields(Flags)} - _NOT_SAVED
        kept = {name: value for name, value in (saved or {}).items() if name in known}
        chosen = {**PRESETS.get(self.preset or "", {}), **kept, **self.given}
        return Flags(**{**chosen, "report_to": tuple(chosen.get("report_to") or ())})


def read_command(arguments: Sequence[str] | None = None) -> Command:
    """Read the command line."""
    given = vars(_parser().parse_args(arguments))
    actions = {"preset": None, "resume": None, "list_checkpoints": False, "estimate": False}
    chosen = {name: given.pop(name, default) for name, default in actions.items()}
    return Command(given, **chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Train GPT-2 with recording, a live page and checkpoints.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    hints = get_type_hints(Flags)
    for entry in fields(Flags):
        flag, text = f"--{entry.name}", str(entry.metadata["help"])
        if hints[entry.name] is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, help=text)
        elif entry.name == "report_to":
            parser.add_argument(flag, nargs="+", metavar="TRACKER", help=text)
        else:
            kind = next(kind for kind in (int, float, str) if kind in _types(hints[entry.name]))
            shown = text if entry.default is None else f"{text} ({entry.default})"
            parser.add_argument(flag, type=kind, metavar=kind.__name__.upper(), help=shown)
    parser.add_argument("--preset", choices=PRESETS, help="sizes of the model")
    parser.add_argument(
        "--resume", metavar="WHICH", help="auto, latest, best, a run's name, or a path"
    )
    for name, text in (
        ("list_checkpoints", "list the checkpoints and exit"),
        ("estimate", "measure a few steps, print the cost of the run and exit"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=text)
    return parser


def _types(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__args__", (hint,))
