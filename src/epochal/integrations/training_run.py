"""The run of a callback: the one it was given, the one that is open, or one of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.integrations.framework import current_run, open_run, reopen_run
from epochal.run.run import Run


class TrainingRun:
    """Opens and finishes the run of one training after the other.

    A run of its own begins and ends with the training. Other runs stay open, and their owner
    finishes them. ``says_end`` is False for a framework that does not call at the end of a
    training; of the others a training without an end has failed.
    """

    def __init__(
        self, run: Run | None, options: Mapping[str, Any], *, says_end: bool = True
    ) -> None:
        self._says_end = says_end
        self._given = run
        self._options = options
        self._own: Run | None = None
        self.run = run

    def begin(self, config: Mapping[str, Any] | None = None, **defaults: Any) -> Run:
        """The run of a training that begins; an own one of a training before is finished."""
        if self._says_end:
            self.end("failed", reason="the training ended with an exception")
        else:
            self.end()
        self.run = self._given or current_run()
        if self.run is None:
            self.run = self._own = open_run(self._options, config=config, **defaults)
        elif config:
            self.run.config.update({**config, **(self._options.get("config") or {})})
        return self.run

    def opened(self, **defaults: Any) -> Run:
        """The run for values outside a training: the last one, which is continued if it ended."""
        if self.run is None:
            return self.begin(**defaults)
        if self.run.finished and self.run is self._own:
            self.run = self._own = reopen_run(self.run, self._options)
        return self.run

    def end(self, status: str = "finished", *, reason: str | None = None) -> None:
        """Finish an own run; the others go on."""
        if self._own is not None and not self._own.finished:
            self._own.finish(status, reason=reason)
