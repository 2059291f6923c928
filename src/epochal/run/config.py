"""A run's configuration as the program sees it: a dict whose changes are recorded.

Setting a key writes an ``option`` record. A change inside a nested dict or list records the whole
entry it belongs to. An entry cannot be removed: what was recorded stays recorded.

Entries are attributes too: ``config.model.width = 64`` is ``config["model"]["width"] = 64``. Names
that a dict has itself (``items``, ``update``, …) are read as ``config["items"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NoReturn

from epochal.base.guard import called_by_program
from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.records.values import plain_json
from epochal.run.writing import RunWriter


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


class RunConfig(Entries):
    """What ``run.config`` returns. It starts with the entries of the run's identity."""

    def __init__(self, recorder: RunWriter) -> None:
        super().__init__()
        self._recorder = recorder
        self._take(recorder.identity.get("config") or {})

    def _take(self, values: Mapping[str, Any]) -> None:
        """Hold entries that are recorded already."""
        for key, value in values.items():
            record = partial(self._record_entry, key)
            super().__setitem__(key, watched(value, self._recorder.check_open, record))

    @called_by_program("run.config", lambda config: config._recorder.guard)
    def __setitem__(self, key: str, value: Any) -> None:
        record_config(self, {key: value})

    @called_by_program("run.config", lambda config: config._recorder.guard)
    def update(self, *others: Any, **values: Any) -> None:
        """Set several entries; one record each."""
        record_config(self, dict(*others, **values))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, set to a default where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def __ior__(self, other: Any) -> RunConfig:  # type: ignore[misc, override]
        self.update(other)
        return self

    def copy(self) -> dict[str, Any]:
        """A plain dict, all the way down, whose changes are not recorded."""
        return {key: plain(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def _record_entry(self, key: str, value: Any) -> None:
        _write_options(self._recorder, {key: value})

    def _refuse(self, *_: Any) -> NoReturn:
        raise UsageError(
            "an entry of run.config cannot be removed: it is recorded. Set it to None instead."
        )

    __delitem__ = pop = popitem = clear = _refuse


def record_config(config: RunConfig, values: Mapping[str, Any]) -> dict[str, Any]:
    """Write one ``option`` record per entry; return the entries without secrets."""
    given = plain_json(values)
    if not isinstance(given, dict):
        raise ValueTypeError("the configuration is a mapping of names to values.")
    recorded = _write_options(config._recorder, given)
    config._take(given)
    return recorded


def _write_options(recorder: RunWriter, given: dict[str, Any]) -> dict[str, Any]:
    recorded = recorder.redactor.config(given)
    for key, value in recorded.items():
        recorder.write({"log": "option", "t": now(), "name": key, "value": value})
    recorder.redactor.notice(recorder.console.notice)
    return recorded
