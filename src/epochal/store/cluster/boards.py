"""The boards of the projects of a cluster, as documents that its hubs share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from epochal.errors import UsageError
from epochal.journal.boards import (
    MAX_BOARDS,
    Board,
    BoardNotFoundError,
    StoredBoard,
    check_revision,
    encoded_board,
    revision_of,
)
from epochal.journal.layout import slugify
from epochal.store.cluster.documents import ClusterDocuments

_KIND = "board"


class ClusterBoards:
    """The boards of some projects, by the slugs of their names; see ``epochal.journal.boards``."""

    def __init__(
        self, documents: ClusterDocuments, projects: Callable[[], Collection[str]]
    ) -> None:
        self._documents = documents
        self._projects = projects

    def list(self, project: str | None = None) -> Sequence[StoredBoard]:
        names = {slugify(name): name for name in self._projects()}
        wanted = names if project is None else {slugify(project)} & names.keys()
        return [
            stored
            for slug in sorted(wanted)
            for stored in sorted(self._of(slug, names[slug]), key=lambda one: one.board.name)
        ]

    def save(self, project: str, board: Board, revision: str | None) -> StoredBoard:
        slug, data = self._slug(project), encoded_board(board)
        there = {stored.board.name: stored for stored in self._of(slug, project)}
        if board.name not in there and len(there) >= MAX_BOARDS:
            raise UsageError(f"a project has at most {MAX_BOARDS} boards: delete one first.")

        def check(before: bytes | None) -> bytes:
            if before == data:
                return data  # also when the answer to the first try was lost
            stored = None if before is None else revision_of(before)
            check_revision(board.name, stored=stored, seen=revision)
            return data

        self._documents.edit(_KIND, f"{slug}/{board.name}", check)
        return StoredBoard(project, revision_of(data), board)

    def remove(self, project: str, name: str, revision: str | None) -> None:
        if revision is None:
            raise UsageError(f"name the revision of the board {name!r} that you want to delete.")

        def check(before: bytes | None) -> None:
            if before is None:
                raise BoardNotFoundError(f"there is no board {name!r}.")
            check_revision(name, stored=revision_of(before), seen=revision)

        self._documents.edit(_KIND, f"{self._slug(project)}/{name}", check)

    def _of(self, slug: str, project: str) -> Sequence[StoredBoard]:
        return [
            StoredBoard(project, revision_of(data), msgspec.json.decode(data, type=Board))
            for _, data in self._documents.bodies(_KIND, prefix=f"{slug}/")
        ]

    def _slug(self, project: str) -> str:
        slug = slugify(project)
        if slug not in {slugify(name) for name in self._projects()}:
            raise BoardNotFoundError(f"there is no project {project!r} here.")
        return slug
