"""What a measure brings home: tables of ratios, and the holds of the design with their verdicts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Protocol

from benchmarks.contenders import BARE, OURS
from benchmarks.stage import Answer, Stage

Cell = float | str | None


@dataclass(frozen=True, slots=True)
class Table:
    """Rows by contender. Ratios are taken of the first column, to the bare write and to Epochal."""

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[Cell, ...]]
    remarks: Mapping[str, str]
    ratios: bool = True

    def markdown(self) -> str:
        ratios = (f"x {BARE}", f"x {OURS}") if self.ratios else ()
        lines = [["", self.columns[0], *ratios, *self.columns[1:]]]
        lines += [[name, *self._cells(name)] for name in self.rows]
        # A contender that failed half-way keeps its figures and gets its reason below.
        partly = [name for name, cells in self.rows.items() if cells[0] is not None]
        reasons = [f"\n\n{name}: {self.remarks[name]}" for name in partly if self.remarks.get(name)]
        return f"### {self.title}\n\n{aligned(lines)}{''.join(reasons)}"

    def _cells(self, name: str) -> list[str]:
        first, *rest = self.rows[name]
        if first is None:
            return [self.remarks.get(name) or "no figure"]
        ratios = [self._ratio(first, BARE), self._ratio(first, OURS)] if self.ratios else []
        return [number(first), *ratios, *map(number, rest)]

    def _ratio(self, value: Cell, name: str) -> str:
        base = self.rows.get(name, (None,))[0]
        if not isinstance(value, float | int) or not isinstance(base, float | int) or not base:
            return "-"
        return number(value / base)


@dataclass(frozen=True, slots=True)
class Hold:
    """One promise of the design, and whether this run kept it."""

    what: str
    limit: float
    value: float | None
    unit: str = ""
    why_not: str = "not measured"

    @property
    def verdict(self) -> str:
        if self.value is None:
            return self.why_not
        return "ok" if self.value <= self.limit else "MISSED"


@dataclass(frozen=True, slots=True)
class Outcome:
    title: str
    note: str
    tables: tuple[Table, ...]
    holds: tuple[Hold, ...] = ()


class Measure(Protocol):
    """A module of `benchmarks.measures`."""

    NAME: str

    def run(self, stage: Stage) -> Outcome: ...


def middle(answers: Sequence[Answer], key: str) -> float | None:
    """The median over the rounds."""
    return median(answer[key] for answer in answers) if answers else None


def ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def cheapest_peer(stage: Stage, figure: Callable[[str], float | None]) -> float | None:
    """The smallest figure among the other trackers."""
    figures = [figure(entrant.name) for entrant in stage.present("peer")]
    return min((one for one in figures if one is not None), default=None)


def remarks(stage: Stage) -> dict[str, str]:
    return {entrant.name: stage.remark(entrant.name) for entrant in stage.entrants}


def number(value: Any) -> str:
    """Three significant digits, thousands marked; text as it is."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def holds_markdown(holds: Sequence[Hold]) -> str:
    lines = [["hold", "limit", "measured", ""]]
    lines += [
        [
            hold.what,
            _with_unit(hold.limit, hold.unit),
            _with_unit(hold.value, hold.unit),
            hold.verdict,
        ]
        for hold in holds
    ]
    return aligned(lines)


def _with_unit(value: float | None, unit: str) -> str:
    return number(value) + (f" {unit}" if unit and value is not None else "")


def aligned(lines: list[list[str]]) -> str:
    width = len(lines[0])
    filled = [line + [""] * (width - len(line)) for line in lines]
    # A remark stands in the first column of figures and must not stretch it.
    widths = [
        max(3, *(len(line[column]) for line in lines if len(line) > max(column, 2)))
        for column in range(width)
    ]
    rule = ["-" * widths[0], *("-" * (size - 1) + ":" for size in widths[1:])]
    return "\n".join(
        "| " + " | ".join(_padded(row, widths)) + " |" for row in [filled[0], rule, *filled[1:]]
    )


def _padded(row: list[str], widths: list[int]) -> list[str]:
    head = row[0].ljust(widths[0])
    return [head, *(cell.rjust(size) for cell, size in zip(row[1:], widths[1:], strict=True))]
