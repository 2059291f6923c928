"""Many parts that may fail alike (layers, parameters): one finding for them, not one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from epochal.health.rule import Verdict


class StreakCounter:
    """Counts for how many samples in a row each part has ailed, and which one a finding names.

    The one that is named stays the same for as long as it ails, so that the finding does.
    """

    def __init__(self, *, needed: int) -> None:
        self._needed = needed
        self._streaks: dict[str, tuple[int, int]] = {}  # samples in a row, step of the first
        self._lead: str | None = None

    def note(self, name: str, *, ails: bool, step: int) -> None:
        """Take in one sample of one part."""
        if not ails:
            self._streaks.pop(name, None)
            return
        count, since = self._streaks.get(name, (0, step))
        self._streaks[name] = (count + 1, since)

    def names(self) -> list[str]:
        """The parts that have ailed for long enough, in the order in which it began."""
        return [name for name, (count, _) in self._streaks.items() if count >= self._needed]

    def since(self, name: str) -> int:
        """The step of the first sample of a part that ails."""
        return self._streaks[name][1]

    def forget(self) -> None:
        """Count again; named layers stay named until a sample clears them."""
        self._streaks.clear()

    def verdicts(
        self, subject: Callable[[str], str], describe: Callable[[Sequence[str]], Verdict]
    ) -> Iterator[Verdict]:
        """A verdict on the part that is named, and one that clears it when it has recovered.

        ``subject`` is what a part is called in findings; ``describe`` makes the verdict on all the
        parts that ail, the one that is named first.
        """
        names = self.names()
        if self._lead is not None and self._lead not in names:
            yield Verdict(subject(self._lead), active=False)
            self._lead = None
        if self._lead is None and names:
            self._lead = names[0]
        if self._lead is not None:
            yield describe([self._lead, *(name for name in names if name != self._lead)])
