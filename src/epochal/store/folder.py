"""A run in a run folder: its parts are read on as they grow, its other files when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from epochal.errors import FormatError, UsageError
from epochal.exchange.imports.converting import ConvertedRun
from epochal.journal.blobs import RAW
from epochal.journal.fold import RunMetrics
from epochal.journal.labels import LabelsEdit, edit_labels
from epochal.journal.layout import PartName, RunFolder, SearchBounds
from epochal.journal.part import SealedPart
from epochal.journal.reader import NewerFormatError, ShorterFileError
from epochal.journal.row import Labels, RunRow
from epochal.journal.state import Part
from epochal.journal.summaries import carried_summary, covers, read_metrics
from epochal.journal.tail import TailedPart
from epochal.store.listing import LINK_OUT, Aside, File, Listing, is_orphan, orphaned_ranks
from epochal.store.run_files import Identity


class LoadedParts:
    """The parts of one run as they were last read."""

    def __init__(self) -> None:
        self._parts: dict[PartName, Part] = {}
        # The file, size and time of the segment that each sealed part was read from.
        self._sealed: dict[PartName, File] = {}
        self._damaged: dict[File, str] = {}
        # Sentences about parts that became shorter.
        self._losses: dict[PartName, str] = {}
        self.problems: list[str] = []
        # A file disappeared while it was read: another look finds where the part is now.
        self.has_moved = False

    @property
    def all(self) -> list[Part]:
        """Every part, in no particular order."""
        return list(self._parts.values())

    @property
    def held_bytes(self) -> int:
        return sum(part.held_bytes for part in self._parts.values())

    def poll(self, listing: Listing) -> bool:
        """Read the files that are new or have grown; True when any part has changed.

        Raises ``NewerFormatError``; anything else that cannot be read is a problem.
        """
        self.problems = [] if listing.problem is None else [listing.problem]
        self.problems += [
            f"{n} {LINK_OUT}" for n in ("journal", "segments") if n in listing.refused
        ]
        self.has_moved = False
        names = {*listing.journal, *listing.sealed}
        if listing.problem is not None:
            return False
        changed = False
        for name in [name for name in self._parts if name not in names]:
            self._drop(name)
            changed = True
        for name in sorted(names):
            try:
                changed |= self._poll_part(name, listing)
            except NewerFormatError:
                raise
            except FileNotFoundError:
                self.has_moved = True
            except (OSError, FormatError) as error:
                self.problems.append(f"a part of the journal cannot be read: {error}")
        self.problems += self._losses.values()
        return changed

    def close(self) -> None:
        for name in list(self._parts):
            self._drop(name)

    def _drop(self, name: PartName) -> None:
        del self._parts[name]
        self._sealed.pop(name, None)

    def _poll_part(self, name: PartName, listing: Listing) -> bool:
        journal, segment = listing.journal.get(name), listing.sealed.get(name)
        if segment is not None and self._sealed.get(name) == segment:
            return False
        is_readable = segment is not None and segment not in self._damaged
        if segment is not None and is_readable and self._seal(name, segment, journal):
            return True
        if journal is not None:
            return self._tail(name, journal)
        if segment is not None and segment in self._damaged:
            self.problems.append(self._damaged[segment])
        return False

    def _seal(self, name: PartName, segment: File, journal: File | None) -> bool:
        """Whether a segment replaces the part that was read before."""
        try:
            part = SealedPart(Path(segment.path), name)
        except NewerFormatError:
            raise
        except (FormatError, FileNotFoundError) as error:
            self._damaged[segment] = str(error)
            return False
        if journal is not None and part.journal_bytes < journal.size:
            return False  # the journal part has grown since
        self._parts[name], self._sealed[name] = part, segment
        return True

    def _tail(self, name: PartName, journal: File) -> bool:
        part, path = self._parts.get(name), Path(journal.path)
        if not isinstance(part, TailedPart) or part.path != path:
            part = TailedPart(path, name)
        elif journal.size == part.offset:
            return False
        try:
            part.poll()
        except ShorterFileError:
            part = TailedPart(path, name)
            part.poll()
            what = "became shorter while the run was being read: some of its records are gone."
            self._losses[name] = f"{path.name} {what}"
        self._parts[name] = part
        self._sealed.pop(name, None)
        return True


# A part may be sealed between a look and the reading; each look finds at least one of them settled.
_LOOKS = 100


class Origin(Protocol):
    """A run of another machine that a folder has a copy of; its row comes from there.

    Each method raises ``RunNotFoundError`` where the run is gone, and what a connection raises.
    """

    @property
    def row(self) -> RunRow:
        """The row as it was told last."""

    def read_row(self) -> RunRow:
        """The row of a run that the other machine has summarised; it does so now where needed."""

    def read_metrics(self) -> RunMetrics | None:
        """The series of the run as of its row; None where only its records tell them."""

    def ask(self) -> bool:
        """Ask for the row again; True when the run has changed."""

    def fetch(self) -> None:
        """Fetch what is new into the folder; no blobs."""

    def fetch_blob(self, file: str) -> None:
        """Fetch a blob into the folder, if there is one of this name."""

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels that are stored there."""


