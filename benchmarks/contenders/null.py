"""A call that does nothing: what the harness itself costs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role


def _ignore(values: dict[str, float], *, step: int) -> None:
    pass


class Null:
    name = "nothing (the harness)"
    role: Role = "control"
    requirements: tuple[str, ...] = ()
    import_statement = "pass"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        return _ignore

    def close(self) -> None:
        pass

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        return set()
