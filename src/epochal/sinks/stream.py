"""Turns the records of a run into entries for sinks, and remembers what the next entry needs.

Only rank 0's training is sent, and the telemetry of every node: the same rule for every sink.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.journal.layout import LOOP, rank_of_writer
from epochal.journal.line_columns import Lines
from epochal.records import Position, Record, axis_of
from epochal.sinks.backlog import Piece
from epochal.sinks.sink import Entry, EntryColumns, have_columns

_TELEMETRY = "telemetry-"


def is_sent(writer: str) -> bool:
    """Whether a writer's records go to sinks at all."""
    return not rank_of_writer(writer)


class Stream:
    """Gives each record its step and node, in order; ``plain()`` is the state to continue from."""

    def __init__(self, memory: Mapping[str, Any] | None = None) -> None:
        remembered = memory or {}
        self._step: int | None = remembered.get("step")
        self._epoch: int | None = remembered.get("epoch")
        # Writers whose telemetry is of another node than rank 0's.
        self._remote_writers: list[str] = list(remembered.get("away", ()))
        self.status: str | None = remembered.get("status")

    def plain(self) -> dict[str, Any]:
        """The state, as JSON values."""
        return {
            "step": self._step,
            "epoch": self._epoch,
            "away": self._remote_writers,
            "status": self.status,
        }

    def pieces(self, piece: Piece) -> list[Entry | EntryColumns]:
        """The records of a piece that are sent, as columns where it has them."""
        content = piece.content
        if isinstance(content, Lines) and have_columns(content.shape):
            writer = piece.first.writer
            columns = EntryColumns(piece.first, content, self._node_of(writer))
            if writer == LOOP and axis_of({"log": columns.kind, "step": 0}) == "step":
                self._step = columns.steps[-1]
            return [columns]
        found = (self.entry(*item) for item in piece.items())
        return [entry for entry in found if entry is not None]

    def entry(self, position: Position, record: Record) -> Entry | None:
        """The record with its step and node; None for one that is not sent."""
        writer = position.writer
        if record["log"] == "run" and not self._begins(position, record):
            return None
        if record["log"] == "finish":
            if writer != LOOP:
                return None
            self.status = str(record.get("status"))
        return Entry(position, record, self._step_of(writer, record), self._node_of(writer))

    def _begins(self, position: Position, record: Record) -> bool:
        """Take in the first record of a part; True for the one that begins an attempt."""
        if position.writer.startswith(_TELEMETRY):
            is_remote = bool(record.get("rank"))
            if is_remote and position.writer not in self._remote_writers:
                self._remote_writers.append(position.writer)
            return False
        if position.writer != LOOP or position.part:
            return False
        self.status = None
        return True

    def _step_of(self, writer: str, record: Record) -> int:
        axis, step, epoch = axis_of(record), record.get("step"), record.get("epoch")
        if axis == "epoch" and isinstance(epoch, int):
            self._epoch = epoch
            return epoch
        if isinstance(step, int):
            if axis == "step" and writer == LOOP:
                self._step = step
            return step
        reached = self._epoch if self._step is None else self._step
        return 0 if reached is None else reached

    def _node_of(self, writer: str) -> str | None:
        return writer.removeprefix(_TELEMETRY) if writer in self._remote_writers else None
