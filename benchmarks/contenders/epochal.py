"""Epochal as it comes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role


class Epochal:
    name = "epochal"
    role: Role = "ours"
    requirements: tuple[str, ...] = ()
    import_statement = "import epochal"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        import epochal

        self._run = epochal.init("bench", "run", dir=directory, console=False)
        return self._run.log

    def close(self) -> None:
        self._run.finish()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        from epochal.store.local.by_path import load_run

        wanted = set(keys)
        records = (record for _, record in load_run(directory / "bench" / "run").records())
        return {
            record["step"]
            for record in records
            if record["log"] == "metrics" and wanted <= record["m"].keys()
        }

    def read_series(self, directory: Path, key: str, steps: int) -> float:
        """Seconds from nothing to every point of a series; imports are not counted."""
        import epochal.journal.segments.read  # noqa: F401
        from epochal.store.local.catalog import folder_store

        begun = time.perf_counter()
        series = folder_store(directory).runs()[0].series(key)
        assert len(series) == steps
        return time.perf_counter() - begun
