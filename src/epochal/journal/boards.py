"""Boards: charts, samples and texts that people arrange, a small JSON file for each.

``<runs>/<project>/boards/<name>.json`` has a board. A file that cannot be read is listed with a
sentence about it, and the other boards are not affected. Whoever saves a board names the revision
that they saw: an outdated board never replaces a newer one.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from epochal.base.atomic_file import between_processes, make_folder, replaced_file, sync_folder
from epochal.errors import EpochalError, FormatError, UsageError
from epochal.journal.layout import BOARDS_FOLDER, is_run_folder, json_bytes, slugify
from epochal.journal.regular_file import read_regular

MAX_BYTES = 64 * 1024
MAX_BLOCKS = 200
MAX_BOARDS = 500
_SUFFIX = ".json"
_LOCK = ".lock"

AXES = ("step", "epoch", "tokens", "time", "relative", "progress")
_Name = Annotated[str, Meta(min_length=1, max_length=200)]
Kind = Literal["chart", "samples", "text"]


class Block(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One block of a board; blocks flow in a grid of 12 columns.

    ``series`` of a chart are names, patterns or formulas, those of samples are names or patterns.
    ``x`` is one of ``AXES`` or a metric; null follows the axis of the board. ``text`` is Markdown.
    """

    kind: Kind
    series: list[str] = []
    text: str = ""
    title: str | None = None
    x: str | None = None
    log_y: bool = False
    limits: tuple[float | None, float | None] | None = None
    width: Literal[3, 4, 6, 8, 12] = 6
    height: Literal[1, 2, 3] = 2


