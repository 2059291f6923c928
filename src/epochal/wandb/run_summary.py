"""``run.summary`` with the interface of ``wandb.Summary``, over the summary of an Epochal run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.run.run import Run
from epochal.wandb.summary_values import SummaryValues


class Summary:
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

    def __contains__(self, key: object) -> bool:
        return key in self._as_dict()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __repr__(self) -> str:
        return repr(self._as_dict())

    def keys(self) -> list[str]:
        """The names of the entries."""
        return list(self._as_dict())

    def values(self) -> list[Any]:
        """The values of the entries."""
        return list(self._as_dict().values())

    def items(self) -> list[tuple[str, Any]]:
        """The entries."""
        return list(self._as_dict().items())

    def get(self, key: str, default: Any = None) -> Any:
        """The value of an entry, or a default."""
        try:
            return self[key]
        except KeyError:
            return default

    def update(self, d: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set entries; they are recorded, and win over the last values."""
        given = {**(d or {}), **more}
        self._run.summary.update(given)
        self._set.update(given)

    def _as_dict(self) -> dict[str, Any]:
        merged: dict[str, Any] = self._values.merged(self._run.summary.copy(), self._set)
        return merged
