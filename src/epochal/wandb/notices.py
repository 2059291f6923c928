"""Says once in one sentence that something is accepted and has no effect."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from typing import Any

from epochal.run.console.messages import error
from epochal.wandb.settings import is_silent

_SAID: set[str] = set()


def say_once(sentence: str) -> None:
    """Print a sentence on stderr, once in this process; nothing with ``WANDB_SILENT``."""
    if sentence in _SAID or is_silent():
        return
    _SAID.add(sentence)
    error("epochal: %s", sentence)


def not_supported(what: str, then: str = "it is accepted and has no effect") -> None:
    """Say once that a feature of W&B is not there."""
    say_once(f"{what} is not supported by epochal.wandb: {then}.")


def term(sentence: Any) -> None:
    """Print what a script prints through ``wandb.termlog`` and the like."""
    if not is_silent():
        error("wandb: %s", str(sentence).rstrip(os.linesep))


class ExplainsMissingMembers:
    """A class of W&B's that has not every member here: asking for such a one is one sentence."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        kind = type(self).__name__
        kind = kind.removeprefix("Api") or kind
        raise AttributeError(
            f"epochal.wandb has no {kind}.{name}: docs/how-to/from-wandb.md lists what it has."
        )


class ByAttribute(MutableMapping[str, Any]):
    """A mapping whose entries are attributes too."""

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__") or key not in self:
            raise AttributeError(f"there is no entry {key!r}.")
        return self[key]

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def __delattr__(self, key: str) -> None:
        del self[key]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))
