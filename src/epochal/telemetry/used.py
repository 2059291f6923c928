"""Which GPUs a run uses, of those it could.

A process that may see eight GPUs often works on one. The driver tells which processes compute on
each; where it hides them, as in most containers, every GPU that is visible counts.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

Computing = Mapping[int, frozenset[int] | None]


class UsedGpus:
    """Learns which GPUs are used; one that was used once stays so.

    ``visible`` are the ids the run could use; with ``others``, it may use more than those.
    ``patience_s`` is how long nothing is taken for granted while no process of the run is seen.
    """

    def __init__(
        self, visible: Collection[int], *, others: bool = False, patience_s: float = 60.0
    ) -> None:
        self.ids: frozenset[int] = frozenset(visible) if len(visible) == 1 else frozenset()
        self._visible = frozenset(visible)
        self._others = others
        self._patience_s = patience_s
        self._is_seen = False

    @property
    def is_complete(self) -> bool:
        """Whether there is nothing more to learn."""
        return self._is_seen and self.ids >= self._visible and not self._others

    def learn(self, computing: Computing, *, own: Collection[int], age_s: float) -> None:
        """Take in who computes where; ``own`` are the run's processes, ``age_s`` the run's age."""
        seen = {gpu for gpu, pids in computing.items() if pids and not pids.isdisjoint(own)}
        if seen:
            # What was only presumed gives way to what is known.
            self.ids = frozenset(seen) if not self._is_seen else self.ids | seen
            self._is_seen = True
        elif not self._is_seen and age_s >= self._patience_s and not any(computing.values()):
            self.ids = self._visible
