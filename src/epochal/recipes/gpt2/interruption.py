"""Signals inside a step or an evaluation, whose end may be minutes away.

Between two passes weights and optimizer are as the last step left them. Only the position in the
data has moved on inside a step; it is put back for the save.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from epochal.recipes.gpt2.setup import Training
from epochal.run.run import Run
from epochal.torch.checkpoint.checkpoints import Checkpoints
from epochal.torch.rank_agreement import Ranks

# Ranks have to ask each other whether a signal came, which costs some tenths of a millisecond.
_ASK_EVERY_S = 1.0

T = TypeVar("T")


class Interruption:
    """Looks for signals between passes; saves the last whole step when one came.

    Every rank makes one, before step `first`.
    """

    def __init__(
        self, training: Training, checkpoints: Checkpoints, run: Run, *, first: int
    ) -> None:
        self._training = training
        self._checkpoints = checkpoints
        self._run = run
        self._ranks = Ranks.present(on_cpu=True)
        self._done = first - 1
        self._metric: float | None = None
        # The place in the data the last whole step left, inside a step.
        self._data: dict[str, Any] | None = None
        self._begun = 0.0
        self._passes = 0
        # How many passes lie between two looks; None until a step was measured.
        self._every: int | None = 1 if training.place.world_size == 1 else None

    def begin(self) -> None:
        """A step begins, and with it the way through its data."""
        self._passes = 0
        self._data = self._training.batches.state_dict()
        self._begun = time.perf_counter()

    def look(self) -> None:
        """A pass is done, and it is not the last; may end the process or raise."""
        self._passes += 1
        if self._passes % (self._every or 1) == 0:
            self._check_signals()

    def end(self, step: int) -> None:
        """The step is done; every rank looks as often as rank 0 found to be about right."""
        self._done, self._data, self._metric = step, None, None
        if self._every is None:
            pass_s = (time.perf_counter() - self._begun) / (self._passes + 1)
            self._every = self._ranks.on_first(lambda: math.ceil(_ASK_EVERY_S / pass_s))

    def iterate(self, items: Iterable[T], /) -> Iterator[T]:
        """The batches of an evaluation with looks between them; may end the process or raise.

        Ranks may have different numbers of them: one that is done looks on with the others.
        """
        for number, item in enumerate(items):
            if number and number % (self._every or 1) == 0:
                self._look_on(goes_on=True)
            yield item
        while self._look_on(goes_on=False):
            pass

    def evaluated(self, metric: float) -> None:
        """The last whole step has been judged; saved later, it is saved with that."""
        self._metric = metric

    def _look_on(self, *, goes_on: bool) -> bool:
        """Look inside an evaluation, unless every rank is done; whether one was not."""
        (any_goes_on,) = self._ranks.highest(int(goes_on))
        if any_goes_on:
            self._check_signals(before_end=self._print_unfinished)
        return bool(any_goes_on)

    def _check_signals(self, *, before_end: Callable[[], object] | None = None) -> None:
        self._checkpoints.check_signals(
            self._done,
            epoch=(self._done + 1) / self._training.flags.steps_per_epoch,
            metric=self._metric,
            as_it_was=self._as_it_was(),
            before_end=before_end,
        )

    def _print_unfinished(self) -> None:
        if self._training.place.rank == 0:
            which = "first evaluation" if self._done < 0 else f"evaluation after step {self._done}"
            self._run.message(
                f"the {which} is left unfinished and not reported; it is made anew when the "
                "training goes on."
            )

    @contextmanager
    def _as_it_was(self) -> Iterator[None]:
        batches = self._training.batches
        if self._data is None:
            yield
            return
        present = batches.state_dict()
        batches.load_state_dict(self._data)
        try:
            yield
        finally:
            batches.load_state_dict(present)