class Board(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a board shows: of the runs in ``runs``, else of those that ``query`` selects.

    ``group`` names keys of the config with commas between, or all but some (``-seed``). ``x`` is
    one of ``AXES``.
    """

    name: _Name
    blocks: Annotated[list[Block], Meta(max_length=MAX_BLOCKS)] = []
    query: str | None = None
    runs: list[str] | None = None
    group: str | None = None
    spread: Literal["none", "line", "std", "stderr", "ci", "minmax", "iqr"] | None = None
    x: str | None = None
    smooth: Annotated[float, Meta(ge=0, le=1)] = 0.0


class StoredBoard(msgspec.Struct, frozen=True):
    """A board of a project; ``revision`` changes with its content.

    ``problem`` says why a file cannot be read; its board is empty then.
    """

    project: str
    revision: str
    board: Board
    problem: str | None = None


class Boards(Protocol):
    """The boards of a store."""

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        """Those of a project, or all of them, by project and name."""

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        """Save a board whose stored revision is ``revision``, None for a new one.

        Raises ``OutdatedBoardError``, ``BoardNotFoundError`` for an unknown project,
        ``UsageError`` for a board that is too large, and ``OSError``.
        """

    def remove(self, project: str, name: str, revision: str | None) -> None:
        """Delete a board whose stored revision is ``revision``; raises the same errors."""


class OutdatedBoardError(EpochalError):
    """The stored board is not the one that was seen by whoever saves or deletes it."""


class BoardNotFoundError(EpochalError, LookupError):
    """There is no such board, or no such project."""


def read_boards(
    folder: Path, project: str, *, may_read: Callable[[Path], bool] = lambda _: True
) -> list[StoredBoard]:
    """The boards in a project's folder by name, with those that cannot be read."""
    return [stored for _, stored in _stored(folder, project, may_read).values()]


def save_board(
    folder: Path, project: str, board: Board, revision: str | None, *, replaces: bool = False
) -> StoredBoard:
    """Save a board in a project's folder; see ``Boards.save``. ``replaces`` replaces any revision.

    One process at a time saves boards of a project, so no change is lost.
    """
    data = encoded_board(board)
    place = folder / BOARDS_FOLDER
    if is_run_folder(place):
        raise UsageError(f"{place} is a run, so there is no folder for boards.")
    make_folder(place)
    with between_processes(place / _LOCK):
        found = _stored(folder, project)
        if not replaces:
            _check(found, board.name, revision)
        if board.name not in found and len(found) >= MAX_BOARDS:
            raise UsageError(f"a project has at most {MAX_BOARDS} boards: delete one first.")
        path = found[board.name][0] if board.name in found else _free_path(place, board.name)
        with replaced_file(path, durable=True) as temporary:
            temporary.write_bytes(data)
    return StoredBoard(project, revision_of(data), board)


def remove_board(folder: Path, project: str, name: str, revision: str | None) -> None:
    """Delete a board from a project's folder; see ``Boards.remove``."""
    if revision is None:
        raise UsageError(f"name the revision of the board {name!r} that you want to delete.")
    if name not in _stored(folder, project):
        raise BoardNotFoundError(f"there is no board {name!r}.")
    with between_processes(folder / BOARDS_FOLDER / _LOCK):
        found = _stored(folder, project)
        _check(found, name, revision)
        found[name][0].unlink(missing_ok=True)
        sync_folder(folder / BOARDS_FOLDER)


class FolderBoards:
    """The boards below some folders of runs, each of them one of projects or of a project.

    ``projects`` are the names of the projects that have runs. See ``Boards``.
    """

    def __init__(
        self, roots: Sequence[Path], projects: Iterable[str], may_read: Callable[[Path], bool]
    ) -> None:
        self._roots = [root for root in roots if root.is_dir() and not is_run_folder(root)]
        self._projects = frozenset(projects)
        self._names = {slugify(name): name for name in self._projects}
        self._may_read = may_read

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        found: list[StoredBoard] = []
        for root in self._roots:
            inside = sorted(path.parent for path in root.glob(f"*/{BOARDS_FOLDER}"))
            for folder in (root, *(path for path in inside if not path.name.startswith("."))):
                name = self._names.get(folder.name) or _valid_text(folder.name)
                if project in (None, name):
                    found += read_boards(folder, name, may_read=self._may_read)
        return found

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        return save_board(self._folder(project), project, board, revision)

    def remove(self, project: str, name: str, revision: str | None) -> None:
        remove_board(self._folder(project), project, name, revision)

    def _folder(self, project: str) -> Path:
        slug = slugify(project)
        if project not in self._projects and (slug != project or slug in self._names):
            raise BoardNotFoundError(f"there is no project {project!r} here.")
        found = [root / slug for root in self._roots if (root / slug / BOARDS_FOLDER).is_dir()]
        if slug in self._names:
            below = [root / slug for root in self._roots]
            found += [folder for folder in below if folder.is_dir() and not is_run_folder(folder)]
            found += [root for root in self._roots if root.name == slug]
            found += below  # its runs lie elsewhere, as those of other trackers do
        for folder in found:
            if self._may_read(folder / BOARDS_FOLDER):
                return folder
        raise BoardNotFoundError(f"there is no project {project!r} here.")


def find_board(boards: Iterable[StoredBoard], name: str) -> StoredBoard:
    """The board of a name; raises ``UsageError`` where several projects have one."""
    every = list(boards)
    found = [stored for stored in every if stored.board.name == name]
    if not found:
        known = ", ".join(dict.fromkeys(repr(stored.board.name) for stored in every))
        raise BoardNotFoundError(
            f"there is no board {name!r}." + (f" There is {known}." if known else "")
        )
    if len(found) > 1:
        projects = ", ".join(stored.project for stored in found)
        raise UsageError(f"{name!r} is a board of several projects: choose one of {projects}.")
    if found[0].problem is not None:
        raise FormatError(f"the board {name!r} {found[0].problem}")
    return found[0]


def board_query(stored: StoredBoard) -> str:
    """The query of a board, about the runs of its project that are not hidden."""
    name = stored.project.replace("\\", "\\\\").replace('"', '\\"')
    own = f" and ({stored.board.query})" if stored.board.query else ""
    return f'project == "{name}" and not hidden{own}'


def boards_of(
    boards: Iterable[StoredBoard], projects: Container[str], opens: StoredBoard | None
) -> list[StoredBoard]:
    """The boards that a saved file has: the one it opens with, else those of its projects."""
    if opens is not None:
        return [opens]
    return [one for one in boards if one.project in projects and one.problem is None]


_Found = dict[str, tuple[Path, StoredBoard]]


def _stored(
    folder: Path, project: str, may_read: Callable[[Path], bool] = lambda _: True
) -> _Found:
    place = folder / BOARDS_FOLDER
    found: _Found = {}
    if is_run_folder(place) or not may_read(place):
        return found
    paths = sorted(path for path in place.glob(f"*{_SUFFIX}") if may_read(path))
    for path in paths[: 2 * MAX_BOARDS]:
        stored = _read(path, project)
        if stored.board.name in found:
            sentence = f"has the same name as {found[stored.board.name][0].name}: rename it."
            stored = _broken(path, project, sentence, stored.revision)
        found.setdefault(stored.board.name, (path, stored))
    return dict(sorted(found.items()))


def _read(path: Path, project: str) -> StoredBoard:
    data = b""
    try:
        data = read_regular(path, max_bytes=MAX_BYTES)
        board = msgspec.json.decode(data, type=Board)
    except OSError as error:
        return _broken(path, project, f"cannot be read: {error.strerror or error}.")
    except FormatError:
        return _broken(path, project, f"is larger than {MAX_BYTES:,} bytes.")
    except (RecursionError, UnicodeDecodeError, msgspec.DecodeError) as error:
        return _broken(path, project, f"is not a valid board: {error}.", revision_of(data))
    return StoredBoard(project, revision_of(data), board)


def _broken(path: Path, project: str, sentence: str, revision: str = "") -> StoredBoard:
    name = _valid_text(path.name)
    board = Board(name.removesuffix(_SUFFIX))
    return StoredBoard(project, revision, board, f"{name} {sentence}")


def _valid_text(name: str) -> str:
    """The name of a file, with replacements for bytes that are not UTF-8."""
    return os.fsencode(name).decode(errors="replace")


def _check(found: _Found, name: str, revision: str | None) -> None:
    stored = found[name][1].revision if name in found else None
    check_revision(name, stored=stored, seen=revision)


def check_revision(name: str, *, stored: str | None, seen: str | None) -> None:
    """Raise ``OutdatedBoardError`` unless the revision that was seen is the stored one."""
    if stored == seen:
        return
    if seen is None:
        raise OutdatedBoardError(f"there is a board {name!r} already: choose another name.")
    if stored is None:
        raise OutdatedBoardError(f"the board {name!r} was deleted: save yours under a new name.")
    raise OutdatedBoardError(
        f"the board {name!r} was changed by somebody else: load it, or save yours as a copy."
    )


def _free_path(place: Path, name: str) -> Path:
    slug = slugify(name, "board")
    taken = {entry.lower() for entry in os.listdir(place)}
    numbered = (f"{slug}-{number}" for number in range(2, 10 * MAX_BOARDS))
    return place / next(
        f"{one}{_SUFFIX}" for one in (slug, *numbered) if one + _SUFFIX not in taken
    )


def encoded_board(board: Board) -> bytes:
    """A board as it is stored; raises ``UsageError`` for one that is not valid or too large."""
    if not board.name.strip() or any(one < " " or one == "\x7f" for one in board.name):
        raise UsageError(f"a board cannot be called {board.name!r}: give it a name of one line.")
    if board.x not in (None, *AXES):
        axes = ", ".join(AXES)
        raise UsageError(f"x of a board is one of {axes}, not {board.x!r}; charts may have others.")
    if not board.smooth < 1:
        raise UsageError(f"smooth is below 1, as in 0.9, not {board.smooth}.")
    for low, high in (block.limits for block in board.blocks if block.limits is not None):
        ends = [end for end in (low, high) if end is not None]
        if not all(map(math.isfinite, ends)) or ends != sorted(set(ends)):
            raise UsageError(f"the lower limit is below the upper one, unlike [{low}, {high}].")
    data = msgspec.json.format(json_bytes(msgspec.to_builtins(board)), indent=1) + b"\n"
    if len(data) > MAX_BYTES:
        raise UsageError(f"a board has at most {MAX_BYTES:,} bytes; this one has {len(data):,}.")
    return data


def revision_of(data: bytes) -> str:
    """The revision of a board with this content."""
    return hashlib.blake2b(data, digest_size=8).hexdigest()
