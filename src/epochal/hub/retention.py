"""Applies the retention rules of a hub: old runs go to the trash, and from there in the end.

Nothing goes silently. The hub says its rules when it starts, and what they would do; the first
time they are applied is one interval later. Every run that goes is a line of the hub's output and
of the audit log.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError, UsageError
from epochal.hub.ledger import Ledger
from epochal.hub.limits import Budget
from epochal.journal.layout import slugify
from epochal.journal.row import RunRow
from epochal.records.format import format_bytes, plural
from epochal.server.state import server_guard
from epochal.settings import Located, mistake, nearest, read_table
from epochal.settings.kinds import read_age
from epochal.store.local.trash import folder_bytes, is_removable
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.status import format_age
from epochal.store.store import Store

# How long a hub keeps runs: what ``[retention]`` of its ``epochal.toml`` and its options say.
#
#     [retention]
#     trash_after = "90d"       # runs that the hub received nothing of for so long go to the trash
#     erase_after = "30d"       # what lies in the trash for so long is erased
#     keep_tags = ["paper"]     # runs with one of these tags stay; true: runs with any tag
#
#     [retention.projects.scratch]
#     trash_after = "7d"        # what a project does not say is as in [retention]

FILE = "epochal.toml"
NEVER = "never"
_PROJECTS = "projects."
_DEFAULT = ""
_EVERY = "every"
# A rule with a mistake can be stopped before it is applied for the first time.
EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class RetentionRule:
    """How long runs are kept, and how long they lie in the trash; None for ever.

    ``keep_tags`` are the tags of which one keeps a run, True for any tag.
    """

    trash_after_s: float | None = None
    erase_after_s: float | None = None
    keep_tags: frozenset[str] | bool = False

    def keeps(self, tags: tuple[str, ...]) -> bool:
        """Whether a run with these tags stays, however old it is."""
        if isinstance(self.keep_tags, bool):
            return self.keep_tags and bool(tags)
        return not self.keep_tags.isdisjoint(tags)

    def __bool__(self) -> bool:
        return self.trash_after_s is not None or self.erase_after_s is not None

    def __str__(self) -> str:
        parts = []
        if self.trash_after_s is not None:
            age = format_age(self.trash_after_s)
            parts.append(f"runs of which nothing was received for {age} go to the trash")
            if self.keep_tags:
                tags = "" if self.keep_tags is True else ": " + ", ".join(sorted(self.keep_tags))
                parts.append(f"runs with a tag stay{tags}")
        if self.erase_after_s is not None:
            parts.append(f"the trash is erased after {format_age(self.erase_after_s)}")
        return "; ".join(parts) or "nothing is deleted by itself"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """The rule of every project, and those of some by the name of their folder."""

    default: RetentionRule = RetentionRule()
    by_project: Mapping[str, RetentionRule] = field(default_factory=dict)
    every_s: float = EVERY_S

    def of(self, project: str) -> RetentionRule:
        """The rule of a project."""
        return self.by_project.get(slugify(project), self.default)

    def __bool__(self) -> bool:
        return bool(self.default) or any(self.by_project.values())

    def __str__(self) -> str:
        rules = [f"{self.default}."]
        rules += [f"Project {name}: {rule}." for name, rule in sorted(self.by_project.items())]
        every = format_age(self.every_s)
        return f"Retention: {' '.join(rules)} The hub looks every {every}, first in {every}."


def read_rules(root: Path) -> RetentionRules:
    """The rules of the hub in a folder: ``[retention]`` in its ``epochal.toml``."""
    path = root / FILE
    tables: dict[str, dict[str, Any]] = {_DEFAULT: {}}
    for key, located in (read_table(path, "retention") if path.is_file() else {}).items():
        table, _, name = key.rpartition(".")
        if table and not table.startswith(_PROJECTS):
            raise UsageError(
                f"{located.source}: retention.{key} is not a setting;"
                " use a table such as [retention.projects.NAME]."
            )
        project = slugify(table.removeprefix(_PROJECTS)) if table else _DEFAULT
        tables.setdefault(project, {}).update(_read(key, name, located))
    default = tables.pop(_DEFAULT)
    every_s = default.pop("every_s", EVERY_S)
    rule = RetentionRule(**default)
    by_project = {name: replace(rule, **values) for name, values in tables.items()}
    return RetentionRules(rule, by_project, every_s)


def _read(key: str, name: str, located: Located) -> dict[str, Any]:
    """One value as a field of ``RetentionRule``, or ``every_s``, which has no project."""
    value, named = located.value, f"retention.{key}"
    if name in ("trash_after", "erase_after") or key == _EVERY:
        try:
            age_s = None if value == NEVER else read_age(str(value))
        except ValueError as error:
            raise mistake(located.source, named, value, f"{error}, or {NEVER!r}.") from error
        if key == _EVERY and (age_s is None or age_s < 1.0):
            raise mistake(located.source, named, value, "is not an age of at least 1s.")
        return {f"{name}_s": age_s}
    if name == "keep_tags":
        if isinstance(value, bool):
            return {name: value}
        if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
            return {name: frozenset(value)}
        words = "is not true, false or a list of tags."
        raise mistake(located.source, named, value, words)
    known = ("trash_after", "erase_after", "keep_tags", _EVERY)
    raise UsageError(f"{located.source}: {named} is not a setting; {nearest(name, known)}")


_WHO = "retention"
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True)
class Plan:
    """What the rules select now: runs for the trash, the longest silent first, and for erasing."""

    trash: Sequence[RunView]
    erase: Sequence[TrashedRun]

    def __str__(self) -> str:
        chosen: dict[str, Sequence[RunRow | TrashedRun]] = {
            "to the trash": [run.info for run in self.trash],
            "erased": self.erase,
        }
        parts = [f"{what}: {_named(runs)}" for what, runs in chosen.items() if runs]
        return "; ".join(parts) or "nothing"


class Retention:
    """The rules over one folder of runs.

    ``locked`` keeps shippers from writing to a run while it is moved; ``tell`` prints a line.
    """

    def __init__(
        self,
        rules: RetentionRules,
        open_store: Callable[[], Store],
        ledger: Ledger,
        budget: Budget,
        *,
        locked: Callable[[str], AbstractContextManager[object]],
        tell: Callable[[str], object],
    ) -> None:
        self._rules = rules
        self._open_store = open_store
        self._ledger = ledger
        self._budget = budget
        self._locked = locked
        self._tell = tell

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Say what the rules are, and apply them again and again in a thread."""
        stopping, guard = threading.Event(), server_guard()

        def work() -> None:
            guard.run(_WHO, self.announce)
            while not stopping.wait(self._rules.every_s):
                guard.run(_WHO, self.apply)

        thread = threading.Thread(target=work, name="epochal-retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            stopping.set()
            thread.join(5.0)

    def announce(self) -> None:
        """Say the rules, and what they would do now."""
        if not self._rules:
            return
        self._tell(str(self._rules))
        with contextlib.closing(self._open_store()) as store:
            self._tell(f"Retention would move or erase now: {self.plan(store)}.")

    def plan(self, store: Store) -> Plan:
        """What the rules select now; never live runs."""
        old = [view for view in store.runs() if self._is_old(view)]
        trash = [view for view in old if is_removable(view.info)]
        trash.sort(key=lambda view: view.source.newest_s)
        erase = [run for run in store.trash.runs() if self._is_over(run)]
        return Plan(trash, erase)

    def apply(self) -> None:
        """Move and erase what the rules select."""
        if not self._rules:
            return
        with contextlib.closing(self._open_store()) as store:
            plan = self.plan(store)
            for view in plan.trash:
                self._each(f"{view.info.project}/{view.info.name}", self._move, store, view)
            for run in plan.erase:
                self._each(f"{run.project}/{run.name}", self._erase, store, run)
        if plan.erase:
            self._budget.measure_again()

    def _move(self, store: Store, view: RunView) -> None:
        info = view.info
        with self._locked(info.id):
            if not self._is_old(view):  # something has arrived meanwhile
                return
            silent_s = _silent_s(view)
            store.remove(view)
        rule = self._rules.of(info.project)
        why = f"nothing was received for {format_age(silent_s)}"
        if rule.erase_after_s is not None:
            why += f"; the trash is erased after {format_age(rule.erase_after_s)}"
        self._note("moved to the trash", info.id, f"{info.project}/{info.name}", why)

    def _erase(self, store: Store, run: TrashedRun) -> None:
        store.trash.erase(run)
        why = f"it was in the trash for {format_age(time.time() - run.deleted)}"
        self._note("erased", run.id, f"{run.project}/{run.name}", why)

    def _each(self, name: str, act: Callable[..., None], *args: object) -> None:
        try:
            act(*args)
        except (OSError, EpochalError) as error:
            self._tell(f"Retention: {name} stays: {error}")

    def _note(self, what: str, run_id: str, name: str, why: str) -> None:
        self._ledger.note(_WHO, what, run=run_id, details=f"{name}: {why}")
        self._tell(f"Retention: {name} was {what}: {why}.")

    def _is_old(self, view: RunView) -> bool:
        brief = view.outline()
        rule = self._rules.of(brief.project)
        if rule.trash_after_s is None or view.tracker is not None or rule.keeps(brief.tags):
            return False
        return _silent_s(view) >= rule.trash_after_s

    def _is_over(self, run: TrashedRun) -> bool:
        after_s = self._rules.of(run.project).erase_after_s
        return after_s is not None and time.time() - run.deleted >= after_s


def _named(runs: Sequence[RunRow | TrashedRun]) -> str:
    names = [f"{run.project}/{run.name}" for run in runs]
    size = sum(folder_bytes(Path(run.folder)) for run in runs)
    more = len(names) - _MOST_NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    listed = ", ".join(names[:_MOST_NAMED])
    return f"{plural(len(names), 'run')} ({format_bytes(size)}): {listed}{rest}"


def _silent_s(run: RunView) -> float:
    """How long ago anything of a run was received last; 0 where that is not known.

    By the clock of who received it, not by what the run says: a run of last year that is sent today
    is new to the hub.
    """
    try:
        run.refresh()
    except (OSError, EpochalError):
        return 0.0
    now = time.time()
    return now - (run.source.newest_s or run.created or now)
