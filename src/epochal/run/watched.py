"""Nested values whose changes are recorded: what ``run.config`` and ``run.summary`` hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epochal.values import plain_json


class Attributes:
    """Makes the entries of a mapping attributes too; names that begin with ``_`` are none."""

    def __getattr__(self: Any, name: str) -> Any:
        if name.startswith("_") or name not in self:
            raise AttributeError(f"there is no entry {name!r}.", name=name, obj=self)
        return self[name]

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value

    def __delattr__(self: Any, name: str) -> None:
        if name not in self:
            raise AttributeError(f"there is no entry {name!r}.", name=name, obj=self)
        del self[name]


class Entries(Attributes, dict[str, Any]):
    """A dict whose entries are attributes too."""


class _Entry:
    """One entry of a mapping, which nested dicts and lists belong to."""

    def __init__(self, check: Callable[[], None], record: Callable[[Any], None]) -> None:
        self.check, self._record = check, record
        self.value: Any = None

    def record(self, changed: Any) -> None:
        """Record the whole entry after a change; what came in is made plain and watched."""
        is_dict = isinstance(changed, dict)
        put: Any = dict.__setitem__ if is_dict else list.__setitem__
        for key, value in list(changed.items() if is_dict else enumerate(changed)):
            if getattr(value, "_entry", None) is not self:
                put(changed, key, self.watched(plain_json(value)))
        self._record(plain(self.value))

    def watched(self, value: Any) -> Any:
        """The same plain value in containers that belong to this entry."""
        made: _Dict | _List
        if isinstance(value, dict):
            made = _Dict({key: self.watched(inner) for key, inner in value.items()})
        elif isinstance(value, list):
            made = _List(self.watched(inner) for inner in value)
        else:
            return value
        made._entry = self
        return made


def watched(value: Any, check: Callable[[], None], record: Callable[[Any], None]) -> Any:
    """Return a plain value; each change inside it calls ``check`` before, ``record`` after."""
    entry = _Entry(check, record)
    entry.value = entry.watched(value)
    return entry.value


class _Dict(Entries):
    """A nested mapping; a change records the entry it belongs to."""

    _entry: _Entry

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (plain(self),)


class _List(list[Any]):
    """A nested list; a change records the entry it belongs to."""

    _entry: _Entry

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (plain(self),)


_OF_DICTS = "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
_OF_LISTS = (
    "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort"
)


def _recording(method: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: _Dict | _List, *args: Any, **options: Any) -> Any:
        self._entry.check()
        given = method(self, *args, **options)
        self._entry.record(self)
        return given

    return change


for _kind, _base, _names in ((_Dict, dict, _OF_DICTS), (_List, list, _OF_LISTS)):
    for _name in _names.split():
        setattr(_kind, _name, _recording(getattr(_base, _name)))


def plain(value: Any) -> Any:
    """The same value in plain dicts and lists."""
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return [plain(inner) for inner in value] if isinstance(value, list) else value
