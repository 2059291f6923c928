"""The problems of a file that is read as it grows, as sentences."""

from __future__ import annotations

from pathlib import Path

_MAX_SENTENCES = 20


class Problems(list[str]):
    """Sentences about one file; of many only the first, and how many more there are."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._num = 0

    def say(self, sentence: str) -> None:
        """Add a problem."""
        self._num += 1
        if len(self) < _MAX_SENTENCES:
            self.append(sentence)
        else:
            more = self._num - _MAX_SENTENCES
            self[_MAX_SENTENCES:] = [f"{self._path} is damaged in {more} more places."]

    def say_once(self, sentence: str) -> None:
        """Add a problem that is not among the sentences."""
        if sentence not in self:
            self.say(sentence)

    def say_shorter(self, offset: int) -> None:
        """Add that the file is shorter than what was read of it."""
        self.say_once(f"{self._path} became shorter than the {offset} bytes read of it.")

    def say_damage(self, place: int, what: str, *, once: bool = False) -> None:
        """Add that the bytes at a place of the file cannot be read."""
        say = self.say_once if once else self.say
        say(f"{self._path} is damaged at byte {place}: {what}.")
