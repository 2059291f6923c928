"""Handlers of what people change: labels, deleted runs and restored runs.

A change names its runs by id, or all that a query selects. Each run is changed by itself: what
cannot be changed is returned with the reason, and the others are changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import EpochalError, FormatError, RunNotFoundError, UsageError
from epochal.journal.boards import Board
from epochal.journal.labels import LabelsEdit
from epochal.journal.line import MAX_DEPTH, nests_too_deeply
from epochal.journal.row import Labels
from epochal.server.reader import Catalog
from epochal.server.responses import error_response, json_response, run_id_of
from epochal.server.state import server_state
from epochal.store.row import TrashedRun as DeletedRun
from epochal.store.run import RunView
from epochal.store.store import tag_edit

MAX_BODY_BYTES = 64 * 1024
# Ids of tens of thousands of runs.
MAX_BULK_BYTES = 4 * 1024 * 1024
T = TypeVar("T")


class LabelsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``PATCH …/labels``: absent fields keep their value.

    ``add_tags`` and ``remove_tags`` change the tags as they are stored then. With
    ``notes_before``, a note that is no longer this one is not replaced (409).
    """

    name: str | msgspec.UnsetType | None = msgspec.UNSET
    tags: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    notes: str | msgspec.UnsetType | None = msgspec.UNSET
    hidden: bool | msgspec.UnsetType = msgspec.UNSET
    add_tags: list[str] = []
    remove_tags: list[str] = []
    notes_before: str | msgspec.UnsetType | None = msgspec.UNSET


class ChosenRuns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /api/trash``: runs by id, or all that a query selects but ``exclude``."""

    runs: list[str] | None = None
    query: str | None = None
    exclude: list[str] = []


class ManyLabelsChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``PATCH /api/labels``: one change for all chosen runs, or ``changes`` by id."""

    runs: list[str] | None = None
    query: str | None = None
    exclude: list[str] = []
    change: LabelsChange | None = None
    changes: dict[str, LabelsChange] | None = None


class Refused(msgspec.Struct, frozen=True):
    """A run that was not changed, and why."""

    id: str
    name: str
    reason: str


class LabelsBefore(msgspec.Struct, frozen=True):
    """A run that was changed, and the labels that it had: what an undo needs."""

    id: str
    labels: Labels


class LabelsChanged(msgspec.Struct, frozen=True):
    """What became of a change of many runs."""

    changed: list[LabelsBefore]
    refused: list[Refused]


class TrashedRun(msgspec.Struct, frozen=True):
    """A deleted run; ``key`` names it when it is restored, ``deleted`` is a time."""

    key: str
    id: str
    name: str
    project: str
    deleted: float


class TrashList(msgspec.Struct, frozen=True):
    """The deleted runs, the newest deletion first."""

    runs: list[TrashedRun]


