"""Reads the small files of a run, again only when they have changed."""

from __future__ import annotations

from typing import Any

from epochal.journal.layout import JsonFileError, RunFolder, read_json
from epochal.records import FORMAT_VERSION
from epochal.store.answers import Labels
from epochal.store.labels import read_labels
from epochal.store.listing import Listing, Stat

_REMEDIES = {
    "run.json": "The run is listed by its journal; 'epochal repair' rebuilds that file.",
    "labels.json": "The run is listed without labels; fix or delete that file.",
}

LINK_OUT = "is a link that leads out of the searched folder: --follow-links has it read."


class Identity:
    """What run.json and labels.json say; a file that cannot be read leaves a sentence.

    ``newer_format`` is the sentence about a run that a newer Epochal wrote: it is never half-read.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._listing: Listing | None = None
        self._seen: dict[str, Stat | None] = {}
        self._problems: dict[str, str] = {}
        self.said: dict[str, Any] = {}
        self.labels = Labels()
        self.newer_format: str | None = None

    @property
    def problems(self) -> list[str]:
        """What is wrong, in sentences."""
        found = list(self._problems.values())
        return found if self.newer_format is None else [*found, self.newer_format]

    def refresh(self, listing: Listing) -> None:
        """Read what is new."""
        if listing is self._listing:
            return
        self._listing = listing
        for what, stat, read in (
            ("run.json", listing.identity, self._read_identity),
            ("labels.json", listing.labels, self._read_labels),
        ):
            if what in self._seen and self._seen[what] == stat:
                continue
            self._seen[what] = stat
            self._problems.pop(what, None)
            if what in listing.refused:
                self._problems[what] = f"{what} {LINK_OUT}"
                continue
            try:
                read()
            except FileNotFoundError:
                self._problems[what] = f"{what} is missing; 'epochal repair' can rebuild it."
            except JsonFileError as error:
                self._problems[what] = f"{what} {error.fault}. {_REMEDIES[what]}"
            except OSError as error:
                reason = error.strerror or error
                self._problems[what] = f"{what} cannot be read: {reason}. {_REMEDIES[what]}"

    def _read_identity(self) -> None:
        self.said = {}
        said = read_json(self._folder.identity)
        version = said.get("v", FORMAT_VERSION)
        if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
            self.newer_format = (
                f"run.json was written by a newer Epochal (format {str(version)[:20]}, this one"
                f" reads up to {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
            )
        self.said = said

    def _read_labels(self) -> None:
        self.labels = Labels()
        self.labels = read_labels(self._folder)
