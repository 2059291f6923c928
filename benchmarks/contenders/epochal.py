"""Epochal as it comes."""

from __future__ import annotations

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

        self._run = epochal.init(project="bench", name="run", dir=str(directory))
        return self._run.log

    def close(self) -> None:
        self._run.finish()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        import epochal

        (view,) = epochal.open(directory).runs()
        return set.intersection(*({int(step) for step in view.series(key).steps} for key in keys))