class TrashKeys(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /api/trash/restore``."""

    keys: list[str]


class BoardChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /api/boards``: ``revision`` was seen before, null for a new board."""

    project: str
    board: Board
    revision: str | None = None


class BoardChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of ``POST /api/boards/delete``."""

    project: str
    name: str
    revision: str | None = None


class RunsRemoved(msgspec.Struct, frozen=True):
    """The runs that were moved to the trash, and those that were not."""

    removed: list[TrashedRun]
    refused: list[Refused]


class RunsRestored(msgspec.Struct, frozen=True):
    """The recorded ids of runs that were moved back, and what was not."""

    restored: list[str]
    refused: list[Refused]


class ChangedMeanwhileError(EpochalError):
    """A note is not what the person saw who replaces it."""


async def change_labels(request: Request) -> Response:
    """Changes labels; body ``LabelsChange``, ``application/json``, at most 64 KiB."""
    change = await body_of(request, LabelsChange)

    def query(view: RunView) -> Labels | OSError | ChangedMeanwhileError:
        try:
            view.relabel(_edit(view, change))
        except (OSError, ChangedMeanwhileError) as error:
            return error
        return view.labels

    stored = await server_state(request).reader.query_run(run_id_of(request), query)
    if isinstance(stored, ChangedMeanwhileError | OSError):
        return error_response(409, f"the labels could not be saved: {_reason(stored)}")
    return await json_response(request, stored)


async def change_many_labels(request: Request) -> Response:
    """Changes labels of many runs, all alike or each its own; body ``ManyLabelsChange``, at most
    4 MiB.
    """
    change = await body_of(request, ManyLabelsChange, most=MAX_BULK_BYTES)
    if (change.change is None) == (change.changes is None):
        return error_response(400, "the body needs one of 'change' and 'changes'.")
    catalog = server_state(request).reader.catalog
    own = change.changes or {}

    def relabel(view: RunView) -> LabelsBefore:
        before = _shown_labels(view)
        view.relabel(_edit(view, own.get(view.id) or change.change or LabelsChange()))
        return LabelsBefore(view.id, before)

    def query() -> LabelsChanged:
        chosen = ChosenRuns(change.runs, change.query, change.exclude)
        given = ChosenRuns(list(own)) if own else chosen
        changed, refused = _each(catalog, given, relabel)
        catalog.refresh(is_due=True)
        return LabelsChanged(changed, refused)

    return await json_response(request, await server_state(request).reader.query(query))


async def trash(request: Request) -> Response:
    """The deleted runs."""
    reader = server_state(request).reader

    deleted = await reader.query(lambda: reader.catalog.store.trash.runs())
    return await json_response(request, TrashList(list(map(_trash_row, deleted))))


async def remove(request: Request) -> Response:
    """Moves runs to the trash, live ones excepted; body ``ChosenRuns``, at most 4 MiB."""
    chosen = await body_of(request, ChosenRuns, most=MAX_BULK_BYTES)
    catalog = server_state(request).reader.catalog

    def query() -> RunsRemoved:
        removed, refused = _each(
            catalog, chosen, lambda view: _trash_row(catalog.store.remove(view))
        )
        catalog.refresh(is_due=True)
        return RunsRemoved(removed, refused)

    return await json_response(request, await server_state(request).reader.query(query))


async def restore(request: Request) -> Response:
    """Moves deleted runs back; body ``TrashKeys``, at most 4 MiB."""
    chosen = await body_of(request, TrashKeys, most=MAX_BULK_BYTES)
    catalog = server_state(request).reader.catalog

    def query() -> RunsRestored:
        found = {key_of(run): run for run in catalog.store.trash.runs()}
        restored: list[str] = []
        refused: list[Refused] = []
        for key in dict.fromkeys(chosen.keys):
            run = found.get(key)
            try:
                if run is None:
                    raise RunNotFoundError("it is no longer in the trash.")
                catalog.store.trash.restore(run)
                restored.append(run.id)
            except (OSError, EpochalError) as error:
                refused.append(Refused(key, key if run is None else run.name, _reason(error)))
        catalog.refresh(is_due=True)
        return RunsRestored(restored, refused)

    return await json_response(request, await server_state(request).reader.query(query))


def key_of(run: DeletedRun) -> str:
    """What names a deleted run here: no path, and of no other deletion."""
    folder = Path(run.folder)
    return f"{run.id}@{folder.parent.name}/{folder.name}"


def _each(
    catalog: Catalog, chosen: ChosenRuns, change: Callable[[RunView], T]
) -> tuple[list[T], list[Refused]]:
    """Change each chosen run; the results, and what was refused and why."""
    done: list[T] = []
    refused: list[Refused] = []
    for run_id, view in _views(catalog, chosen):
        try:
            if view is None:
                raise RunNotFoundError("there is no such run any more.")
            done.append(change(view))
        except (OSError, EpochalError) as error:
            name = run_id if view is None else view.outline().name
            refused.append(Refused(run_id, name, _reason(error)))
    return done, refused


def _views(catalog: Catalog, chosen: ChosenRuns) -> Sequence[tuple[str, RunView | None]]:
    if (chosen.runs is None) == (chosen.query is None):
        raise UsageError("the body needs one of 'runs' and 'query'.")
    if chosen.exclude and chosen.query is None:
        raise UsageError("'exclude' needs 'query'.")
    if chosen.runs is not None:
        if any(catalog.store.find(run_id) is None for run_id in chosen.runs):
            catalog.refresh(is_due=True)  # perhaps it was created a moment ago
        return [(run_id, catalog.store.find(run_id)) for run_id in dict.fromkeys(chosen.runs)]
    catalog.refresh()
    excluded = frozenset(chosen.exclude)
    views = catalog.store.runs(chosen.query)
    return [(view.id, view) for view in views if view.id not in excluded]


def _reason(error: OSError | EpochalError) -> str:
    return str(error) if isinstance(error, EpochalError) else f"{error.strerror or error}."


def _trash_row(run: DeletedRun) -> TrashedRun:
    return TrashedRun(key_of(run), run.id, run.name, run.project, run.deleted)


def _shown_labels(view: RunView) -> Labels:
    """The labels as lists show them: tags and note are the recorded ones where nobody set any."""
    info = view.outline()
    return Labels(view.labels.name, info.tags, info.notes, info.hidden)


def _edit(view: RunView, change: LabelsChange) -> LabelsEdit:
    first_note = view.facts.get("notes")
    edit_tags = tag_edit(view, add=filter(None, change.add_tags), remove=change.remove_tags)

    def edit(labels: Labels) -> Labels:
        if change.name is not msgspec.UNSET:
            labels = replace(labels, name=change.name or None)
        if change.tags is not msgspec.UNSET:
            tags = None if change.tags is None else tuple(dict.fromkeys(filter(None, change.tags)))
            labels = replace(labels, tags=tags)
        labels = edit_tags(labels)
        if change.notes is not msgspec.UNSET:
            stored = first_note if labels.notes is None else labels.notes
            if change.notes_before is not msgspec.UNSET and (stored or "") != (
                change.notes_before or ""
            ):
                raise ChangedMeanwhileError(
                    "somebody else has changed the note meanwhile: look at it, then save again."
                )
            labels = replace(labels, notes=change.notes)
        if change.hidden is not msgspec.UNSET:
            labels = replace(labels, hidden=change.hidden)
        return labels

    return edit


async def body_of(request: Request, kind: type[T], *, most: int = MAX_BODY_BYTES) -> T:
    """The body of a request; another type or size is refused, and ``FormatError`` another kind."""
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise HTTPException(415, "the body must be application/json.")
    return decoded_body(await read_body(request, most), kind)


async def read_body(request: Request, most: int) -> bytes:
    """The bytes of a body; one that is too large is not read to its end."""
    too_large = HTTPException(
        413, f"the body must have at most {most:,} bytes.", headers={"connection": "close"}
    )
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or int(length) > most:
        raise too_large
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large
    return bytes(body)


def decoded_body(body: bytes, kind: type[T]) -> T:
    """Decode the JSON body of a request; raises ``FormatError``, which is answered with 400.

    A body with more levels than ``read_json`` accepts is refused: nobody could read what is stored.
    """
    try:
        if nests_too_deeply(msgspec.json.decode(body)):
            raise FormatError(f"the body of the request has more than {MAX_DEPTH} nested levels.")
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FormatError(f"the body of the request is not valid: {error}.") from error
