"""Who a run is: its names, its folder, and how it stands in this process."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from epochal.console.printer import Console
from epochal.journal.layout import RunFolder
from epochal.journal.writer import JournalWriter
from epochal.run.config import RunConfig
from epochal.run.vocabulary import Vocabulary


class IdentifiedRun(Vocabulary):
    """The part of a run that answers who it is."""

    attempt: int
    _identity: dict[str, Any]
    _config: RunConfig
    _folder: RunFolder
    _writer: JournalWriter | None
    _console: Console
    _step: int
    _finished: bool

    @property
    def id(self) -> str:
        """The run's own id, unique everywhere."""
        return str(self._identity["id"])

    @property
    def name(self) -> str:
        """The run's name."""
        return str(self._identity["name"])

    @property
    def project(self) -> str:
        """The project the run belongs to."""
        return str(self._identity["project"])

    @property
    def dir(self) -> Path:
        """The run's folder."""
        return self._folder.path

    @property
    def folder(self) -> RunFolder:
        """The paths inside the run's folder."""
        return self._folder

    @property
    def config(self) -> RunConfig:
        """The configuration; a change is recorded. ``config.copy()`` is a plain dict."""
        return self._config

    @property
    def resumed(self) -> bool:
        """Whether this is not the run's first attempt."""
        return self.attempt > 1

    @property
    def step(self) -> int:
        """The last step that was logged, -1 before the first."""
        return self._step

    @property
    def finished(self) -> bool:
        """Whether the last record is written; the run takes no more then."""
        return self._finished

    @property
    def is_recorded(self) -> bool:
        """Whether anything is written; False when EPOCHAL_MODE is off."""
        return self._writer is not None

    @property
    def is_of_this_process(self) -> bool:
        """Whether this process started the run; False in a forked child."""
        return bool(self._identity.get("pid") == os.getpid())

    @property
    def lost_records(self) -> int:
        """How many records this process could not write."""
        return 0 if self._writer is None else self._writer.lost_total

    @property
    def console(self) -> Console:
        """Where this run's lines go."""
        return self._console
