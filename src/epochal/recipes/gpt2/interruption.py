"""Signals inside a step: with half a million tokens in one, its end may be minutes away.

Between two passes weights and optimizer are as the last step left them; only the place in the data
has moved on, and is put back for the save.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from epochal.recipes.gpt2.setup import Training
from epochal.torch.checkpoints import Checkpoints
from epochal.torch.rank_agreement import Ranks

# Ranks have to ask each other whether a signal came, which costs some tenths of a millisecond.
_ASK_EVERY_S = 1.0


class Interruption:
    """Looks for signals between the passes of a step; saves the last whole step when one came."""

    def __init__(self, training: Training, checkpoints: Checkpoints) -> None:
        self._training = training
        self._checkpoints = checkpoints
        self._done = -1
        self._data: dict[str, Any] = {}
        self._begun = 0.0
        self._passes = 0
        # How many passes lie between two looks; None until a step was measured.
        self._every: int | None = 1 if training.place.world_size == 1 else None

    def begin(self, step: int) -> None:
        """A step begins, and with it the way through its data."""
        self._done, self._passes = step - 1, 0
        self._data = self._training.batches.state_dict()
        self._begun = time.perf_counter()

    def look(self) -> None:
        """A pass is done, and it is not the last; may end the process or raise."""
        self._passes += 1
        if self._passes % (self._every or 1) == 0:
            epoch = (self._done + 1) / self._training.flags.steps_per_epoch
            self._checkpoints.heed(self._done, epoch=epoch, as_it_was=self._as_it_was())

    def end(self) -> None:
        """The step is done; every rank looks as often as rank 0 found to be about right."""
        if self._every is None:
            pass_s = (time.perf_counter() - self._begun) / (self._passes + 1)
            self._every = Ranks.present().on_first(lambda: math.ceil(_ASK_EVERY_S / pass_s))

    @contextmanager
    def _as_it_was(self) -> Iterator[None]:
        batches = self._training.batches
        present = batches.state_dict()
        batches.load_state_dict(self._data)
        try:
            yield
        finally:
            batches.load_state_dict(present)
