"""Writes run folders line by line, so that a test says exactly what is on disk."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.journal.line import encode
from epochal.journal.process import process_identity


class Journal:
    """A run folder in the making; ``t`` of each record is one more than the one before."""

    def __init__(
        self,
        root: Path,
        name: str = "x",
        *,
        project: str = "p",
        identity: bool = True,
        **facts: Any,
    ) -> None:
        self.folder = RunFolder(root / project / name)
        self.folder.path.mkdir(parents=True)
        self.name, self.project, self.id = name, project, facts.pop("id", f"id-{name}")
        self.t = 1000.0
        if identity:
            write_json(
                self.folder.identity,
                {
                    "v": 1,
                    "id": self.id,
                    "name": name,
                    "project": project,
                    "created": 1000.0,
                    **facts,
                },
            )
        self.folder.journal.mkdir()

    def path(self, writer: str = "loop", attempt: int = 1, part: int = 0) -> Path:
        return self.folder.part_path(PartName(writer, attempt, part))

    def add(
        self, *records: dict[str, Any], writer: str = "loop", attempt: int = 1, part: int = 0
    ) -> Journal:
        path = self.path(writer, attempt, part)
        with path.open("ab") as file:
            if file.tell() == 0:
                file.write(encode(self._header(writer, attempt, part)))
            for record in records:
                self.t += 1
                file.write(encode({"log": record["log"], "t": self.t, **record}))
        return self

    def metrics(self, step: int, *, writer: str = "loop", attempt: int = 1, **m: float) -> Journal:
        return self.add({"log": "metrics", "step": step, "m": m}, writer=writer, attempt=attempt)

    def epoch(self, epoch: int, *, attempt: int = 1, total: int = 100, **m: float) -> Journal:
        record = {"log": "epoch", "epoch": epoch, "total": total, "duration_s": 0.049, "m": m}
        return self.add(record, attempt=attempt)

    def finish(self, status: str = "finished", *, attempt: int = 1) -> Journal:
        return self.add({"log": "finish", "status": status}, attempt=attempt)

    def _header(self, writer: str, attempt: int, part: int) -> dict[str, Any]:
        return {
            "log": "run",
            "t": self.t,
            "v": 1,
            "id": self.id,
            "name": self.name,
            "project": self.project,
            "writer": writer,
            "attempt": attempt,
            "part": part,
            "rank": int(writer[5:])
            if writer.startswith("rank-")
            else -1
            if "child" in writer
            else 0,
            **process_identity(),
        }


def settle(root: Path, *, seconds: float = 3600.0) -> None:
    """Make all that lies below a folder older, as if nobody had written for some time."""
    then = time.time() - seconds
    for path in root.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (then, then))
