"""Handlers of boards, and of the file that a board or the shown runs are saved as."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import RunNotFoundError, UsageError
from epochal.journal.boards import (
    MAX_BYTES,
    OutdatedBoardError,
    StoredBoard,
    board_query,
    boards_of,
    find_board,
)
from epochal.journal.row import RunRow
from epochal.server.changes import BoardChange, BoardChoice, body_of
from epochal.server.downloads import file_response
from epochal.server.groups import chosen_runs
from epochal.server.params import str_param, str_params
from epochal.server.responses import error_response, json_response
from epochal.server.state import ServerState, server_state

# Runs in one file.
MAX_RUNS = 500
PROJECT = str_param("project", note="all by default")
RUNS = str_params("run", most=MAX_RUNS)
QUERY = str_param("query", note="runs that it selects, where no `run` is given")
BOARD = str_param("board", note="opened first; its runs, where no `run` and no `query` is given")
EXPORT_PARAMS = (RUNS, QUERY, BOARD, PROJECT)
T = TypeVar("T")


class BoardList(msgspec.Struct, frozen=True):
    """The boards of some projects, by project and name."""

    boards: list[StoredBoard]


async def boards(request: Request) -> Response:
    """Boards: what people arranged for a project."""
    project, reader = PROJECT(request), server_state(request).reader
    found = await reader.query(lambda: reader.catalog.store.boards.list(project))
    return await json_response(request, BoardList(list(found)))


async def save(request: Request) -> Response:
    """Saves a board, 409 where another revision is stored; body ``BoardChange``, at most
    128 KiB.
    """
    change = await body_of(request, BoardChange, most=2 * MAX_BYTES)
    project, board, revision = change.project, change.board, change.revision
    catalog = server_state(request).reader.catalog
    return await _changed(request, lambda: catalog.store.boards.save(project, board, revision))


async def remove(request: Request) -> Response:
    """Deletes a board, 409 where another revision is stored; body ``BoardChoice``."""
    chosen = await body_of(request, BoardChoice, most=MAX_BYTES)
    project, name, revision = chosen.project, chosen.name, chosen.revision
    catalog = server_state(request).reader.catalog
    return await _changed(request, lambda: catalog.store.boards.remove(project, name, revision))


async def export(request: Request) -> Response:
    """Runs as one HTML file, with the boards of their projects."""
    state = server_state(request)
    ids, query, name = list(RUNS(request)), QUERY(request), BOARD(request)
    catalog = state.reader.catalog
    found = await state.reader.query(lambda: catalog.store.boards.list(PROJECT(request)))
    opens = None if name is None else find_board(found, name)
    if not ids and query is None and opens is None:
        raise UsageError("one of run=, query= and board= is needed.")
    if not ids and opens is not None and query is None:
        ids, query = opens.board.runs or [], board_query(opens)
    if not ids:
        ids = await state.reader.call(
            lambda: [run.id for run in chosen_runs(state.reader, (), query)]
        )
    if len(ids) > MAX_RUNS:
        raise UsageError(f"{len(ids):,} runs are too many for one file: choose {MAX_RUNS}.")
    answers = await state.reader.query_runs(ids, lambda run: run.info)
    infos = [info for info in answers if isinstance(info, RunRow)]
    if not infos:
        raise RunNotFoundError("there is no such run.")
    boards = boards_of(found, {info.project for info in infos}, opens)
    file = await state.reader.call(partial(_written, state, infos, boards, opens is not None))
    stem = infos[0].name if len(infos) == 1 else infos[0].project
    return file_response(file, f"{name or stem}.html", "text/html")


def _written(
    state: ServerState, infos: Sequence[RunRow], boards: Sequence[StoredBoard], opens_board: bool
) -> IO[bytes]:
    """Write the page to a temporary file, with its own store so that others are not blocked."""
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by the response
    store = state.open_store()
    try:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        runs = [run for one in infos if (run := store.find(one.id)) is not None]
        state.write_archive(runs, text, boards, opens_board)
        text.flush()
        text.detach()
    except BaseException:  # also a cancelled request leaves no open file
        file.close()
        raise
    finally:
        store.close()
    return file


async def _changed(request: Request, change: Callable[[], T]) -> Response:
    """The result of a change; 409 where it is outdated or the disk does not allow it."""
    try:
        return await json_response(request, await server_state(request).reader.query(change))
    except OutdatedBoardError as error:
        return error_response(409, str(error))
    except OSError as error:
        return error_response(409, f"the board could not be saved: {error.strerror or error}.")
