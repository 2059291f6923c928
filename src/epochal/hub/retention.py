"""Applies the retention rules of a hub: old runs go to the trash, and from there in the end.

Nothing goes silently. The hub says its rules when it starts, and what they would do; they are
applied one interval after they were changed for the first time. Every run that goes is a line of
the hub's output and of the audit log. Hubs over one database have the same rules, and take turns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError, UsageError
from epochal.hub.ledger import Ledger
from epochal.hub.maintenance import Duty
from epochal.hub.serving import HubRuns, open_noting
from epochal.journal.layout import slugify
from epochal.journal.row import RunRow
from epochal.records.format import format_bytes, plural
from epochal.settings import Located, Source, mistake, nearest, read_table
from epochal.settings.kinds import read_age
from epochal.store.local.trash import is_removable
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.status import format_age
from epochal.store.store import Store

# How long a hub keeps runs: what ``[retention]`` of its ``epochal.toml`` says, or of the file that
# was given to all hubs over a database.
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
        return (
            f"Retention: {' '.join(rules)} The hub looks every {every}, and first {every} after"
            " the rules were changed."
        )

    def since(self, now: float) -> dict[str, float | None]:
        """By project, since when nothing was received of runs that go; '' stands for the others."""
        rules = {"": self.default, **self.by_project}
        after = {project: rule.trash_after_s for project, rule in rules.items()}
        return {project: None if s is None else now - s for project, s in after.items()}


def read_rules(root: Path) -> RetentionRules:
    """The rules of the hub in a folder: ``[retention]`` in its ``epochal.toml``."""
    path = root / FILE
    return _rules_of(read_table(path, "retention") if path.is_file() else {})


def _rules_of(values: Mapping[str, Located]) -> RetentionRules:
    tables: dict[str, dict[str, Any]] = {_DEFAULT: {}}
    for key, located in values.items():
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


def set_rules(ledger: Ledger, path: Path, who: str) -> RetentionRules:
    """Have all hubs of a database apply ``[retention]`` of a file."""
    table = read_table(path, "retention")
    rules = _rules_of(table)
    ledger.documents.put(*_RULES, {key: located.value for key, located in table.items()})
    ledger.note(who, "retention rules", details=str(rules))
    return rules


def shared_rules(ledger: Ledger) -> RetentionRules:
    """The rules that all hubs of a database apply."""
    source = Source(argument="the rules of the hubs")
    table = ledger.documents.get(*_RULES) or {}
    return _rules_of({key: Located(value, source) for key, value in table.items()})


_WHO = "retention"
_RULES, _DUE = (_WHO, "rules"), (_WHO, "due")
_MOST_NAMED = 20
_LOOK_EVERY_S = 10.0
# What is so late was due while no hub was running.
_LATE_S = 600.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What the rules select now: runs for the trash, the longest silent first, and for erasing."""

    trash: Sequence[RunView]
    erase: Sequence[TrashedRun]

    def text(self, store: Store) -> str:
        """The plan as people read it."""
        chosen: dict[str, Sequence[RunRow | TrashedRun]] = {
            "to the trash": [run.info for run in self.trash],
            "erased": self.erase,
        }
        parts = [f"{what}: {_named(store, runs)}" for what, runs in chosen.items() if runs]
        return "; ".join(parts) or "nothing"


