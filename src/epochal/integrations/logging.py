"""Sends records of Python's ``logging`` to the messages of a run.

``logging.getLogger().addHandler(EpochalHandler())`` is all a program needs.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

from epochal.errors import RunFinishedError
from epochal.integrations.framework import callback
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run

# The levels of a message; a level in between is the next lower one.
_LEVELS = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (logging.INFO, "info"))


class EpochalHandler(logging.Handler):
    """Writes each record to ``run``, by default the run that is current when the record comes.

    Nothing is printed: other handlers of the logger do that. Without an open run, records are left
    to them. What is logged while a record is being written, by Epochal itself or by what a record
    calls, is not written: a handler that logs never ends.
    """

    def __init__(self, run: Run | None = None, level: int | str = logging.NOTSET) -> None:
        super().__init__(level)
        self._run = run
        self._busy = threading.local()
        self.setFormatter(logging.Formatter("%(name)s: %(message)s"))

    @callback
    def emit(self, record: logging.LogRecord) -> None:
        """Write one record with its level; its text begins with the name of its logger."""
        if getattr(self._busy, "is_writing", False):
            return
        run = OPEN_RUNS.current if self._run is None else self._run
        if run is None or run.state == "finished":
            return
        self._busy.is_writing = True
        try:
            run.write(self._message(record), silent=True)
        except RunFinishedError:
            pass  # by another thread, meanwhile
        except (TypeError, ValueError, RuntimeError, AttributeError, LookupError):
            self.handleError(record)  # wrong arguments: what every handler of logging does
        finally:
            self._busy.is_writing = False

    def flush(self) -> None:
        """Nothing is kept back: what was logged is in the journal."""

    def _message(self, record: logging.LogRecord) -> dict[str, Any]:
        return {
            "log": "message",
            "t": record.created,
            "level": level_of(record.levelno),
            "text": self.format(record),
        }


def level_of(number: int) -> str:
    """The level of a message for a level of ``logging``."""
    return next((name for least, name in _LEVELS if number >= least), "debug")
