"""The run that ``epochal.log`` and ``epochal.finish`` act on.

One per process, seen by every thread: a context variable would be empty in threads that a training
starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from epochal.errors import UsageError

if TYPE_CHECKING:
    from epochal.run.run import Run


@dataclass(slots=True)
class _Current:
    run: Run | None = None


CURRENT = _Current()


def current_run() -> Run:
    """The current run; raises when there is none."""
    if CURRENT.run is None:
        raise UsageError("there is no current run: call epochal.init() first.")
    return CURRENT.run


def log(metrics: Mapping[str, Any], step: int | None = None) -> None:
    """Append metrics to the current run at a step, by default the last one + 1."""
    current_run().log(metrics, step)


def finish(status: str = "finished") -> None:
    """Finish the current run; does nothing when there is none."""
    if CURRENT.run is not None:
        CURRENT.run.finish(status)