class Retention:
    """The rules over the runs of a hub; of hubs that share their runs, one applies them at a time.

    ``read_rules`` says what the rules are now. ``on_erase`` is called after runs were erased, and
    ``tell`` prints a line.
    """

    def __init__(
        self,
        read_rules: Callable[[], RetentionRules],
        runs: HubRuns,
        ledger: Ledger,
        *,
        tell: Callable[[str], object] = lambda _line: None,
        on_erase: Callable[[], object] = lambda: None,
    ) -> None:
        self._read_rules = read_rules
        self._runs = runs
        self._ledger = ledger
        self._tell = tell
        self._on_erase = on_erase
        self._announced = ""

    @property
    def rules(self) -> RetentionRules:
        """The rules that hold now."""
        return self._read_rules()

    def duty(self) -> Duty:
        """Looks at the rules often enough to apply them in time."""
        return Duty(_WHO, min(_LOOK_EVERY_S, self.rules.every_s), self.look)

    def look(self) -> None:
        """Apply the rules if they are due; say what they are when they are new to this hub."""
        rules = self.rules
        is_due = self._is_due(rules)
        if str(rules) != self._announced:
            self._announced = str(rules)
            if rules:
                self._tell(f"{rules} They would move or erase now: {self.preview()}.")
        if is_due:
            self.apply(rules)

    def _is_due(self, rules: RetentionRules) -> bool:
        """Whether to apply the rules now; of several hubs that ask, one gets this answer.

        Rules that were changed, or that nobody has looked at for long, are due an interval later.
        """
        if not rules:
            return False
        before, now = self._ledger.documents.get(*_DUE), self._runs.now()
        is_known = (
            before is not None
            and before["rules"] == str(rules)
            and now < before["t"] + rules.every_s + _LATE_S
        )
        if is_known and before is not None and now < before["t"]:
            return False
        after = {"rules": str(rules), "t": now + rules.every_s}
        return self._ledger.documents.swap(*_DUE, before, after) and is_known

    def preview(self) -> str:
        """What the rules would do now."""
        with self._opened() as store:
            return self._plan(self.rules, store).text(store)

    def apply(self, rules: RetentionRules) -> None:
        """Move and erase what the rules select."""
        with self._opened() as store:
            plan = self._plan(rules, store)
            for view in plan.trash:
                name = f"{view.info.project}/{view.info.name}"
                self._each(name, self._move, store, view, rules)
            for run in plan.erase:
                self._each(f"{run.project}/{run.name}", self._erase, store, run)
        if plan.erase:
            self._on_erase()

    def _opened(self) -> AbstractContextManager[Store]:
        return contextlib.closing(open_noting(self._runs, self._ledger, self._runs.whole))

    def _plan(self, rules: RetentionRules, store: Store) -> Plan:
        """What the rules select now; never live runs."""
        now = self._runs.now()
        silent = self._runs.silent(store, rules.since(now))
        trash = [run for run in silent if _may_go(rules, run)]
        trash.sort(key=self._runs.received)
        erase = [run for run in store.trash.runs() if _is_over(rules, run, now)]
        return Plan(trash, erase)

    def _move(self, store: Store, view: RunView, rules: RetentionRules) -> None:
        info, rule = view.info, rules.of(view.info.project)
        with self._runs.locked(info.id):
            silent_s = self._runs.now() - self._runs.received(view)
            if rule.trash_after_s is None or silent_s < rule.trash_after_s:
                return  # something has arrived meanwhile
            store.remove(view)
        why = f"nothing was received for {format_age(silent_s)}"
        if rule.erase_after_s is not None:
            why += f"; the trash is erased after {format_age(rule.erase_after_s)}"
        self._note("moved to the trash", info.id, f"{info.project}/{info.name}", why)

    def _erase(self, store: Store, run: TrashedRun) -> None:
        store.trash.erase(run)
        why = f"it was in the trash for {format_age(self._runs.now() - run.deleted)}"
        self._note("erased", run.id, f"{run.project}/{run.name}", why)

    def _each(self, name: str, act: Callable[..., None], *args: object) -> None:
        try:
            act(*args)
        except (OSError, EpochalError) as error:
            self._tell(f"Retention: {name} stays: {error}")

    def _note(self, what: str, run_id: str, name: str, why: str) -> None:
        self._ledger.note(_WHO, what, run=run_id, details=f"{name}: {why}")
        self._tell(f"Retention: {name} was {what}: {why}.")


def _may_go(rules: RetentionRules, run: RunView) -> bool:
    brief = run.outline()
    return not rules.of(brief.project).keeps(brief.tags) and is_removable(run.info)


def _is_over(rules: RetentionRules, run: TrashedRun, now: float) -> bool:
    after_s = rules.of(run.project).erase_after_s
    return after_s is not None and now - run.deleted >= after_s


def _named(store: Store, runs: Sequence[RunRow | TrashedRun]) -> str:
    names = [f"{run.project}/{run.name}" for run in runs]
    size = sum(usage.total() for usage in store.catalog.usage(runs))
    more = len(names) - _MOST_NAMED
    rest = f" and {more:,} more" if more > 0 else ""
    listed = ", ".join(names[:_MOST_NAMED])
    return f"{plural(len(names), 'run')} ({format_bytes(size)}): {listed}{rest}"
