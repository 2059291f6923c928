"""``run.summary`` with the interface of ``wandb.Summary``, over the summary of an Epochal run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.run.run import Run


class Summary:
    """The last value of each metric, and what the program sets, which wins."""

    def __init__(self, run: Run) -> None:
        object.__setattr__(self, "_run", run)

    def __getitem__(self, key: str) -> Any:
        return self._run.summary[key]

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
        return key in self._run.summary

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
        return self._run.summary.get(key, default)

    def update(self, d: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set entries; they are recorded, and win over the last values."""
        self._run.summary.update({**(d or {}), **more})

    def _as_dict(self) -> dict[str, Any]:
        return dict(self._run.summary)
