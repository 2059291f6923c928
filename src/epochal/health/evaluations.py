"""Which series are of an evaluation, and which of them are shares of right answers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from typing import Any

_PREFIXES = ("eval", "val", "valid", "validation", "test", "dev")
_ACCURACIES = ("acc", "accuracy", "top1", "top_1", "top-1", "exact_match")
# The same names come with every record; a run with more of them is judged all the same.
_MOST_NAMES = 4096
_GAMES = frozenset(
    "reward rewards return returns episode d_loss g_loss loss_d loss_g d_losses g_losses disc_loss "
    "gen_loss discriminator generator critic critic_loss actor actor_loss".split()
)
_REWARDS = frozenset(
    "reward rewards return returns mean_reward reward_mean mean_return return_mean episode_reward "
    "episode_return ep_rew_mean ep_ret_mean rlhf_reward".split()
)
_CLASS_KEYS = ("num_classes", "num_labels", "n_classes", "nb_classes", "classes", "num_class")


@lru_cache(maxsize=_MOST_NAMES)
def is_evaluation(name: str, kind: str) -> bool:
    """Whether a series is of an evaluation, by its record's kind or its name."""
    if kind == "eval":
        return not name.endswith(("eval_tokens", "duration_ms", "tokens_per_second"))
    head = name.lower().replace("_", "/").replace(".", "/").split("/", 1)[0]
    return head in _PREFIXES


@lru_cache(maxsize=64)
def evaluation_names(names: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Return the series of an evaluation among those of a record: most records are alike."""
    return tuple(name for name in names if is_evaluation(name, kind))


@lru_cache(maxsize=_MOST_NAMES)
def is_accuracy(name: str) -> bool:
    """Whether a series is a share of right answers, by its name."""
    words = name.lower().replace(".", "/").split("/")[-1]
    return words in _ACCURACIES or any(part in ("acc", "accuracy") for part in words.split("_"))


@lru_cache(maxsize=_MOST_NAMES)
def is_of_a_game(name: str) -> bool:
    """Whether a series belongs to a training against an opponent or in an environment, by its name.

    There a loss need not fall: its targets move with the training.
    """
    lowered = name.lower().replace(".", "/")
    return lowered.split("/")[-1] in _GAMES or not _GAMES.isdisjoint(re.split(r"[/_]", lowered))


@lru_cache(maxsize=64)
def reward_name(names: tuple[str, ...], kind: str) -> str | None:
    """Return the series of the whole reward in training among those of a record, by its name.

    Other names with a reward in them are of its parts, its deviation or of pairs of answers.
    """
    for name in names:
        words = name.lower().replace(".", "/").removesuffix("/mean").split("/")
        if words[-1] in _REWARDS and not is_evaluation(name, kind):
            return name
    return None


def accuracy_of(value: float, classes: int | None) -> float | None:
    """An accuracy as a share of 1; None where it might as well be per cent.

    Programs log either. Above 1 it is per cent; next to 100/classes it may be a guess in per cent.
    """
    if value > 1:
        return value / 100
    if classes is not None and abs(value * classes / 100 - 1) < 0.3:
        return None
    return value


def num_classes(config: Mapping[str, Any]) -> int | None:
    """The number of classes in the configuration; None if it is not there."""
    for value in configured(config, _CLASS_KEYS):
        count = len(value) if isinstance(value, (list, tuple, dict)) else value
        if isinstance(count, int) and not isinstance(count, bool) and count >= 2:
            return count
    return None


def configured(
    config: Mapping[str, Any], keys: Collection[str] = (), *, part: str | None = None
) -> Iterator[Any]:
    """The values of some keys in a configuration: those of an object before those inside it.

    ``keys`` are last parts of names; ``part`` is anything in one, such as ``optim``.
    """
    for key, value in config.items():
        name = str(key).lower()
        if name.rsplit(".", 1)[-1] in keys or (part is not None and part in name):
            yield value
    for value in config.values():
        if isinstance(value, Mapping):
            yield from configured(value, keys, part=part)
