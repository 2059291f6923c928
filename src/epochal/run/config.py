"""A run's configuration as the program sees it: a dict whose changes are recorded.

Setting a key writes an ``option`` record. A change inside a nested dict or list records the whole
entry it belongs to. An entry cannot be removed: what was recorded stays recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.values import plain_json

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder


class RunConfig(dict[str, Any]):
    """What ``run.config`` returns. It starts with the entries of the run's identity."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._take(recorder.identity.get("config") or {})

    def _take(self, values: Mapping[str, Any]) -> None:
        """Hold entries that are recorded already."""
        for key, value in values.items():
            super().__setitem__(key, _watched(value, partial(self._record_entry, key)))

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

    def _record_entry(self, key: str, value: Any) -> None:
        self._record({key: value})

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
    recorded = recorder.redactor.config(plain)
    for key, value in recorded.items():
        recorder.write({"log": "option", "t": now(), "name": key, "value": value})
    recorder.config._take(plain)
    if show and recorder.rank == 0:
        recorder.reporter.options(recorded)
    if (told := recorder.redactor.notice()) is not None:
        recorder.console.notice(told)


class _Dict(dict[str, Any]):
    """A nested mapping; a change records the entry it belongs to."""

    changed: Callable[[], None]

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (_plain(self),)


class _List(list[Any]):
    """A nested list; a change records the entry it belongs to."""

    changed: Callable[[], None]

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (_plain(self),)


_OF_DICTS = "__setitem__ __delitem__ __ior__ clear pop popitem setdefault update"
_OF_LISTS = (
    "__setitem__ __delitem__ __iadd__ __imul__ append clear extend insert pop remove reverse sort"
)


def _recording(method: Callable[..., Any]) -> Callable[..., Any]:
    def change(self: _Dict | _List, *args: Any, **options: Any) -> Any:
        given = method(self, *args, **options)
        self.changed()
        return given

    return change


for _kind, _base, _names in ((_Dict, dict, _OF_DICTS), (_List, list, _OF_LISTS)):
    for _name in _names.split():
        setattr(_kind, _name, _recording(getattr(_base, _name)))


def _watched(value: Any, record: Callable[[Any], None]) -> Any:
    """Return a value whose nested dicts and lists call ``record`` with the whole on a change."""
    if not isinstance(value, (dict, list)):
        return value
    top: list[Any] = []

    def watch(part: Any) -> Any:
        watched: _Dict | _List
        if isinstance(part, dict):
            watched = _Dict({key: watch(inner) for key, inner in part.items()})
        elif isinstance(part, list):
            watched = _List(watch(inner) for inner in part)
        else:
            return part
        watched.changed = lambda: record(_plain(top[0]))
        return watched

    top.append(watch(value))
    return top[0]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list) else value
