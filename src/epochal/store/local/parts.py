"""Keeps the parts of a run: journals are read on as they grow, segments column by column."""

from __future__ import annotations

from epochal.errors import FormatError
from epochal.journal.layout import PartName
from epochal.journal.reader import NewerFormatError, ShorterFileError, records_lost
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.listing import LINK_OUT, FoundPart, Listing, Stat
from epochal.store.local.part import Part
from epochal.store.local.sealed import SealedPart
from epochal.store.local.spill import SpillFile
from epochal.store.local.tail import TailedPart


class LoadedParts:
    """The parts of one run as they were last read."""

    def __init__(self, held: MemoryBudget) -> None:
        self._held = held
        self._parts: dict[PartName, Part] = {}
        # Columns of all journal parts that are too large for memory.
        self._spill: SpillFile | None = None
        self._num_journals = 0
        # The file, size and time of the segment that each sealed part was read from.
        self._sealed: dict[PartName, FoundPart] = {}
        self._damaged: dict[FoundPart, str] = {}
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
        """How much of the parts is in memory."""
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
        self._num_journals = len(listing.journal)
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
        """Close every part."""
        for name in list(self._parts):
            self._drop(name)
        self._spill = None

    def _drop(self, name: PartName) -> None:
        self._parts.pop(name).close()
        self._sealed.pop(name, None)

    def _poll_part(self, name: PartName, listing: Listing) -> bool:
        journal, segment = listing.journal.get(name), listing.sealed.get(name)
        if segment is not None and self._use_segment(name, segment, journal):
            return True
        if name in self._sealed and self._sealed[name] == segment:
            return False
        if journal is None:
            if segment is not None:
                self._problem(segment)
            return False
        if self._use_copy(name, journal):
            return True
        return self._tail(name, journal)

    def _use_segment(self, name: PartName, segment: FoundPart, journal: FoundPart | None) -> bool:
        """Whether a segment replaced the part that was read before."""
        if self._sealed.get(name) == segment or segment in self._damaged:
            return False
        if journal is not None and not self._is_complete(segment, journal.stat):
            return False
        return self._seal(name, segment, check=journal is not None)

    def _use_copy(self, name: PartName, journal: FoundPart) -> bool:
        cached = self._held.cached
        path = None if cached is None else cached.find(journal, name)
        if path is None:
            return False
        copy = FoundPart(path, journal.stat)
        if self._sealed.get(name) == copy or copy in self._damaged:
            return False
        return self._seal(name, copy, check=True)

    def _seal(self, name: PartName, segment: FoundPart, *, check: bool) -> bool:
        try:
            part = SealedPart(segment.path, name, self._held.segments, check=check)
        except NewerFormatError:
            raise
        except (FormatError, FileNotFoundError) as error:
            self._damaged[segment] = str(error)
            return False
        known = self._parts.get(name)
        if known is not None:
            known.close()
        self._parts[name], self._sealed[name] = part, segment
        return True

    def _tail(self, name: PartName, journal: FoundPart) -> bool:
        part = self._parts.get(name)
        if name in self._sealed and self._sealed[name].stat == journal.stat:
            return False  # a copy in the cache, of the part as it still is
        if not isinstance(part, TailedPart) or part.path != journal.path:
            part = self._new_tail(name, journal)
        elif journal.stat.size == part.offset:
            return False
        try:
            part.poll()
        except ShorterFileError:
            before = part.facts.num_records
            part = self._new_tail(name, journal)
            part.poll()
            lost = max(before - part.facts.num_records, 0)
            self._losses[name] = records_lost(journal.path, lost)
        self._parts[name] = part
        self._sealed.pop(name, None)
        return True

    def _new_tail(self, name: PartName, journal: FoundPart) -> TailedPart:
        if self._spill is None:
            cached = self._held.cached
            self._spill = SpillFile(None if cached is None else cached.spill_folder)
        self._spill.share_among(self._num_journals)
        return TailedPart(journal.path, name, spill=self._spill, shapes=self._held.shapes)

    def _is_complete(self, segment: FoundPart, journal: Stat) -> bool:
        """Whether a segment contains all of a journal part that still exists."""
        try:
            return self._held.segments.at(segment.path).journal_bytes >= journal.size
        except (FormatError, FileNotFoundError) as error:
            self._damaged[segment] = str(error)
            return False

    def _problem(self, segment: FoundPart) -> None:
        reason = self._damaged.get(segment)
        if reason is not None:
            self.problems.append(reason)
