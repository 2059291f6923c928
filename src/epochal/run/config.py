"""A run's configuration as the program sees it: a dict whose changes are recorded.

Setting a key writes an ``option`` record. A change inside a nested dict or list records the whole
entry it belongs to. An entry cannot be removed: what was recorded stays recorded.

Entries are attributes too: ``config.model.width = 64`` is ``config["model"]["width"] = 64``. Names
that a dict has itself (``items``, ``update``, …) are read as ``config["items"]``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from epochal.errors import UsageError, ValueTypeError
from epochal.journal.line import now
from epochal.run.watched import Entries, plain, watched
from epochal.values import plain_json

if TYPE_CHECKING:
    from epochal.run.recorder import Recorder


class RunConfig(Entries):
    """What ``run.config`` returns. It starts with the entries of the run's identity."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._take(recorder.identity.get("config") or {})

    def _take(self, values: Mapping[str, Any]) -> None:
        """Hold entries that are recorded already."""
        for key, value in values.items():
            record = partial(self._record_entry, key)
            super().__setitem__(key, watched(value, self._recorder.check_open, record))

    def __setitem__(self, key: str, value: Any) -> None:
        record_config(self._recorder, {key: value})

    def update(self, *others: Any, **values: Any) -> None:
        """Set several entries; one record each."""
        record_config(self._recorder, dict(*others, **values))

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


def record_config(recorder: Recorder, values: Mapping[str, Any], *, show: bool = False) -> None:
    """Write one ``option`` record per entry, without secrets; ``show`` prints them as a table."""
    given = plain_json(values)
    if not isinstance(given, dict):
        raise ValueTypeError("the configuration is a mapping of names to values.")
    recorded = _write_options(recorder, given)
    recorder.config._take(given)
    if show and recorder.rank == 0:
        recorder.reporter.options(recorded)


def _write_options(recorder: Recorder, given: dict[str, Any]) -> dict[str, Any]:
    recorded = recorder.redactor.config(given)
    for key, value in recorded.items():
        recorder.write({"log": "option", "t": now(), "name": key, "value": value})
    recorder.redactor.notice(recorder.console.notice)
    return recorded
