"""Runs by their folder: several writers of one folder and one process write one run."""

from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, field
from pathlib import Path

from epochal.run.run import Run
from epochal.run.start import init_in


@dataclass(slots=True)
class _Held:
    run: Run
    holders: weakref.WeakSet[object] = field(default_factory=weakref.WeakSet)


class SharedRuns:
    """The runs that writers hold; a run is finished when its last holder lets go of it."""

    def __init__(self) -> None:
        self._held: dict[Path, _Held] = {}
        self._lock = threading.RLock()

    def hold(self, folder: Path, holder: object, *, resume_step: int | None = None) -> Run:
        """The open run of a folder, or a new attempt of it.

        ``resume_step`` begins a new attempt in any case and hides steps from there on.
        """
        with self._lock:
            held = self._held.get(folder)
            if held is not None and resume_step is not None:
                held.run.finish(reason=f"another writer takes over at step {resume_step}")
            if held is None:
                held = self._held[folder] = _Held(init_in(folder, resume_step=resume_step))
            elif held.run.finished:
                held.run = init_in(folder, resume_step=resume_step)
            held.holders.add(holder)
            return held.run

    def release(self, folder: Path, holder: object, error: BaseException | None = None) -> None:
        """Let go of a folder's run; ``error`` is what ends its last holder, if anything does."""
        with self._lock:
            held = self._held.get(folder)
            if held is None:
                return
            held.holders.discard(holder)
            if held.holders:
                return
            del self._held[folder]
        if error is None:
            held.run.finish()
        else:
            held.run.__exit__(type(error), error, error.__traceback__)


SHARED_RUNS = SharedRuns()
