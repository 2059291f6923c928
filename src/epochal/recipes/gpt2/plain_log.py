"""A log that any program reads: one line per value, ``<step> train|val|hellaswag <value>``."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any

import torch


class PlainLog:
    """Appends values; those still on a GPU are written with the next `flush`, so none is awaited.

    Going on from a step takes off the lines from that step on, so that none is there twice.
    """

    def __init__(self, path: Path | None, *, first_step: int) -> None:
        self._path = path
        self._lines: list[tuple[int, str, Any]] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _cut(path, first_step)

    def add(self, step: int, kind: str, value: Any) -> None:
        """Note a value, a number or a 0-d tensor."""
        if self._path is not None:
            self._lines.append((step, kind, value))

    def flush(self) -> None:
        """Write what was noted; waits for values that are still on a GPU."""
        lines, self._lines = self._lines, []
        if not lines or self._path is None:
            return
        tensors = [value for _, _, value in lines if isinstance(value, torch.Tensor)]
        numbers = iter(torch.stack(tensors).tolist() if tensors else ())
        with open(self._path, "a", encoding="utf-8") as file:
            for step, kind, value in lines:
                number = next(numbers) if isinstance(value, torch.Tensor) else value
                file.write(f"{step} {kind} {number:.6f}\n")

    def __enter__(self) -> PlainLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()


def _cut(path: Path, first_step: int) -> None:
    if not path.exists():
        return
    kept = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        step = line.partition(" ")[0]
        if line.endswith("\n") and step.isdigit() and int(step) < first_step:
            kept.append(line)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text("".join(kept), encoding="utf-8")
    os.replace(temporary, path)
