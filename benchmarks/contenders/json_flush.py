"""What people write by hand: the standard library's json, a file, a flush."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from benchmarks.contender import Log, Role
from benchmarks.contenders.json_lines import complete_steps


class JsonFlush:
    name = "json+write+flush"
    role: Role = "baseline"
    requirements: tuple[str, ...] = ()
    import_statement = "import json"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        file = (directory / "plain.jsonl").open("a")
        dumps, write, flush = json.dumps, file.write, file.flush

        def log(values: dict[str, float], *, step: int) -> None:
            write(dumps({"step": step, "m": values}) + "\n")
            flush()

        self._file = file
        return log

    def close(self) -> None:
        self._file.close()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        return complete_steps(directory / "plain.jsonl", keys)
