"""Nested values whose changes are recorded: what ``run.config`` and ``run.summary`` hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from epochal.values import plain_json


class Entries(dict[str, Any]):
    """A dict whose entries are attributes too; names that begin with ``_`` are none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self:
            raise AttributeError(f"there is no entry {name!r}.", name=name, obj=self)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(f"there is no entry {name!r}.", name=name, obj=self)
        del self[name]


class _Entry:
    """One entry of a mapping, which nested dicts and lists belong to."""

    def __init__(self, check: Callable[[], None], record: Callable[[Any], None]) -> None:
        self.check, self._record = check, record
        self.value: Any = None

    def watch(self, value: Any) -> Any:
        """Return the entry's value; a change inside it is recorded from now on."""
        self.value = self._watched(value)
        return self.value

    def record(self) -> None:
        """Record the whole entry after a change; what came in is made plain and watched."""
        self._adopt(self.value)
        self._record(plain(self.value))

    def _watched(self, value: Any) -> Any:
        made: _Dict | _List
        if isinstance(value, dict):
            made = _Dict({key: self._watched(inner) for key, inner in value.items()})
        elif isinstance(value, list):
            made = _List(self._watched(inner) for inner in value)
        else:
            return value
        made._entry = self
        return made

    def _adopt(self, container: _Dict | _List) -> None:
        if isinstance(container, _Dict):
            for key, value in list(container.items()):
                dict.__setitem__(container, key, self._adopted(value))
        else:
            for index, value in enumerate(container):
                list.__setitem__(container, index, self._adopted(value))

    def _adopted(self, value: Any) -> Any:
        if isinstance(value, (_Dict, _List)) and value._entry is self:
            self._adopt(value)
            return value
        return self._watched(plain_json(value))


def watched(value: Any, check: Callable[[], None], record: Callable[[Any], None]) -> Any:
    """Return a plain value; each change inside it calls ``check`` before, ``record`` after."""
    return _Entry(check, record).watch(value)


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
        self._entry.record()
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
