"""Where the measures meet the contenders: one worker process per play, rounds interleaved."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import acknowledged
from benchmarks.contender import Role
from benchmarks.environments import ROOT, Entrant, clean_environment
from benchmarks.tree import Ended, Job

Answer = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Play:
    """What one worker did: its own answer, or the reason why there is none."""

    answer: Answer
    ended: Ended
    folder: Path
    failure: str = ""

    @property
    def data(self) -> Path:
        return self.folder / "data"


@dataclass(slots=True)
class Stage:
    """Runs workers in fresh folders under `scratch`, and remembers who failed at what."""

    entrants: tuple[Entrant, ...]
    scratch: Path
    quick: bool
    failures: dict[str, str] = field(default_factory=dict)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def present(self, *roles: Role) -> list[Entrant]:
        """The contenders that can run, of these roles (all roles when none is named)."""
        return [
            entrant
            for entrant in self.entrants
            if entrant.python and (not roles or entrant.contender.role in roles)
        ]

    def remark(self, name: str) -> str:
        """Why a contender has no figures, or nothing."""
        absences = {entrant.name: entrant.absence for entrant in self.entrants}
        return absences.get(name, "") or self.failures.get(name, "")

    def rounds(
        self,
        measure: str,
        *,
        count: int,
        cases: Sequence[Mapping[str, Any]],
        entrants: Sequence[Entrant],
        inspect: Callable[[Play], Answer] | None = None,
        limit_s: float = 120,
        grace_s: float = 40,
    ) -> dict[tuple[str, int], list[Answer]]:
        """Play every case with every contender, `count` times, each round from another start.

        Answers come back by (contender, index of the case), with what `inspect` made of the play
        added. A contender that fails once is not asked again.
        """
        answers: dict[tuple[str, int], list[Answer]] = {}
        self.failures.clear()
        for turn in range(count):
            order = [*entrants[turn % len(entrants) :], *entrants[: turn % len(entrants)]]
            for (index, case), entrant in itertools.product(enumerate(cases), order):
                if entrant.name in self.failures:
                    continue
                say(f"{measure} · round {turn + 1}/{count} · {_words(case)} · {entrant.name}")
                play = self.play(entrant, measure, case, limit_s=limit_s, grace_s=grace_s)
                if play.failure:
                    self.failures[entrant.name] = f"failed: {play.failure}"
                else:
                    found = inspect(play) if inspect else {}
                    answers.setdefault((entrant.name, index), []).append(play.answer | found)
                shutil.rmtree(play.folder)
        return answers

    def new_counter(self) -> Path:
        """A file that counts acknowledged steps, outside the folders that plays remove."""
        path = self.scratch / f"acknowledged-{next(self._numbers):05d}"
        acknowledged.create(path)
        return path

    def play(
        self,
        entrant: Entrant,
        measure: str,
        parameters: Mapping[str, Any],
        *,
        data: Path | None = None,
        counter: Path | None = None,
        kill_after_s: float | None = None,
        limit_s: float = 120,
        grace_s: float = 40,
    ) -> Play:
        """One worker process; the caller removes the folder of the answer."""
        folder = self.scratch / f"{next(self._numbers):05d}"
        (folder / "data").mkdir(parents=True)
        (folder / "home").mkdir()
        order = {
            "contender": entrant.name,
            "measure": measure,
            "directory": str(data or folder / "data"),
            "parameters": dict(parameters),
            "answer": str(folder / "answer.json"),
        }
        (folder / "order.json").write_text(json.dumps(order))
        job = Job(
            command=[str(entrant.python), "-m", "benchmarks.worker", str(folder / "order.json")],
            answer=str(folder / "ended.json"),
            errors=str(folder / "output.txt"),
            limit_s=limit_s,
            grace_s=grace_s,
            counter=str(counter or ""),
            kill_after_s=kill_after_s,
        )
        return _run(job, folder)


def _run(job: Job, folder: Path) -> Play:
    (folder / "job.json").write_text(json.dumps(asdict(job)))
    environment = {
        **clean_environment(),
        "PYTHONPATH": str(ROOT),
        "HOME": str(folder / "home"),  # nobody's settings, nobody's login
        "DO_NOT_TRACK": "1",
    }
    subprocess.run(
        [sys.executable, "-m", "benchmarks.tree", str(folder / "job.json")],
        cwd=folder / "home",
        env=environment,
        check=True,
    )
    ended = Ended(**json.loads((folder / "ended.json").read_text()))
    answer_file = folder / "answer.json"
    if answer_file.exists():
        return Play(json.loads(answer_file.read_text()), ended, folder)
    if job.kill_after_s is not None and acknowledged.read(Path(job.counter)):
        return Play({}, ended, folder)
    if ended.timed_out:
        return Play({}, ended, folder, failure=f"no answer within {job.limit_s:g} s")
    lines = (folder / "output.txt").read_text(errors="replace").strip().splitlines()
    return Play({}, ended, folder, failure=lines[-1] if lines else "the worker said nothing")


def _words(case: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in case.items())


def say(text: str) -> None:
    """Progress, apart from the tables."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)
