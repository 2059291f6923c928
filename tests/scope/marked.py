"""Runs whose every content is marked, and the words with which a stranger could ask for them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from epochal.journal.boards import Board, save_board
from epochal.journal.layout import write_json
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal, settle


@dataclass(frozen=True)
class Mark:
    """What a run, a file or a board holds and nothing else does: a text and a number."""

    text: str
    number: float

    @cached_property
    def traces(self) -> Sequence[bytes]:
        """How it would appear in an answer: as text, or in a column of numbers."""
        columns = [struct.pack(f"<{kind}", self.number) for kind in "df"]
        return [self.text.encode(), str(self.number).encode(), *columns]


@dataclass(frozen=True, slots=True)
class MarkedRun:
    """A run on the disk; ``marks`` are in its configuration, labels, records and files."""

    id: str
    project: str
    name: str
    folder: Path
    mark: Mark


_marks = (Mark(f"mark-{number:04d}", 7000.0 + number + 0.3) for number in range(1_000))


def next_mark() -> Mark:
    return next(_marks)


def marked_run(root: Path, project: str, name: str, *, label: bool = True) -> MarkedRun:
    """Write a run that has something in every section of the page."""
    mark, run_id = next_mark(), f"a{hashlib.sha256(name.encode()).hexdigest()[:11]}"
    config = {"secret": mark.text, "lr": mark.number}
    journal = Journal(
        root, name, project=project, id=run_id, config=config, notes=mark.text, tags=[mark.text]
    )
    for step in range(3):
        loss: dict[str, Any] = {"loss": mark.number, f"own/{mark.text}": mark.number}
        journal.metrics(step, **loss).epoch(step + 1, total=3, **loss)
    journal.add(
        {"log": "text", "name": "sample", "step": 2, "text": mark.text},
        {"log": "message", "level": "info", "text": mark.text},
        {"log": "event", "event": "checkpoint", "message": mark.text},
        {"log": "blob", "name": "picture", "step": 2, "file": "a.txt", "type": "text/plain"},
        {"log": "file", "name": "notes", "file": "a.txt", "type": "text/plain", "size": 9},
        {"log": "graph", "nodes": [{"id": mark.text}], "edges": []},
    )
    journal.finish()
    journal.folder.blobs.mkdir()
    (journal.folder.blobs / "a.txt").write_text(mark.text)
    if label:
        write_json(journal.folder.labels, {"name": f"shown {mark.text}"})
    return MarkedRun(run_id, project, name, journal.folder.path, mark)


@dataclass(frozen=True, slots=True)
class Word:
    """A text that a stranger sends in place of a run; ``twin`` names what does not exist.

    The answers to both must be equal, or they tell what exists. They have the same length, because
    some answers count bytes.
    """

    text: str
    twin: str | None = None


@dataclass(frozen=True, slots=True)
class World:
    """Two projects with runs and boards, a deleted run, and files outside of the folder.

    A server of it runs in the folder above, so relative paths fit.
    """

    root: Path
    outside: Path
    alpha: Sequence[MarkedRun]
    beta: Sequence[MarkedRun]
    deleted: MarkedRun
    boards: dict[str, Mark]
    stray: Sequence[Mark]

    @property
    def marks_outside(self) -> list[Mark]:
        """What nobody may see who asks for runs."""
        return [self.deleted.mark, *self.stray]

    def marks_of(self, projects: Sequence[str]) -> list[Mark]:
        runs = [run for run in (*self.alpha, *self.beta) if run.project in projects]
        return [*(run.mark for run in runs), *(self.boards[name] for name in projects)]

    def words(self, run: MarkedRun) -> Iterator[Word]:
        """Every way to name a run that is there, but must not be reached."""
        project, name = run.folder.parts[-2:]
        yield Word(run.id, _twin(run.id))
        yield Word(run.id[:9], _twin(run.id[:9]))
        for text in (
            name,
            f"{project}/{name}",
            str(run.folder),
            run.folder.as_uri(),
            f"../{project}/{name}",
            # From the folder in which the server runs.
            f"./{self.root.name}/{project}/{name}",
        ):
            yield Word(text, text.replace(name, "z" * len(name)))
        yield Word(f"{run.folder}/")

    def stray_words(self) -> Iterator[Word]:
        """Ways to name files outside of the folder, and what lies in the trash."""
        yield Word(self.deleted.id, _twin(self.deleted.id))
        trashed = next(self.root.glob("alpha/.trash/*/dodo"))
        for path in (trashed, self.outside / "p" / "run", self.outside / "private.csv"):
            near = f"./{path.relative_to(self.root.parent)}"
            for text in (str(path), near):
                yield Word(text, text.replace(path.name, "z" * len(path.name)))
        yield Word((self.outside / "private.csv").as_uri())
        yield Word("http://127.0.0.1:9/api/runs")
        yield Word("~")
        yield Word("a\0")


def _twin(run_id: str) -> str:
    return "a".ljust(len(run_id), "0")


def make_world(folder: Path) -> World:
    """Write everything below a folder."""
    root, outside = folder / "runs", folder / "outside"
    alpha = [marked_run(root, "alpha", name) for name in ("quokka", "wombat")]
    beta = [marked_run(root, "beta", name) for name in ("narwhal", "axolotl")]
    # The trash shows its name to those who see the project.
    deleted = marked_run(root, "alpha", "dodo", label=False)
    stray = marked_run(outside, "p", "run")
    private = next_mark()
    rows = "".join(f"{step},{private.number},{private.text}\n" for step in range(3))
    (outside / "private.csv").write_text(f"step,loss,who\n{rows}")
    settle(folder)
    with folder_store(root) as store:
        store.remove(store.run(deleted.id))
    boards = {project: next_mark() for project in ("alpha", "beta")}
    for project, mark in boards.items():
        save_board(root / project, project, Board(mark.text), None)
    return World(root, outside, alpha, beta, deleted, boards, [stray.mark, private])
