"""``run.summary`` with the interface of ``wandb.Summary``, over the summary of an Epochal run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from epochal.run.run import Run
from epochal.wandb.summary_values import SummaryValues


class Summary(MutableMapping[str, Any]):
    """The last value of each metric, and what the program sets, which wins."""

    def __init__(self, run: Run, values: SummaryValues) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_set", set())

    def __getitem__(self, key: str) -> Any:
        # What was set comes from the run itself, so that changes inside it are recorded.
        return self._run.summary[key] if key in self._set else self._as_dict()[key]

    def __delitem__(self, key: str) -> None:
        del self._run.summary[key]
        self._set.discard(key)

    def __delattr__(self, key: str) -> None:
        del self[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    __setattr__ = __setitem__

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        try:
            return self[key]
        except KeyError:
            raise AttributeError(f"the summary has no entry {key!r}.") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_dict())

    def __len__(self) -> int:
        return len(self._as_dict())

    def __repr__(self) -> str:
        return repr(self._as_dict())

    def update(self, d: Mapping[str, Any] | None = None, **more: Any) -> None:  # type: ignore[override]
        """Set entries; they are recorded, and win over the last values."""
        given = {**(d or {}), **more}
        self._run.summary.update(given)
        self._set.update(given)

    def _as_dict(self) -> dict[str, Any]:
        merged: dict[str, Any] = self._values.merged(self._run.summary.copy(), self._set)
        return merged
