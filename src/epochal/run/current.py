"""The run that ``epochal.log`` and ``epochal.finish`` act on.

One per process, seen by every thread: a context variable would be empty in threads that a training
starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
