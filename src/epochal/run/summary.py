"""What a run came to, as the program sees it: ``run.summary``.

A metric has the value of its last step, read from the run's own journal when it is asked for;
logging keeps nothing for it. What the program sets itself is a ``summary`` record. It wins over
what was logged, here and in every view, until it is deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from typing import Any

from epochal.base.guard import called_by_program
from epochal.errors import ValueTypeError
from epochal.journal.line import now
from epochal.records import Record, numbers_of
from epochal.records.values import as_float, plain_json
from epochal.run.config import Attributes, plain, watched
from epochal.run.own_records import OwnRecords
from epochal.run.writing import RunWriter


class RunSummary(Attributes, MutableMapping[str, Any]):
    """What ``run.summary`` returns: a mapping, and its entries as attributes."""

    def __init__(self, recorder: RunWriter) -> None:
        self._recorder = recorder
        self._journal = _LastValues()
        # What this process set; a run that is switched off has no journal to read it from.
        self._set: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else self._read()[name]

    @called_by_program("run.summary", lambda summary: summary._recorder.guard)
    def __setitem__(self, name: str, value: Any) -> None:
        known: Any = name
        if not isinstance(known, str) or not known:
            raise ValueTypeError(f"a name of run.summary must be a text, not {name!r}.")
        given, record = plain_json(value), partial(self._record, name)
        record(given)
        self._set[name] = watched(given, self._recorder.check_open, record)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._recorder.write({"log": "summary", "t": now(), "name": name, "deleted": True})
        self._set.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._read(), **self._set})

    def __len__(self) -> int:
        return len({**self._read(), **self._set})

    def copy(self) -> dict[str, Any]:
        """A plain dict of all values as they are now."""
        return {**self._read(), **plain(self._set)}

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def _record(self, name: str, value: Any) -> None:
        self._recorder.write({"log": "summary", "t": now(), "name": name, "value": value})

    def _read(self) -> Mapping[str, Any]:
        self._recorder.flush_values()
        return self._journal.read(self._recorder)


class _LastValues:
    """The last values of a rank's metrics and its ``summary`` records; reads on when asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._records = OwnRecords()
        # By metric, its value at the highest step of the newest attempt that logged it.
        self._last: dict[str, tuple[tuple[int, float], float]] = {}
        self._set: dict[str, Any] = {}

    def read(self, recorder: RunWriter) -> dict[str, Any]:
        with self._lock:
            for attempt, records in self._records.read(recorder):
                for record in records:
                    self._take(attempt, record)
            last = {name: value for name, (_, value) in self._last.items()}
            return {**last, **self._set}

    def _take(self, attempt: int, record: Record) -> None:
        if record["log"] == "summary":
            name = str(record.get("name"))
            self._set[name] = record.get("value")
            if record.get("deleted"):
                del self._set[name]
            return
        at = record.get("step", record.get("epoch"))
        place = (attempt, as_float(at) if isinstance(at, (int, float)) else 0.0)
        is_plain = record["log"] == "metrics" and "nonfinite" not in record
        for name, value in record["m"].items() if is_plain else numbers_of(record):
            if name not in self._last or place >= self._last[name][0]:
                self._last[name] = (place, value)
