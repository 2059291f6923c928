"""A log that any program reads: one line per value, ``<step> train|val|hellaswag <value>``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import torch

from epochal.errors import MetricNotFoundError
from epochal.reading import load

_SERIES = {"train": "train/loss", "hellaswag": "hellaswag_accuracy", "val": "eval/loss"}


class Line(NamedTuple):
    """A value of one kind at a step, a number or a 0-d tensor."""

    step: int
    kind: str
    value: Any


class PlainLog:
    """Appends values; those still on a GPU are written with the next `flush`, so none is awaited.

    The file is begun anew with `past`, what an earlier attempt has recorded.
    """

    def __init__(self, path: Path | None, *, past: Sequence[Line] = ()) -> None:
        self._path = path
        self._lines: list[Line] = []
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}")
            temporary.write_text(_text(past), encoding="utf-8")
            os.replace(temporary, path)

    def add(self, step: int, kind: str, value: Any) -> None:
        """Note a value."""
        if self._path is not None:
            self._lines.append(Line(step, kind, value))

    def flush(self) -> None:
        """Write what was noted; waits for values that are still on a GPU."""
        lines, self._lines = self._lines, []
        if lines and self._path is not None:
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(_text(lines))

    def __enter__(self) -> PlainLog:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.flush()


def recorded_lines(run_folder: Path, *, before: int) -> list[Line]:
    """The lines of the steps before one, from the run's own record: a killed writer lost none."""
    data = load(run_folder)
    found: list[Line] = []
    for kind, name in _SERIES.items():
        try:
            series = data.series(name)
        except MetricNotFoundError:
            continue
        values = zip(series.steps.tolist(), series.values.tolist(), strict=True)
        found += [Line(step, kind, value) for step, value in values if step < before]
    order = {kind: number for number, kind in enumerate(_SERIES)}
    # The model is judged before its first step, and after a step from then on.
    signs = {line: 1 if line.step else -1 for line in found}
    return sorted(found, key=lambda line: (line.step, signs[line] * order[line.kind]))


def _text(lines: Sequence[Line]) -> str:
    tensors = [line.value for line in lines if isinstance(line.value, torch.Tensor)]
    numbers = iter(torch.stack(tensors).tolist() if tensors else ())
    texts = []
    for step, kind, value in lines:
        number = next(numbers) if isinstance(value, torch.Tensor) else value
        texts.append(f"{step} {kind} {number:.6f}\n")
    return "".join(texts)
