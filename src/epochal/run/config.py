"""A run's configuration as the program sees it: a dict whose changes are recorded.

Setting a key writes an ``option`` record. A change inside a nested dict or list records the whole
entry it belongs to. An entry cannot be removed: what was recorded stays recorded.

Entries are attributes too: ``config.model.width = 64`` is ``config["model"]["width"] = 64``. Names
that a dict has itself (``items``, ``update``, …) are read as ``config["items"]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.values import plain_json

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder


class _Entries(dict[str, Any]):
    """A dict whose entries are attributes too; names that begin with ``_`` are none."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self:
            raise AttributeError(f"the configuration has no entry {name!r}.", name=name, obj=self)
        return self[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(f"the configuration has no entry {name!r}.", name=name, obj=self)
        del self[name]


class RunConfig(_Entries):
    """What ``run.config`` returns. It starts with the entries of the run's identity."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._take(recorder.identity.get("config") or {})

    def _take(self, values: Mapping[str, Any]) -> None:
        """Hold entries that are recorded already."""
        for key, value in values.items():
            super().__setitem__(key, _Entry(self._recorder, key).watch(value))

    def __setitem__(self, key: str, value: Any) -> None:
        self._record({key: value})

    def update(self, *others: Any, **values: Any) -> None:
        """Set several entries; one record each."""
        self._record(dict(*others, **values))

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
        return {key: _plain(value) for key, value in self.items()}

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def _record(self, values: Mapping[str, Any]) -> None:
        record_config(self._recorder, values)

    def _refuse(self, *_: Any) -> NoReturn:
        raise UsageError(
            "an entry of run.config cannot be removed: it is recorded. Set it to None instead."
        )

    __delitem__ = pop = popitem = clear = _refuse


def record_config(recorder: Recorder, values: Mapping[str, Any], *, show: bool = False) -> None:
    """Write one ``option`` record per entry, without secrets; ``show`` prints them as a table."""
    plain = plain_json(values)
    if not isinstance(plain, dict):
        raise ValueTypeError("set_config takes a mapping of names to values.")
    recorded = _write_options(recorder, plain)
    recorder.config._take(plain)
    if show and recorder.rank == 0:
        recorder.reporter.options(recorded)


def _write_options(recorder: Recorder, plain: dict[str, Any]) -> dict[str, Any]:
    recorded = recorder.redactor.config(plain)
    for key, value in recorded.items():
        recorder.write({"log": "option", "t": now(), "name": key, "value": value})
    if (told := recorder.redactor.notice()) is not None:
        recorder.console.notice(told)
    return recorded


class _Entry:
    """One entry of a configuration, which nested dicts and lists belong to."""

    def __init__(self, recorder: Recorder, key: str) -> None:
        self._recorder, self._key = recorder, key
        self._value: Any = None

    def watch(self, value: Any) -> Any:
        """Return the entry's value; a change inside it is recorded from now on."""
        self._value = self._watched(value)
        return self._value

    def check_open(self) -> None:
        """Raise when the run takes no change."""
        self._recorder.check_open()

    def record(self) -> None:
        """Record the whole entry after a change; what came in is made plain and watched."""
        self._adopt(self._value)
        _write_options(self._recorder, {self._key: _plain(self._value)})

    def _watched(self, value: Any) -> Any:
        watched: _Dict | _List
        if isinstance(value, dict):
            watched = _Dict({key: self._watched(inner) for key, inner in value.items()})
        elif isinstance(value, list):
            watched = _List(self._watched(inner) for inner in value)
        else:
            return value
        watched._entry = self
        return watched

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


class _Dict(_Entries):
    """A nested mapping; a change records the entry it belongs to."""

    _entry: _Entry

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (_plain(self),)


class _List(list[Any]):
    """A nested list; a change records the entry it belongs to."""

    _entry: _Entry

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (_plain(self),)


_OF_DICTS = "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
_OF_LISTS = (
    "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort"
)


def _recording(method: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: _Dict | _List, *args: Any, **options: Any) -> Any:
        self._entry.check_open()
        given = method(self, *args, **options)
        self._entry.record()
        return given

    return change


for _kind, _base, _names in ((_Dict, dict, _OF_DICTS), (_List, list, _OF_LISTS)):
    for _name in _names.split():
        setattr(_kind, _name, _recording(getattr(_base, _name)))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
