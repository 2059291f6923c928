"""``run.config`` with the interface of ``wandb.Config``, over the configuration of an Epochal run.

A value that is there already changes only with ``allow_val_change``, as W&B has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from epochal.records.values import plain_json
from epochal.wandb.errors import ConfigError
from epochal.wandb.notices import ByAttribute, say_once

if TYPE_CHECKING:
    from epochal.run.run import Run


class Config(ByAttribute):
    """Entries by attribute and by item; a change is recorded in the run."""

    def __init__(self, run: Run | None = None, *, allow_val_change: bool = False) -> None:
        object.__setattr__(self, "_entries", {} if run is None else run.config)
        object.__setattr__(self, "_allow", allow_val_change)
        object.__setattr__(self, "_locked", {})

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._set({key: value}, None)

    def __delitem__(self, key: str) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._entries if not key.startswith("_"))

    def as_dict(self) -> dict[str, Any]:
        """A plain dict, whose changes are not recorded."""
        return dict(self._entries.copy())

    def update(self, d: Any, allow_val_change: bool | None = None) -> None:  # type: ignore[override]
        """Set several entries: of a dict, a namespace, flags, or a YAML file's path."""
        self._set(parse_config(d), allow_val_change)

    def setdefaults(self, d: Any) -> None:
        """Set the entries that are not there yet."""
        self._set({k: v for k, v in parse_config(d).items() if k not in self._entries}, None)

    def _set(self, values: Mapping[str, Any], allow_val_change: bool | None) -> None:
        allowed = self._allow if allow_val_change is None else allow_val_change
        entries, changed = self._entries, {}
        for given, value in values.items():
            key = str(given).strip("-")
            if key in self._locked:
                by = self._locked[key]
                say_once(f"config entry {key!r} was set by {by}; another value is ignored.")
                continue
            plain = plain_json(value)
            if key in entries and entries[key] == plain:
                continue
            if key in entries and not allowed:
                raise ConfigError(
                    f"config entry {key!r} is {entries[key]!r} and would become {plain!r}: pass"
                    " allow_val_change=True to config.update() or to init()."
                )
            changed[key] = plain
        if changed:
            entries.update(changed)


def parse_config(given: Any, exclude: Any = None, include: Any = None) -> dict[str, Any]:
    """A dict, a namespace, flags or the path of a YAML file as a dict of entries."""
    if given is None:
        entries: dict[str, Any] = {}
    elif isinstance(given, (str, Path)):
        entries = config_file(Path(given))
    elif callable(flags := getattr(given, "flag_values_dict", None)):
        entries = dict(flags())
    elif hasattr(given, "keys"):
        entries = {key: given[key] for key in given.keys()}  # noqa: SIM118 (may be no mapping)
    else:
        entries = dict(vars(given))
    wanted = entries if include is None else include
    return {key: entries[key] for key in wanted if key in entries and key not in (exclude or ())}


def config_file(path: Path) -> dict[str, Any]:
    """The entries of a YAML file, plain or as W&B writes them (``lr: {value: 0.1}``)."""
    from epochal.run.request import config_entries

    def value_of(entry: Any) -> Any:
        is_described = isinstance(entry, dict) and "value" in entry
        return entry["value"] if is_described and set(entry) <= {"value", "desc"} else entry

    entries = config_entries(path)
    return {key: value_of(entry) for key, entry in entries.items() if key != "wandb_version"}
