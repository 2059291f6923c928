"""A text to learn: sentences of a tiny grammar, made on the spot, so that nothing is downloaded.

Because the grammar is known, so is the lowest loss that any model of any size can reach on it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from statistics import fmean

import numpy as np
import numpy.typing as npt

ALPHABET = "\n .abcdefghijklmnopqrstuvwxyz"

_ADJECTIVES = "old quiet small brave young tired clever distant proud gentle curious lonely"
_PEOPLE = "sailor farmer teacher miller painter doctor child raven baker king fox widow"
_VERBS = "finds carries remembers follows paints guards leaves hears mends hides sells"
_TRAITS = "broken silver heavy hidden warm narrow bright lost golden painted secret wooden"
_THINGS = "lantern river garden window letter harbour bridge song mirror candle door"
# One tuple per place in the sentence, each word of it equally likely there.
_PLACES = (
    ("the", "every", "one", "that"),
    tuple(_ADJECTIVES.split()),
    tuple(_PEOPLE.split()),
    tuple(_VERBS.split()),
    ("a", "the"),
    tuple(_TRAITS.split()),
    tuple(_THINGS.split()),
    ("at dawn", "in winter", "near the sea", "without a word", "under the stars", "again"),
)
WORDS = frozenset(word for place in _PLACES for phrase in place for word in phrase.split())


def write_text(rng: np.random.Generator, *, num_sentences: int) -> str:
    """That many sentences of the grammar, one to a line."""
    lines = (
        " ".join(place[rng.integers(len(place))] for place in _PLACES) for _ in range(num_sentences)
    )
    return "".join(f"{line}.\n" for line in lines)


def lowest_possible_loss() -> float:
    """The entropy of the grammar, in nats per character."""
    nats = sum(math.log(len(place)) for place in _PLACES)
    characters = sum(fmean(len(phrase) + 1 for phrase in place) for place in _PLACES) + 1
    return nats / characters


def share_of_real_words(text: str) -> float:
    """How many of a text's words are the grammar's, 0 to 1; the last may be cut short."""
    words = re.findall(r"[^ .\n]+", text)[:-1]
    return sum(word in WORDS for word in words) / len(words) if words else 0.0


def encode(text: str) -> npt.NDArray[np.int64]:
    """A text as places in the alphabet."""
    return np.array([ALPHABET.index(character) for character in text], dtype=np.int64)


def decode(codes: Iterable[int]) -> str:
    """The text of places in the alphabet."""
    return "".join(ALPHABET[code] for code in codes)
