"""The least that survives a kill: encode the step and its values, one write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role
from benchmarks.contenders.json_lines import complete_steps


class MsgspecWrite:
    name = "bare msgspec+write"
    role: Role = "baseline"
    requirements: tuple[str, ...] = ()
    import_statement = "import msgspec"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        import msgspec

        encode = msgspec.json.Encoder().encode
        write = os.write
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        descriptor = os.open(directory / "bare.jsonl", flags, 0o644)

        def log(values: dict[str, float], *, step: int) -> None:
            write(descriptor, encode({"step": step, "m": values}) + b"\n")

        self._descriptor = descriptor
        return log

    def close(self) -> None:
        os.close(self._descriptor)

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        return complete_steps(directory / "bare.jsonl", keys)
