"""How long a hub keeps runs: what ``[retention]`` of its ``epochal.toml`` and its options say.

::

    [retention]
    trash_after = "90d"       # runs that the hub received nothing of for so long go to the trash
    erase_after = "30d"       # what lies in the trash for so long is erased
    keep_tags = ["paper"]     # runs with one of these tags stay; true: runs with any tag

    [retention.projects.scratch]
    trash_after = "7d"        # what a project does not say is as in [retention]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.journal.layout import slugify
from epochal.settings import Located, mistake, nearest, read_table
from epochal.settings.kinds import read_age
from epochal.store.status import format_age

FILE = "epochal.toml"
NEVER = "never"
_PROJECTS = "projects"
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


def read_rules(
    root: Path,
    *,
    trash_after_s: float | None = None,
    erase_after_s: float | None = None,
    keep_tagged: bool = False,
) -> RetentionRules:
    """The rules of the hub in a folder; options win over ``[retention]``, not over a project's."""
    path = root / FILE
    table = read_table(path, "retention") if path.is_file() else {}
    default: dict[str, Any] = {}
    projects: dict[str, dict[str, Any]] = {}
    every_s = EVERY_S
    for key, located in table.items():
        table_name, _, field_name = key.rpartition(".")
        if key == _EVERY:
            every_s = _every(located)
        elif not table_name:
            default.update(_read(key, field_name, located))
        elif table_name.startswith(f"{_PROJECTS}."):
            project = slugify(table_name.removeprefix(f"{_PROJECTS}."))
            projects.setdefault(project, {}).update(_read(key, field_name, located))
        else:
            raise UsageError(
                f"{located.source}: retention.{key} is not a setting;"
                " use a table such as [retention.projects.NAME]."
            )
    if trash_after_s is not None:
        default["trash_after_s"] = trash_after_s
    if erase_after_s is not None:
        default["erase_after_s"] = erase_after_s
    if keep_tagged:
        default["keep_tags"] = True
    rule = RetentionRule(**default)
    by_project = {name: replace(rule, **values) for name, values in projects.items()}
    return RetentionRules(rule, by_project, every_s)


def _read(key: str, name: str, located: Located) -> dict[str, Any]:
    """One value as a field of ``RetentionRule``."""
    if name in ("trash_after", "erase_after"):
        return {f"{name}_s": _age(key, located)}
    if name == "keep_tags":
        value = located.value
        if isinstance(value, bool):
            return {name: value}
        if isinstance(value, list) and all(isinstance(tag, str) for tag in value):
            return {name: frozenset(value)}
        words = "is not true, false or a list of tags."
        raise mistake(located.source, f"retention.{key}", value, words)
    known = ("trash_after", "erase_after", "keep_tags", _EVERY)
    sentence = f"retention.{key} is not a setting; {nearest(name, known)}"
    raise UsageError(f"{located.source}: {sentence}")


def _age(key: str, located: Located) -> float | None:
    value = located.value
    if value == NEVER:
        return None
    try:
        return read_age(value if isinstance(value, str) else str(value))
    except ValueError as error:
        words = f"{error}, or {NEVER!r}."
        raise mistake(located.source, f"retention.{key}", value, words) from error


def _every(located: Located) -> float:
    every_s = _age(_EVERY, located)
    if every_s is None or every_s < 1.0:
        words = "is not an age of at least 1s."
        raise mistake(located.source, f"retention.{_EVERY}", located.value, words)
    return every_s
