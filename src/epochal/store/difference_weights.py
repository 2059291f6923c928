"""How much a difference between two runs can change a metric, before anything else is known.

A weight is between 0 (cannot change training) and 1. ``importance`` of the project's runs replaces
the weight of a config key where there are enough runs; ``why.py`` does that.
"""

from __future__ import annotations

import math
import re
from typing import Any

from epochal.store.comparison import MISSING
from epochal.store.groups import comparable, level, repeat_keys
from epochal.store.run_facts import Area, patch_files
from epochal.values import as_float

# Below this, a difference does not change training in any way that would be seen.
NEGLIGIBLE = 0.2
REPEAT = 0.1

_USUAL = (
    "lr rate optimizer optim batch wd weight decay momentum beta beta1 beta2 betas eps schedule"
    " scheduler warmup warm model arch architecture dim hidden depth layers layer heads head width"
    " channels dropout epochs steps iters init loss dtype precision amp fp16 bf16 clip accum"
    " accumulation augment augmentation dataset data tokenizer seq length context vocab norm"
    " activation temperature gamma size train pretrained frozen freeze lora rank alpha"
    " objective smoothing ema mixup"
)
_USUAL_WORDS = frozenset(_USUAL.split())
# Whatever else is in the key.
_SILENT_WORDS = frozenset("workers worker log logging save saves wandb verbose debug".split())
# Unless the key is about something that matters, such as ``model_name``.
_QUIET_WORDS = frozenset(
    "name dir path folder output port device host project notes tags tracker prefetch pin every"
    " interval console report cache id checkpoint checkpoints".split()
)
_PACKAGES = frozenset(
    "torch numpy jax jaxlib flax optax tensorflow keras transformers tokenizers datasets accelerate"
    " deepspeed lightning pytorch-lightning torchvision torchaudio triton flash-attn xformers"
    " bitsandbytes peft trl apex timm scikit-learn xgboost lightgbm catboost scipy diffusers"
    " torchao torchtitan megatron-core transformer-engine monai ray gymnasium".split()
)
_PACKAGE_STARTS = ("nvidia-", "cuda-", "jax-", "torch")
_DOCUMENTS = (".md", ".rst", ".txt", ".ipynb", ".gitignore", ".toml", ".lock", ".cfg")


def weigh(area: Area, key: str, left: Any, right: Any) -> tuple[float, str]:
    """The weight of a difference between two values, and why it has that weight."""
    if area == "config":
        return _config(key, left, right)
    if area == "code":
        return _code(key, left, right)
    if area == "command":
        return 0.3, "The programs were started with different arguments."
    if area == "data" and is_repeat(key):
        return REPEAT, "Another order of the same data is noise, as another seed is."
    if area == "data":
        return 0.8, "Another training set gives another result."
    if area == "packages":
        return _package(key, left, right)
    return _hardware(key)


def is_repeat(key: str) -> bool:
    """Whether a difference only repeats an experiment, as a seed or an order of samples does."""
    return bool(repeat_keys([key])) or key.endswith(" order")


def is_rate(key: str) -> bool:
    """Whether a key of the config is about the learning rate."""
    return bool({"lr", "rate", "warmup", "schedule", "scheduler"} & set(words_of(key)))


def words_of(key: str) -> list[str]:
    """The words of a key: ``optim.weightDecay`` has optim, weight and decay."""
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", key)
    return [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]


def _config(key: str, left: Any, right: Any) -> tuple[float, str]:
    words = set(words_of(key))
    is_usual = bool(words & _USUAL_WORDS)
    if is_repeat(key):
        return REPEAT, "A seed repeats an experiment and explains no more than noise."
    if words & _SILENT_WORDS or (words & _QUIET_WORDS and not is_usual):
        return 0.05, "Keys like this do not change training."
    known = "Keys like this usually change the result" if is_usual else "What the key does is open"
    strength, change = _change(left, right)
    weight = (0.85 if is_usual else 0.5) * strength
    return weight, f"{known}{change}."


def _change(left: Any, right: Any) -> tuple[float, str]:
    """How large a change of a value is, from 0.5 to 1, and in words."""
    if MISSING in (left, right) and isinstance(left, str) | isinstance(right, str):
        return 0.8, "; only one run sets it"
    numbers = [as_float(one) for one in (left, right) if type(one) in (int, float)]
    if len(numbers) < 2:
        return 1.0, ""
    if not all(map(math.isfinite, numbers)) or 0 in numbers or (left > 0) != (right > 0):
        return 1.0, ""
    ratio = max(map(abs, numbers)) / min(map(abs, numbers))
    strength = 0.5 + 0.5 * min(1.0, math.log2(ratio))
    return strength, f", and this one differs by a factor of {ratio:.3g}"


def _code(key: str, left: Any, right: Any) -> tuple[float, str]:
    if key == "commit":
        return 0.5, f"The code is of another commit: 'git diff {left} {right}' shows what changed."
    files = [file for text in (left, right) for file in patch_files(str(text))]
    if files and all(file.endswith(_DOCUMENTS) or "test" in file for file in files):
        return 0.05, "The changes that were not committed touch no code of the training."
    return 0.55, "The changes that were not committed differ; see the patch of each run."


def _package(name: str, left: Any, right: Any) -> tuple[float, str]:
    is_computing = name in _PACKAGES or name.startswith(_PACKAGE_STARTS)
    if not is_computing or name == "nvidia-ml-py":
        return 0.03, "A package like this does not compute in training."
    if MISSING in (left, right):
        return 0.05, "Only one side has it installed; nothing says that the training uses it."
    versions = [str(one).split("+")[0].split(".") for one in (left, right)]
    if versions[0][:2] == versions[1][:2]:
        return 0.25, "The training computes with it; the versions differ in the last place."
    return 0.35, "The training computes with it."


def _hardware(key: str) -> tuple[float, str]:
    if key == "processes":
        return 0.6, "More processes make a larger global batch unless each one has less."
    if key == "GPUs":
        return 0.25, "Other GPUs round differently and may use other kernels."
    if key == "Python":
        return 0.05, "Another Python does not change what is computed."
    return 0.02, "This does not change what is computed."


def is_same(left: Any, right: Any) -> bool:
    """Whether two values are equal: 1 and 1.0 are, 1 and True are not."""
    return comparable(level(left)) == comparable(level(right))
