"""Boards from a script: :func:`board`."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import EpochalError, MetricNotFoundError, UsageError, ValueTypeError
from epochal.exchange.media.types import Markdown
from epochal.journal.boards import Board, save_board
from epochal.journal.layout import BOARDS_FOLDER, slugify
from epochal.query.formula import parse_formula
from epochal.run.console.messages import msg
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings

# What a block is called by in a mapping, such as {"samples": "val/*"}, and what else it may have.
_KINDS = ("chart", "samples", "text")
_OPTIONS = ("title", "x", "log_y", "limits", "width", "height")
_WIDE = 12


def board(
    name: str,
    blocks: Iterable[str | Markdown | Iterable[str] | Mapping[str, Any]],
    *,
    project: str | None = None,
    query: str | None = None,
    runs: Iterable[str] | None = None,
    group: str | None = None,
    spread: str | None = None,
    x: str | None = None,
    smooth: float = 0.0,
) -> None:
    """Save a board: charts, samples and texts that the page shows together.

    It becomes the file ``boards/<name>.json`` in the folder of the project. The script wins: a
    board of this name is replaced, also when somebody has changed it on the page::

        epochal.board(
            "paper-figures",
            [
                epochal.Markdown("## Does the larger batch help?"),
                "train/loss",
                ["train/loss", "eval/*"],
                "train/loss - eval/loss",
                {"samples": "val/*", "width": 12},
            ],
            project="sweep",
            group="lr",
            smooth=0.6,
        )

    Args:
        name: The name of the board.
        blocks: What it shows, in order. A text is the series of a chart: a metric, a pattern or a
            formula. A list of texts is one chart of several series. ``Markdown`` is text. A mapping
            has ``chart``, ``samples`` or ``text``, and any of ``title``, ``x``, ``log_y``,
            ``limits``, ``width`` (3, 4, 6, 8 or 12 of 12 columns) and ``height`` (1, 2 or 3).
        project: The project of the board, by default that of the current run, else of the settings.
        query: Which runs it shows, in the language of ``epochal ls``; by default all.
        runs: The ids of the runs that it always shows, which makes it a report.
        group: Keys of the configuration to group by, with commas between.
        spread: What is drawn around the mean of a group: "std", "stderr", "ci", "minmax" or "iqr".
        x: The x axis of its charts: "step", "epoch", "tokens", "time", "relative" or "progress".
            A chart may have its own, also a metric.
        smooth: How much lines are smoothed, from 0 to below 1.

    Raises:
        UsageError: An argument is not valid. While a run is open, nothing is raised: the fault is
            reported once, and the training goes on.
        OSError: The file cannot be written, and no run is open.
    """
    given = {"query": query, "runs": runs, "group": group, "spread": spread, "x": x}
    fields = {"name": name, **given, **({"smooth": smooth} if smooth else {})}
    run = OPEN_RUNS.current
    if run is not None:
        save_with_run(run, name, partial(_board, fields, blocks), project)
        return
    settings = read_settings()
    own = settings.project if project is None else project
    folder = Path(settings.dir).expanduser() / slugify(own)
    save_board(folder, own, _board(fields, blocks), None, replaces=True)
    msg("The board %r is saved in %s.", name, folder / BOARDS_FOLDER)


def save_with_run(
    run: Run, name: str, make: Callable[[], Board], project: str | None = None
) -> None:
    """Save the board that ``make()`` returns beside a run; a fault is reported, never raised."""
    recorder = recorder_of(run)
    if not recorder.is_recorded or recorder.rank != 0:
        return

    def save() -> None:
        own = run.project if project is None else project
        parent = run.dir.parent
        root = parent.parent if parent.name == slugify(run.project) else parent
        save_board(root / slugify(own), own, make(), None, replaces=True)

    error = recorder.guard.outcome("board", save, expected=(EpochalError, OSError)).error
    if isinstance(error, (EpochalError, OSError)):
        recorder.report_unstored(f"board {name}", name, error)


def _board(fields: Mapping[str, Any], blocks: Any) -> Board:
    runs = fields["runs"]
    if isinstance(runs, Iterable) and not isinstance(runs, str):
        fields = {**fields, "runs": list(runs)}
    if not isinstance(blocks, Iterable) or isinstance(blocks, str):
        raise UsageError(f"blocks is a list, such as ['train/loss'], not {blocks!r}.")
    given = [_block(one, number) for number, one in enumerate(blocks, 1)]
    try:
        return msgspec.convert({**fields, "blocks": given}, Board)
    except msgspec.ValidationError as error:
        raise UsageError(f"the board {fields['name']!r} is not valid: {error}.") from error


def _block(given: Any, number: int) -> dict[str, Any]:
    """The fields of a block that people write in short; blocks are counted from 1."""
    if isinstance(given, Markdown):
        given = {"text": given}
    elif not isinstance(given, Mapping):
        names = _names(given)
        if not all(isinstance(one, str) for one in names):
            accepted = "a text, a list of texts, Markdown or a mapping"
            raise ValueTypeError(f"block {number} must be {accepted}, not {reprlib.repr(given)}.")
        given = {"chart": names}
    kinds = [kind for kind in _KINDS if kind in given]
    if unknown := [str(key) for key in given if key not in (*_KINDS, *_OPTIONS)]:
        fields = f"use chart, samples or text, and any of {', '.join(_OPTIONS)}"
        raise UsageError(f"block {number} has an unknown field {unknown[0]!r}: {fields}.")
    if len(kinds) != 1:
        raise UsageError(f"block {number} needs exactly one of chart, samples and text.")
    (kind,) = kinds
    value = _text(given[kind]) if kind == "text" else _names(given[kind])
    if kind == "chart":
        _check_formulas(value, number)
    options = {name: given[name] for name in _OPTIONS if name in given}
    wide = {} if kind == "chart" else {"width": _WIDE}
    return {"kind": kind, "text" if kind == "text" else "series": value, **wide, **options}


def _check_formulas(series: Iterable[Any], number: int) -> None:
    for text in series:
        try:
            parse_formula(str(text))
        except MetricNotFoundError as error:
            raise UsageError(f"{text!r} in block {number} cannot be drawn: {error}") from error


def _text(value: Any) -> Any:
    if not isinstance(value, Markdown):
        return value
    if value.error is not None:
        raise value.error
    return value.text


def _names(value: Any) -> list[Any]:
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    return [value] if is_one else list(value)
