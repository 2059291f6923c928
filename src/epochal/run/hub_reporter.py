"""Prints which hub a run is sent to, and when that fails.

The companion sends it, and writes a failure into its own journal.

The file is read at most once a second, between two records of the training, and only with a hub.
"""

from __future__ import annotations

import json
import os

from epochal.journal.layout import TELEMETRY, PartName, node_name
from epochal.run.recorder import Recorder

_MARK = b'"hub-failed"'
# A hub that comes and goes is not told of all day.
_MOST_NOTICES = 3


class HubReporter:
    """Looks for what the companion of one node says of the hub."""

    def __init__(self, recorder: Recorder, hub: str, *, node: str) -> None:
        self._recorder = recorder
        self._hub = hub.partition("?")[0].rstrip("/")  # a link has its token behind that
        self._pid = os.getpid()
        self._name = PartName(f"{TELEMETRY}{node_name(node)}", recorder.attempt, 0)
        self._offset = 0
        self._told: set[str] = set()

    def begin(self) -> None:
        """Print the address, and look for failures until the end."""
        self._recorder.console.line(f"epochal: the run is sent to the hub {self._hub}")
        self._recorder.on_tick.add(self.look)
        self._recorder.ending.after_finish.add(lambda _status: self.look())

    def look(self) -> None:
        """Print each new reason once."""
        if os.getpid() != self._pid or len(self._told) >= _MOST_NOTICES:
            return
        for line in self._new_lines():
            if _MARK in line:
                self._tell(line)

    def _new_lines(self) -> list[bytes]:
        """The lines since the last look; a companion that was restarted writes the next part."""
        path = self._recorder.folder.part_path(self._name)
        try:
            with open(path, "rb") as file:
                file.seek(self._offset)
                block = file.read()
        except OSError:  # not made yet, or sealed
            block = b""
        end = block.rfind(b"\n") + 1
        self._offset += end
        following = self._name._replace(part=self._name.part + 1)
        if self._recorder.folder.part_path(following).exists():
            self._name, self._offset = following, 0
        return block[:end].splitlines()

    def _tell(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            return
        reason = record.get("reason")
        if record.get("name") != "hub-failed" or not isinstance(reason, str):
            return
        if reason not in self._told:
            self._told.add(reason)
            self._recorder.console.notice(
                f"the run is not sent to its hub at the moment: {reason} It is recorded here. What"
                " its companion cannot send until the end,"
                f" 'epochal hub push {self._recorder.folder.path}' sends later."
            )
