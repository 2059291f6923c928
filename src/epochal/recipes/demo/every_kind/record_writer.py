"""Writes one writer's journal of the made-up run, at the times the scenario gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.errors import UsageError
from epochal.journal.header import part_header
from epochal.journal.layout import LOOP, PartName, RunFolder
from epochal.journal.line import encode
from epochal.journal.writer import JournalWriter
from epochal.recipes.demo.every_kind.scenario import Attempt
from epochal.records import Record


class RecordWriter:
    """One writer in one attempt; a context manager that closes its file."""

    def __init__(
        self,
        folder: RunFolder,
        *,
        writer: str,
        attempt: Attempt,
        identity: Mapping[str, Any],
        rank: int = 0,
    ) -> None:
        self.folder = folder
        self._began = float(identity["created"])
        self._identity = identity
        self._rank = rank
        self._attempt = attempt
        self._journal = JournalWriter(
            folder,
            writer=writer,
            attempt=attempt.number,
            header=self._header,
            on_fault=_refuse_loss,
        )
        self._journal.open()

    def at(self, seconds: float) -> float:
        """Unix time of a moment of the scenario, to the millisecond."""
        return round(self._began + seconds, 3)

    def write(self, record: Record) -> None:
        """Append one record; its ``t`` is one of :meth:`at`."""
        self._journal.append(encode(record), record["t"])

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.close()

    def _header(self, part: PartName) -> bytes:
        identity = self._identity
        process = ("host", "boot_id", "pid_namespace", "pid", "pid_start")
        return part_header(
            part,
            identity=identity,
            rank=self._rank,
            t=self.at(self._attempt.begins_s),
            process={key: identity[key] for key in process},
            **({"config": identity["config"]} if part.writer == LOOP else {}),
        )


def _refuse_loss(sentence: str) -> None:
    raise UsageError(f"the demonstration needs a folder it can write: {sentence}")
