"""Trackio into its local SQLite store."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role


class Trackio:
    name = "trackio"
    role: Role = "peer"
    requirements: tuple[str, ...] = ("trackio",)
    import_statement = "import trackio"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        os.environ["TRACKIO_DIR"] = str(directory)  # read when trackio is imported
        import trackio

        self._run = trackio.init(project="bench", name="run", embed=False)
        log: Log = self._run.log
        return log

    def close(self) -> None:
        self._run.finish()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        os.environ["TRACKIO_DIR"] = str(directory)
        from trackio.sqlite_storage import SQLiteStorage

        wanted = set(keys)
        rows = SQLiteStorage.get_logs("bench", "run")
        return {row["step"] for row in rows if wanted <= row.keys()}

    def read_series(self, directory: Path, key: str, steps: int) -> float:
        """Seconds from nothing to every point of a series; imports are not counted."""
        os.environ["TRACKIO_DIR"] = str(directory)
        from trackio.sqlite_storage import SQLiteStorage

        begun = time.perf_counter()
        values = SQLiteStorage.get_metric_values("bench", "run", key)
        assert len(values) == steps, f"{len(values)} of {steps} points came back"
        return time.perf_counter() - begun
