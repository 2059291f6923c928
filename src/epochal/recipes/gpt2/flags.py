"""The flags of the trainer: one dataclass, from which the command line is built.

A flag given on the command line wins over one in ``--config``, that over the checkpoint a training
goes on from, that over ``--preset``, and that over the default.
"""

from __future__ import annotations

import argparse
import difflib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast, get_type_hints

from epochal.errors import UsageError


def _flag(default: Any, help: str) -> Any:  # noqa: A002 (as argparse calls it)
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True, slots=True, kw_only=True)
class Flags:
    """The flags, with their defaults."""

    # How much at once, and how large.
    total_batch_size: int = _flag(524_288, "tokens in one step, over all ranks")
    mini_batch_size: int = _flag(32, "windows in one forward pass of one rank")
    context_length: int = _flag(1024, "tokens in a window")
    num_layers: int = _flag(12, "blocks")
    embd_size: int = _flag(768, "width of the stream")
    num_heads: int = _flag(12, "heads of attention")
    vocab_size: int | None = _flag(None, "rows of the embedding (default: set by the tokenizer)")
    # How it is trained.
    max_lr: float = _flag(1e-3, "learning rate after the warm-up")
    min_lr: float = _flag(1e-4, "learning rate at the end")
    # None only until ``__post_init__`` has put the run's own default in its place.
    warmup_steps: int = _flag(
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
    # What it is trained on and judged by.
    data: str | None = _flag(None, "folder or file of tokens or text (default: a generated text)")
    tokenizer: str | None = _flag(
        None, "bytes, a name of tiktoken's, or a tokenizer.json (default: bytes; gpt2 for shards)"
    )
    init_from: str | None = _flag(None, "a run, checkpoint or file with initial weights")
    finetune: str | None = _flag(None, "fine-tune on a .jsonl of instructions and answers")
    eval_freq: int = _flag(
        250, "steps between evaluations; also evaluated at the start and the end"
    )
    eval_batches: int = _flag(20, "validation batches of each evaluation")
    hellaswag: str | None = _flag(
        None, "the public hellaswag_val.jsonl (default: searched beside the data)"
    )
    hellaswag_examples: int | None = _flag(None, "number of examples to use (default: all)")
    sample_prompt: str = _flag("Hello, I am a language model,", "the beginning of samples")
    # What is kept, and where.
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

    @property
    def num_steps(self) -> int:
        """Steps of the whole run."""
        return self.num_epochs * self.steps_per_epoch

    @property
    def last_step(self) -> int:
        """The step before which this training ends."""
        return self.num_steps if self.max_steps is None else min(self.max_steps, self.num_steps)

    def __post_init__(self) -> None:
        if cast(int | None, self.warmup_steps) is None:
            object.__setattr__(self, "warmup_steps", _usual_warmup(self.num_steps))
        for name in _AT_LEAST_ONE:
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise UsageError(f"--{name} must be at least 1, got {getattr(self, name)}.")
        for name in _AT_LEAST_ZERO:
            if getattr(self, name) < 0:
                raise UsageError(f"--{name} must be at least 0, got {getattr(self, name)}.")
        if not self.max_lr > 0 or self.min_lr > self.max_lr:
            raise UsageError(
                f"--max_lr {self.max_lr} must be above 0 and --min_lr {self.min_lr} not above it."
            )
        if self.warmup_steps >= self.num_steps:
            raise UsageError(
                f"--warmup_steps {self.warmup_steps} must be fewer than the {self.num_steps} "
                "steps of the run (--num_epochs x --steps_per_epoch)."
            )

    def accumulation(self, world_size: int) -> int:
        """Forward passes of each rank in one step; raises when the sizes do not divide."""
        at_once = self.mini_batch_size * self.context_length * world_size
        if self.total_batch_size % at_once:
            raise UsageError(
                f"--total_batch_size {self.total_batch_size} must be a multiple of "
                f"--mini_batch_size x --context_length x ranks = {at_once}."
            )
        return self.total_batch_size // at_once

    def hyperparameters(self) -> dict[str, Any]:
        """What a training is made of: everything but names, folders and machine."""
        # Where weights are from is told with more words, as the run's origin.
        left_out = {*_OF_A_MACHINE, "init_from"}
        return {name: value for name, value in asdict(self).items() if name not in left_out}

    @property
    def trackers(self) -> list[str]:
        """The trackers the run is sent to, and the plain log."""
        wants_board = self.use_tensorboard or self.tensorboard_dir is not None
        return list(dict.fromkeys(["plain_log", *self.report_to, *["tensorboard"] * wants_board]))


def _usual_warmup(num_steps: int) -> int:
    return min(_WARMUP_STEPS, num_steps // 10)


def _num_steps(config: Mapping[str, Any]) -> int:
    whole: dict[str, Any] = {**{entry.name: entry.default for entry in fields(Flags)}, **config}
    return int(whole["num_epochs"]) * int(whole["steps_per_epoch"])


def as_words(config: Mapping[str, Any]) -> list[str]:
    """A run's configuration as the flags that ask for it; defaults are left out."""
    words: list[str] = []
    for entry in fields(Flags):
        value = config.get(entry.name, entry.default)
        value = tuple(value) if isinstance(value, list) else value
        if entry.name == "warmup_steps" and value == _usual_warmup(_num_steps(config)):
            continue
        if entry.name in _OF_A_MACHINE or value == entry.default:
            continue
        if isinstance(value, bool):
            words.append(f"--{'' if value else 'no-'}{entry.name}")
        else:
            several = value if isinstance(value, tuple) else (value,)
            words += [f"--{entry.name}", *(str(one) for one in several)]
    return words


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line: the flags that were given, and what is to be done."""

    given: Mapping[str, Any]
    preset: Mapping[str, Any]
    resume: str | None
    list_checkpoints: bool
    estimate: bool

    def flags(self, saved: Mapping[str, Any] | None = None) -> Flags:
        """The flags, on top of those a checkpoint was saved with."""
        known = {entry.name for entry in fields(Flags)}
        kept = {k: v for k, v in (saved or {}).items() if k in known and k not in _OF_A_MACHINE}
        chosen = {**self.preset, **kept, **self.given}
        return Flags(**{**chosen, "report_to": tuple(chosen.get("report_to") or ())})


# Of the original's 95,365 steps.
_WARMUP_STEPS = 715
_AT_LEAST_ONE = (
    *("total_batch_size", "mini_batch_size", "context_length", "num_layers", "embd_size"),
    *("num_heads", "vocab_size", "num_epochs", "steps_per_epoch", "max_steps", "eval_freq"),
    *("eval_batches", "hellaswag_examples", "checkpoint_freq"),
)
_AT_LEAST_ZERO = (
    *("warmup_steps", "min_lr", "weight_decay", "keep_checkpoints", "keep_emergency_checkpoints"),
    *("histogram_freq", "seed"),
)
_PLACES = frozenset(
    {"run_name", "project", "dir", "logdir", "checkpoint_dir", "tensorboard_dir", "serve"}
)
# Not taken over: a training may be gone on with on another machine.
_OF_A_MACHINE = frozenset({*_PLACES, "device"})
_TINY = {
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
}
PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny": _TINY,
        "124M": {"num_layers": 12, "num_heads": 12, "embd_size": 768},
        "355M": {"num_layers": 24, "num_heads": 16, "embd_size": 1024},
        "774M": {"num_layers": 36, "num_heads": 20, "embd_size": 1280},
        "1558M": {"num_layers": 48, "num_heads": 25, "embd_size": 1600},
    }
)


def read_command(arguments: Sequence[str] | None = None) -> Asked:
    """Read a command line; raises UsageError for what a configuration file cannot say."""
    given = vars(_parser().parse_args(arguments))
    file = given.pop("config", None)
    entries = {} if file is None else _read_file(Path(file))
    preset = given.pop("preset", entries.pop("preset", None))
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"preset {preset!r} is not known: use one of {', '.join(PRESETS)}.")
    commands = {
        "resume": given.pop("resume", entries.pop("resume", None)),
        "list_checkpoints": given.pop("list_checkpoints", False),
        "estimate": given.pop("estimate", False),
    }
    asked = {**{name: _typed(name, value) for name, value in entries.items()}, **given}
    return Asked(asked, PRESETS.get(preset or "", {}), **commands)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m epochal.recipes.gpt2",
        description="Train GPT-2 with recording, a live page and checkpoints.",
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
    )
    kinds = get_type_hints(Flags)
    for entry in fields(Flags):
        help_text = str(entry.metadata["help"])
        shown = "" if entry.default in (None, False) else f" ({entry.default})"
        if kinds[entry.name] is bool:
            action = argparse.BooleanOptionalAction
            parser.add_argument(f"--{entry.name}", action=action, help=help_text)
        elif entry.name == "report_to":
            parser.add_argument("--report_to", nargs="+", metavar="TRACKER", help=help_text)
        else:
            kind = _kind_of(kinds[entry.name])
            name = kind.__name__.upper()
            parser.add_argument(f"--{entry.name}", type=kind, metavar=name, help=help_text + shown)
    parser.add_argument("--preset", choices=PRESETS, help="sizes of the model")
    parser.add_argument("--config", metavar="FILE", help="flags in a YAML or JSON file")
    parser.add_argument(
        "--resume", metavar="WHICH", help="resume from: auto, latest, best, or a path"
    )
    for name, help_text in (
        ("list_checkpoints", "list the checkpoints and exit"),
        ("estimate", "measure a few steps, print the cost of the run and exit"),
    ):
        parser.add_argument(f"--{name}", action="store_true", help=help_text)
    return parser


def _kind_of(hint: Any) -> type:
    """The type of a flag: int, float or str, with or without None."""
    options = [part for part in getattr(hint, "__args__", (hint,)) if part is not type(None)]
    kind = options[0]
    assert isinstance(kind, type)
    return kind


def _read_file(path: Path) -> dict[str, Any]:
    import yaml  # only when a file is given; JSON is YAML

    try:
        text = path.read_text(encoding="utf-8")
        entries = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except OSError as error:
        raise UsageError(f"--config {path} cannot be read: {error.strerror}.") from error
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"--config {path} is neither YAML nor JSON: {error}") from error
    if not isinstance(entries, dict):
        raise UsageError(f"--config {path} must have names and values.")
    known = [*(entry.name for entry in fields(Flags)), "preset", "resume"]
    for name in entries:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1, cutoff=0.0)
            raise UsageError(
                f"--config {path}: {name!r} is not a flag; the nearest is {near[0]!r}."
            )
    return entries


def _typed(name: str, value: Any) -> Any:
    """A value of a file as the flag's type; YAML reads 1e-3 as a text, which is a number here."""
    hint = get_type_hints(Flags)[name]
    if value is None and type(None) in getattr(hint, "__args__", ()):
        return None
    if name == "report_to":
        return (value,) if isinstance(value, str) else tuple(str(item) for item in value)
    kind = _kind_of(hint)
    is_switch = isinstance(value, bool)
    try:
        typed = kind(value)
    except (TypeError, ValueError):
        typed = None
    is_whole = kind is not int or is_switch or typed == float(value) if typed is not None else True
    if typed is None or is_switch != (kind is bool) or not is_whole:
        raise UsageError(f"{name} must be of type {kind.__name__}, got {value!r}.")
    return typed
