"""``epochal export``: runs as files for other programs and for people."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import click

from epochal.base.atomic_file import new_text_file
from epochal.base.guard import Guard
from epochal.cli import options
from epochal.cli.command import chosen_run, data_command, named_runs, reading_store
from epochal.cli.output import VisibleStream, answer, complain, remark
from epochal.errors import RunNotFoundError, UsageError
from epochal.exports.export import BINARY, FORMATS, Rows, export_named
from epochal.exports.files import save_files
from epochal.journal.boards import Block, Board, StoredBoard, board_query, boards_of, find_board
from epochal.journal.layout import slugify
from epochal.records.format import plural
from epochal.store.run import RunView
from epochal.store.store import Store

FILES = "files"
_FORMAT = "Format (default: by the suffix of FILE, else html)."


@data_command
@options.runs
@click.option("--format", "form", type=click.Choice([*FORMATS, *BINARY, FILES]), help=_FORMAT)
@click.option("-o", "--output", metavar="FILE", help="A file, - for stdout, or a folder for files.")
@options.metrics
@click.option("--rows", type=click.Choice(("epoch", "step")), help="Rows of csv and parquet.")
@click.option("--board", metavar="NAME", help="Open on this board; of its runs if you name none.")
@click.option("--project", help="The project of the board.")
@click.option("--name", metavar="PATTERN", help="Of files: those with such a name, as 'val/*'.")
@options.hub
def command(
    runs: tuple[str, ...],
    form: str | None,
    output: str | None,
    metrics: tuple[str, ...],
    rows: Rows | None,
    board: str | None,
    project: str | None,
    name: str | None,
) -> int:
    """Write runs as a file: 'epochal export RUN' makes RUN.html, one file that you can share.

    RUN may be a project or a folder of runs. html is the page in one file, csv and parquet are
    tables of epochs, or of steps where a run has no epochs, and jsonl has every record. Without -o,
    csv and jsonl go to stdout.

    With -m a table has these metrics by step, and html opens on charts of them:
    epochal export RUN -m 'train/loss - eval/loss' -m 'eval/*' --format csv

    'epochal export --board paper-figures' writes a board with its runs, as one HTML file that opens
    on this board.

    files saves the samples and files of a run in a folder, as NAME/step-000100.png. Tables become
    CSV; samples.jsonl has captions, boxes and labels.
    """
    suffix = Path(output or "").suffix.lower().lstrip(".")
    form = form or (suffix if suffix in (*FORMATS, *BINARY) else "html")
    with reading_store() as store:
        opens = None if board is None else find_board(store.boards.list(project), board)
        if opens is not None and form != "html":
            raise UsageError(f"--board writes a page, not {form}: name a file that ends in .html.")
        if metrics and form in (FILES, "jsonl"):
            raise UsageError(f"-m is for csv, parquet and html, not for {form}.")
        if runs:
            views = named_runs(store, runs)
        else:
            views = [chosen_run(store, None)] if opens is None else _runs_of(store, opens)
        if form == FILES:
            return _save_files(views, output, name or "*")
        if output is None and opens is not None:
            output = f"{slugify(opens.board.name, 'board')}.html"
        boards = _boards(store, form, views, opens)
        if form == "html" and metrics and opens is None:
            charts = [Block(kind="chart", series=[metric]) for metric in metrics]
            opens = StoredBoard(views[0].outline().project, "", Board("metrics", charts))
            boards = [opens, *boards]
        write = partial(_write, form, rows=rows, names=metrics, boards=boards)
        if output is None and form in ("csv", "jsonl"):
            output = "-"
        if output == "-":
            if form in BINARY and sys.stdout.isatty():
                raise UsageError(f"{form} cannot be printed on a terminal: name a file with -o.")
            # Exact data for a pipe or a file; a terminal shows control characters escaped.
            out = VisibleStream(sys.stdout) if sys.stdout.isatty() else sys.stdout
            write(views, cast(TextIO, out), opens_board=opens is not None)
            return 0
        files = _files(views, f".{form}", output)
        for file, inside in files.items():
            with new_text_file(file) as out:
                write(inside, out, opens_board=opens is not None)
        if opens is not None:
            from epochal.exports.archive import charted  # it needs NumPy
            from epochal.exports.archive_series import failed_formulas

            for formula, reason in failed_formulas(views, charted(boards)).items():
                complain(f"{formula!r} has no values: {reason}")
        ids = [{"file": f, "runs": [v.outline().id for v in v_]} for f, v_ in files.items()]
        if len(files) == 1:
            answer(ids[0], f"{plural(len(views), 'run')} written to {next(iter(files))}.")
        else:
            answer(ids, f"{plural(len(files), 'file')} written to {output}.")
    return 0


def _save_files(runs: Sequence[RunView], output: str | None, name: str) -> int:
    """Save samples and files; of several runs, each in a folder of its own."""
    folder = Path(output or next(iter(_files(runs, "", None))))
    saved: list[str] = []
    failed: list[str] = []
    places = {str(folder): runs}
    if len(runs) > 1:
        folder.mkdir(parents=True, exist_ok=True)
        places = _files(runs, "", str(folder))
    for place, (run,) in places.items():
        for result in save_files(run, Path(place), name=name):
            (failed if isinstance(result, Exception) else saved).append(str(result))
    answer(
        {"folder": str(folder), "files": saved, "failed": failed},
        f"{plural(len(saved), 'file')} written to {folder}.",
    )
    if failed:
        remark(f"{plural(len(failed), 'file')} could not be saved. The first error: {failed[0]}")
    return int(bool(failed))


def _files(
    runs: Sequence[RunView], suffix: str, output: str | None
) -> dict[str, Sequence[RunView]]:
    if output is None:
        names = {run.outline().name if len(runs) == 1 else run.outline().project for run in runs}
        stem = slugify(names.pop()) if len(names) == 1 else "runs"
        return {f"{stem}{suffix}": runs}
    if not Path(output).is_dir():
        return {output: runs}
    files: dict[str, Sequence[RunView]] = {}
    for run in runs:
        stem = slugify(f"{run.outline().project}-{run.outline().name}")
        names_ = (f"{stem}-{number}" if number > 1 else stem for number in itertools.count(1))
        paths = (str(Path(output) / f"{name}{suffix}") for name in names_)
        files[next(path for path in paths if path not in files)] = [run]
    return files


def _runs_of(store: Store, stored: StoredBoard) -> list[RunView]:
    """The runs of a board: those that it names, else those that its query selects."""
    if stored.board.runs is None:
        found = list(store.runs(board_query(stored)))
    else:
        found = [run for run_id in stored.board.runs if (run := store.find(run_id)) is not None]
    if not found:
        raise RunNotFoundError(f"the board {stored.board.name!r} shows no run that is here.")
    return found


def _boards(
    store: Store, form: str, runs: Sequence[RunView], opens: StoredBoard | None
) -> list[StoredBoard]:
    if form != "html":
        return []
    return boards_of(store.boards.list(), {run.outline().project for run in runs}, opens)


def _write(form: str, runs: Sequence[RunView], out: TextIO, **options: Any) -> None:
    file: Any = out.buffer if form in BINARY else out
    Guard().explained(f"exporter {form}", partial(export_named(form).write, runs, file, **options))