class FolderSource:
    """A run folder; ``asides`` are parts that ranks wrote elsewhere for it.

    ``converted`` follows the files of another tracker and writes the folder. With an ``origin``,
    the folder is a copy, and each look fetches what is new.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        asides: Sequence[Aside] = (),
        bounds: SearchBounds | None = None,
        converted: ConvertedRun | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.place = str(path)
        self.converted = converted
        self.origin = origin
        # What the original of a converted run looked like at the last look.
        self._original: str | None = None
        self._is_orphan = is_orphan(self.place)
        self._bounds = SearchBounds(self.place) if bounds is None else bounds
        self.asides = asides
        self._listing: Listing | None = None

    # Made when they are asked for: most runs of a list are known from the index.
    @cached_property
    def _parts(self) -> LoadedParts:
        return LoadedParts()

    @cached_property
    def _identity(self) -> Identity:
        return Identity(self.place)

    @property
    def folder(self) -> RunFolder:
        """The paths inside the folder."""
        return RunFolder(Path(self.place))

    @property
    def path(self) -> Path:
        """The folder, or the file or folder of another tracker that it was converted from."""
        return Path(self.place) if self.converted is None else self.converted.path

    @property
    def tracker(self) -> str | None:
        return None if self.converted is None else self.converted.tracker

    def look(self) -> None:
        """List the folder; of a converted run, look at the original as well."""
        if self.origin is not None:
            self.origin.fetch()
        if self.converted is not None:
            self._original = self.converted.look()
        self._listing = Listing(self.place, self.asides, bounds=self._bounds)

    def _convert(self) -> None:
        """Have the folder of a converted run follow its original, and list it again."""
        if self.converted is not None and not self.converted.is_current:
            self.converted.refresh()
            self._listing = Listing(self.place, bounds=self._bounds)

    @property
    def listing(self) -> Listing:
        """The files there were at the last look."""
        if self._listing is None:
            self.look()
            assert self._listing is not None
        return self._listing

    @property
    def signature(self) -> str | None:
        """Of the files there were at the last look; of the original and labels if converted."""
        if self._listing is None:
            return None
        if self.converted is not None:
            return f"{self._original}{self._listing.labels}"
        return self._listing.signature

    @property
    def is_settled(self) -> bool:
        """Whether the beginning of the signature tells a later change of a run that has ended."""
        is_whole = not self.asides and not self._is_orphan and self.converted is None
        return is_whole and self.listing.is_settled

    @property
    def newest_s(self) -> float:
        if self.converted is None:
            return self.listing.newest_s
        labels = self.listing.labels
        return max(self.converted.changed, 0 if labels is None else labels.mtime_ns / 1e9)

    @property
    def run_json(self) -> Mapping[str, Any]:
        """The content of run.json; a run that is not converted yet has its identity as well."""
        if self.converted is not None:
            return self.converted.run_json()
        return self._identity.run_json(self.listing)

    @property
    def labels(self) -> Labels:
        """The content of labels.json."""
        return self._identity.labels(self.listing)

    @property
    def carried(self) -> RunRow | None:
        """What the run says of itself; None unless that is still so.

        The folder is asked alone: a run with parts in other places is read.
        """
        listing = self.listing
        if listing.summary is None or listing.identity is None or self.converted is not None:
            return None
        if self.asides or self._is_orphan or listing.problem is not None or listing.refused:
            return None
        row = carried_summary(self.place, listing.identity[1:3])
        if row is None:
            return None
        marks = row.positions
        if not marks:
            known = read_metrics(self.place)
            marks = {} if known is None else known.marks
        sizes = {name: part.size for name, part in listing.journal.items()}
        return row if covers(marks, sizes, listing.sealed) else None

    @property
    def label_problem(self) -> str | None:
        """What is wrong with labels.json, if anything."""
        return next(iter(self._identity.problems(self.listing, of_labels=True)), None)

    def identity_problems(self) -> list[str]:
        """What is wrong with run.json and labels.json."""
        return self._identity.problems(self.listing)

    @property
    def problems(self) -> Sequence[str]:
        """Of the small files and of the parts."""
        if self._is_orphan:
            return [self._without_rank_zero(), *self._parts.problems]
        return [*self.identity_problems(), *self._parts.problems]

    def _without_rank_zero(self) -> str:
        ranks = orphaned_ranks(self.folder.all_parts())
        one = len(ranks) == 1
        who = f"rank{'' if one else 's'} {', '.join(map(str, ranks))}"
        return (
            f"{who} wrote without rank 0, which started no run within its wait; the records of"
            f" rank {ranks[0] if ranks else 0} are shown in its place."
        )

    @property
    def is_newer(self) -> bool:
        self._identity.run_json(self.listing)
        return self._identity.newer_format is not None

    @property
    def unsealed_bytes(self) -> int:
        """The size of the journal parts, or of an original that is not converted yet."""
        if self.converted is not None and not self.converted.is_current:
            return self.converted.size_bytes
        return self.listing.unsealed_bytes

    def poll(self) -> bool:
        self._convert()
        if self.is_newer:
            return False
        try:
            changed = self._parts.poll(self.listing)
            for _ in range(_LOOKS):
                if not self._parts.has_moved:
                    break
                self.look()  # sealed since the last look
                changed |= self._parts.poll(self.listing)
        except NewerFormatError as error:
            self._parts.close()
            self._identity.newer_format = str(error)
            return True
        return changed

    @property
    def parts(self) -> Sequence[Part]:
        return self._parts.all

    @property
    def held_bytes(self) -> int:
        return self._parts.held_bytes

    def blob_path(self, file: str) -> Path:
        if Path(file).name != file:
            raise UsageError(f"blob {file!r} is not the name of a file.")
        if self.origin is not None:
            self.origin.fetch_blob(file)
        path = self.folder.blobs / file
        # A link could lead out of the folder, and a pipe would wait for somebody to write to it.
        for either in (path, self.folder.blobs / f"{file}{RAW}"):
            if either.is_symlink() or (either.exists() and not either.is_file()):
                raise UsageError(f"blob {file!r} is not a file.")
        if not self._bounds.allows(path):
            raise UsageError(f"blob {file!r} lies outside of the searched folder.")
        return path

    def relabel(self, edit: LabelsEdit) -> None:
        if self.origin is not None:
            self.origin.relabel(edit)
            return
        if self.converted is not None and not self.converted.is_kept:
            raise UsageError(
                f"{self.run_json.get('name')!r} lies in files of {self.tracker}, which are only"
                " read, and there is no cache folder for its labels: 'epochal import' makes a copy"
                " that can be changed."
            )
        self.folder.path.mkdir(exist_ok=True)
        edit_labels(self.folder, edit)

    def close(self) -> None:
        self._parts.close()
