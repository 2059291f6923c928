"""What a family of trainings is: how it is recognised, what carries its diagnosis, what is normal.

Facts are the names of series and the keys of the configuration. Nothing is guessed from values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a run when its family is asked for."""

    names: Collection[str] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    has_labels: bool = False  # whether a watched loader gives classes

    def series(self, *, last: Collection[str] = (), word: Collection[str] = ()) -> str | None:
        """Return the first series whose last part, or any word, is among these."""
        for name in self.names:
            final, words = parts_of(name)
            if final in last or not words.isdisjoint(word):
                return name
        return None

    def key(self, *keys: str) -> str | None:
        """Return the first of these keys that is in the configuration, at any depth."""
        present = set(_keys(self.config))
        return next((key for key in keys if key in present), None)


@lru_cache(maxsize=4096)
def parts_of(name: str) -> tuple[str, frozenset[str]]:
    """Return the last part of a series' name, and all words in it, in lower case."""
    lowered = name.lower().replace(".", "/")
    final = lowered.rsplit("/", 1)[-1]
    return final, frozenset((*lowered.replace("_", "/").split("/"), *lowered.split("/")))


def _keys(config: Mapping[str, Any]) -> Iterator[str]:
    for key, value in config.items():
        yield str(key).lower().rsplit(".", 1)[-1]
        if isinstance(value, Mapping):
            yield from _keys(value)


# What watching a model logs for its layers, which have any names.
_LAYERS = ("grads/", "params/", "update_ratio/", "running_stats/", "abs_max/")
_MOST_NAMES = 512


def note_names(known: dict[str, None], names: Iterable[str]) -> None:
    """Add the names of series that may say what a training is, as they are met."""
    if len(known) < _MOST_NAMES:
        known.update((name, None) for name in names if not name.startswith(_LAYERS))


# Returns the fact that speaks for a family, as the end of a sentence; None if there is none.
Recognise = Callable[[Facts], str | None]


@dataclass(frozen=True, slots=True)
class Family:
    """One family.

    ``loss_falls``: whether a lower loss means a better model. Where the targets move with the
    training it does not, and rules about a falling loss do not run. ``curves`` carry the diagnosis,
    the most telling first. ``normal`` says by curve what a healthy training shows.
    """

    name: str
    title: str
    recognise: Recognise
    curves: Sequence[str] = ()
    normal: Mapping[str, str] = field(default_factory=dict)
    loss_falls: bool = True


UNKNOWN = Family("unknown", "a training of unknown kind", lambda facts: None)


def logged(name: str | None) -> str | None:
    """Say that a series is logged."""
    return None if name is None else f"{name} is logged"


def in_config(key: str | None) -> str | None:
    """Say that a key is in the configuration."""
    return None if key is None else f"the configuration has {key}"
