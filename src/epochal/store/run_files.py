"""What lies beside a run's journal: run.json, labels.json and the newest readings of machines."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from epochal.errors import FormatError
from epochal.journal.labels import read_labels
from epochal.journal.layout import JsonFileError, RunFolder, read_json
from epochal.journal.row import NO_LABELS, Labels
from epochal.records import FORMAT_VERSION
from epochal.store.listing import LINK_OUT, Listing, Stat

_REMEDIES = {
    "run.json": "The run is listed by its journal; 'epochal manage repair' rebuilds that file.",
    "labels.json": "The run is listed without labels; fix or delete that file.",
}
# A companion writes every second; what is older was left behind by one that was killed.
STALE_S = 5.0
# GPUs are read every second, the host every five; one that fell silent is not to look alive.
_SILENT_S = 15.0


class Identity:
    """The content of run.json and labels.json, each read when it is asked for.

    A file that cannot be read gives a sentence. ``newer_format`` is the sentence about a run that a
    newer Epochal wrote: it is never half-read.
    """

    __slots__ = ("_labels", "_place", "_problems", "_run_json", "_seen", "newer_format")

    def __init__(self, place: str) -> None:
        self._place = place
        # By file name: what was read of it, and what is wrong with it.
        self._seen: dict[str, tuple[Stat | None, int]] = {}
        self._problems: dict[str, str | None] = {}
        self._run_json: dict[str, Any] = {}
        self._labels = NO_LABELS
        self.newer_format: str | None = None

    def run_json(self, listing: Listing) -> dict[str, Any]:
        """The content of run.json; empty where it cannot be read."""
        self._refresh("run.json", listing, (listing.identity, listing.inodes[0]))
        return self._run_json

    def labels(self, listing: Listing) -> Labels:
        """The content of labels.json."""
        self._refresh("labels.json", listing, (listing.labels, listing.inodes[1]))
        return self._labels

    def problems(self, listing: Listing, *, of_labels: bool = False) -> list[str]:
        """One sentence for each file that cannot be read, and those of a converted run's source."""
        self.labels(listing)
        if of_labels:
            return [*filter(None, [self._problems["labels.json"]])]
        source = self.run_json(listing).get("source")
        of_source = source.get("problems", ()) if isinstance(source, dict) else ()
        files = [self._problems[name] for name in _REMEDIES]
        return [*filter(None, [*files, *map(str, of_source), self.newer_format])]

    def _refresh(self, name: str, listing: Listing, file: tuple[Stat | None, int]) -> None:
        """Read a file unless it is as it was."""
        if self._seen.get(name) != file:
            self._seen[name] = file
            self._problems[name] = self._read(name, listing)

    def _read(self, name: str, listing: Listing) -> str | None:
        """Read one file; what is wrong with it, if anything."""
        try:
            if name in listing.refused:
                return f"{name} {LINK_OUT}"
            if name == "run.json":
                self._read_identity()
            else:
                self._labels = NO_LABELS
                if listing.labels is not None:  # most runs have none
                    self._labels = read_labels(RunFolder(Path(self._place)))
        except FileNotFoundError:
            return f"{name} is missing; 'epochal manage repair' can rebuild it."
        except JsonFileError as error:
            return f"{name} {error.fault}. {_REMEDIES[name]}"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror or error}. {_REMEDIES[name]}"
        return None

    def _read_identity(self) -> None:
        self._run_json = {}
        run_json = read_json(f"{self._place}/run.json")
        version = run_json.get("v", FORMAT_VERSION)
        if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
            self.newer_format = (
                f"run.json was written by a newer Epochal (format {str(version)[:20]}, this one"
                f" reads up to {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
            )
        self._run_json = run_json


def patch_file(run_json: Mapping[str, Any]) -> str | None:
    """The file with the changes that were not committed, as run.json names it."""
    git = run_json.get("git")
    file = git.get("patch") if isinstance(git, Mapping) else None
    return file if isinstance(file, str) and Path(file).name == file else None


class Machine(msgspec.Struct, frozen=True):
    """The newest readings of one machine; ``t`` is when they were written, in Unix seconds.

    ``gpus`` and ``system`` have the fields of ``gpu`` and ``system`` records, and a ``t`` of their
    own: when they were measured. Readings that are too old are left out.
    """

    node: str
    rank: int
    t: float
    gpus: tuple[Mapping[str, float | str], ...]
    system: Mapping[str, float | str]


def read_machines(folder: RunFolder, *, now: float) -> list[Machine]:
    """The newest readings of a run's machines, by rank; none when no companion measures them."""
    said: list[dict[str, Any]] = []
    for file in folder.live.glob("*.json"):
        # Gone, or met in the middle of a write: the next look finds it.
        with contextlib.suppress(OSError, FormatError):
            said.append(read_json(file))
    machines = [machine for one in said if (machine := _machine(one)) is not None]
    found = (machine for machine in machines if abs(now - machine.t) <= STALE_S)
    return sorted(found, key=lambda machine: (machine.rank, machine.node))


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
    """Whether it was measured lately, as far as it says."""
    t = fields.get("t")
    return not isinstance(t, (int, float)) or now - t <= _SILENT_S


def _plain(fields: Any) -> dict[str, float | str]:
    if not isinstance(fields, dict):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
