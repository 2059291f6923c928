"""Reads what companions saw of a run's machines a moment ago."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder, read_json
from epochal.store.answers import Machine

# A companion writes every second; what is older was left behind by one that was killed.
STALE_S = 5.0
# GPUs are read every second, the host every five; one that fell silent is not to look alive.
_SILENT_S = 15.0


def read_machines(folder: RunFolder, *, now: float) -> list[Machine]:
    """The machines of a run that are being read now, by rank; none when nobody reads them."""
    try:
        files = sorted(folder.live.iterdir())
    except OSError:  # most runs have ended, or have no companion
        return []
    found = [_machine(read) for file in files if (read := _read(folder, file.name)) is not None]
    fresh = [one for one in found if one is not None and abs(now - one.t) <= STALE_S]
    return sorted(fresh, key=lambda one: (one.rank, one.node))


def _read(folder: RunFolder, name: str) -> dict[str, Any] | None:
    if not name.endswith(".json"):
        return None
    try:
        return read_json(folder.live / name)
    except (OSError, FormatError):  # gone, or met in the middle of a write: the next look finds it
        return None


def _machine(said: dict[str, Any]) -> Machine | None:
    t, node, rank, gpus = (said.get(name) for name in ("t", "node", "rank", "gpus"))
    if not isinstance(t, (int, float)) or not isinstance(node, str) or not isinstance(rank, int):
        return None
    listed = [_plain(gpu) for gpu in gpus] if isinstance(gpus, list) else []
    system = _plain(said.get("system"))
    return Machine(
        node=node,
        rank=rank,
        t=float(t),
        gpus=tuple(gpu for gpu in listed if "id" in gpu and _is_read(gpu, t)),
        system=system if _is_read(system, t) else {},
    )


def _is_read(fields: Mapping[str, float | str], now: float) -> bool:
    """Whether it was read lately; files of older versions do not say when."""
    t = fields.get("t")
    return not isinstance(t, (int, float)) or now - t <= _SILENT_S


def _plain(fields: Any) -> dict[str, float | str]:
    if not isinstance(fields, dict):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
