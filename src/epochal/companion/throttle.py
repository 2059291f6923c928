"""Tells when a GPU begins to be held back, and when it no longer is."""

from __future__ import annotations

from typing import NamedTuple

from epochal.telemetry.gpu import THROTTLE_WORDS

NO_CAP = "no cap"
# A GPU at its power limit is held back in one second and not in the next: that is one change, and
# it is over when a minute has passed without.
RELEASE_S = 60.0
_FREE = ("", "idle")


class ThrottleChange(NamedTuple):
    """What holds a GPU back now, and what did before."""

    throttle: str
    was: str


class ThrottleWatch:
    """One GPU's throttling; a worse cause is recorded at once, a milder one when it lasts."""

    def __init__(self) -> None:
        self._said = NO_CAP
        self._worst = NO_CAP
        self._worst_s = 0.0

    def see(self, throttle: str | None, now_s: float) -> ThrottleChange | None:
        """Take in a reading, None for one without the word; the change it makes, if any."""
        if throttle is None:
            return None
        word = NO_CAP if throttle in _FREE else throttle
        if gravity(word) <= gravity(self._said):
            self._worst, self._worst_s = word, now_s
            return self._change(word)
        # Less grave: of what was seen since the last grave reading, the gravest counts.
        since = self._worst if self._worst != self._said else NO_CAP
        self._worst = min(word, since, key=gravity)
        if now_s - self._worst_s < RELEASE_S:
            return None
        self._worst_s = now_s
        return self._change(self._worst)

    def _change(self, word: str) -> ThrottleChange | None:
        was, self._said = self._said, word
        return None if was == word else ThrottleChange(word, was)


def gravity(word: str) -> int:
    """A word's place among all, the gravest first."""
    return THROTTLE_WORDS.index(word) if word in THROTTLE_WORDS else len(THROTTLE_WORDS)
