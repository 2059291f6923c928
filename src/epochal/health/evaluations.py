"""Which series are of an evaluation, and which of them are shares of right answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_PREFIXES = ("eval", "val", "valid", "validation", "test", "dev")
_ACCURACIES = ("acc", "accuracy", "top1", "top_1", "top-1", "exact_match")
_CLASS_KEYS = ("num_classes", "num_labels", "n_classes", "nb_classes", "classes", "num_class")


def is_evaluation(name: str, kind: str) -> bool:
    """Whether a series is of an evaluation, by its record's kind or its name."""
    if kind == "eval":
        return not name.endswith(("eval_tokens", "duration_ms", "tokens_per_second"))
    head = name.lower().replace("_", "/").replace(".", "/").split("/", 1)[0]
    return head in _PREFIXES


def is_accuracy(name: str) -> bool:
    """Whether a series is a share of right answers, by its name."""
    words = name.lower().replace(".", "/").split("/")[-1]
    return words in _ACCURACIES or any(part in ("acc", "accuracy") for part in words.split("_"))


def num_classes(config: Mapping[str, Any]) -> int | None:
    """How many classes there are, by the configuration; None when it does not say."""
    for key, value in config.items():
        if key.rsplit(".", 1)[-1].lower() in _CLASS_KEYS:
            count = len(value) if isinstance(value, (list, tuple, dict)) else value
            if isinstance(count, int) and not isinstance(count, bool) and count >= 2:
                return count
    for value in config.values():
        if isinstance(value, Mapping):
            found = num_classes(value)
            if found is not None:
                return found
    return None
