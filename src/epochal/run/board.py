"""Boards from a script: :func:`board`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from epochal.boards import Block, Board, save_board
from epochal.errors import EpochalError, UsageError, ValueTypeError
from epochal.journal.layout import slugify
from epochal.media.types import Markdown
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run, recorder_of
from epochal.settings import read_settings

# What a block is called by in a mapping, such as {"samples": "val/*"}.
_KINDS = ("chart", "samples", "text")
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
        x: The x axis of its charts: "step", "epoch", "tokens", "time", "progress" or a metric.
        smooth: How much lines are smoothed, from 0 to 1.

    Raises:
        UsageError: An argument is not valid. While a run is open, nothing is raised: the fault is
            reported once, and the training goes on.
        OSError: The file cannot be written, and no run is open.
    """
    named = None if runs is None else list(runs)
    given = {"query": query, "runs": named, "group": group, "spread": spread, "x": x}
    fields = {"name": name, **given, **({"smooth": smooth} if smooth else {})}
    run = OPEN_RUNS.current
    if run is not None:
        save_with_run(run, name, partial(_board, fields, blocks), project)
        return
    settings = read_settings()
    own = settings.project if project is None else project
    root = Path(settings.dir).expanduser()
    save_board(root / slugify(own), own, _board(fields, blocks), None, replaces=True)


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


def _board(fields: Mapping[str, Any], blocks: Iterable[Any]) -> Board:
    if isinstance(blocks, str):
        raise UsageError("blocks is a list, such as ['train/loss'], not one text.")
    try:
        return msgspec.convert({**fields, "blocks": [_block(one) for one in blocks]}, Board)
    except msgspec.ValidationError as error:
        raise UsageError(f"the board {fields['name']!r} is not valid: {error}.") from error


def _block(given: Any) -> Any:
    """The fields of a block that people write in short."""
    if isinstance(given, Markdown):
        return {"kind": "text", "text": _text(given), "width": _WIDE}
    if isinstance(given, str):
        return {"kind": "chart", "series": [given]}
    if not isinstance(given, Mapping):
        if not isinstance(given, Iterable) or not all(isinstance(one, str) for one in given):
            wrong = type(given).__name__
            raise ValueTypeError(f"a block is a text, a list of texts or a mapping, not a {wrong}.")
        return {"kind": "chart", "series": list(given)}
    fields = dict(given)
    for kind in _KINDS:
        if kind in fields and "kind" not in fields:
            value = fields.pop(kind)
            own = {"text": _text(value)} if kind == "text" else {"series": _names(value)}
            wide = {} if kind == "chart" else {"width": _WIDE}
            fields = {"kind": kind, **own, **wide, **fields}
    known = Block.__struct_fields__
    if unknown := sorted(map(str, fields.keys() - set(known))):
        raise UsageError(f"a block has no field {unknown[0]!r}: use some of {', '.join(known)}.")
    return fields


def _text(value: Any) -> Any:
    if not isinstance(value, Markdown):
        return value
    if value.error is not None:
        raise value.error
    return value.text


def _names(value: Any) -> Any:
    return [value] if isinstance(value, str) else list(value)
