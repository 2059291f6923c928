"""The parts that a writer has left, until the disk itself has them.

A part is left when it is full, and when ``fsync`` of it has failed. After a failure the kernel
takes the data for written, so that ``fsync`` of the same file succeeds from then on: the part is
written again, as a new file under the same name with the same bytes. So whoever has read or sent a
beginning of it goes on where they were, and no record is counted twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

from epochal.base.atomic_file import rewrite
from epochal.journal.deleted import OrphanedPart
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.regular_file import FileId, close_if_same, file_id, status_if_same


@dataclass(slots=True)
class UnsyncedPart:
    """A part, and a descriptor through which the kernel reports what it could not write."""

    name: PartName
    descriptor: int
    file_id: FileId
    has_failed: bool = False


class UnsyncedParts:
    """The parts of one writer that are not known to be on the disk; one caller at a time syncs."""

    def __init__(self) -> None:
        self._parts: list[UnsyncedPart] = []

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, name: PartName, descriptor: int, *, has_failed: bool = False) -> None:
        """Take over a descriptor of a part that gets no more records."""
        self._parts.append(UnsyncedPart(name, descriptor, file_id(descriptor), has_failed))

    def add_by_name(
        self, name: PartName, folder: RunFolder, expected: FileId, *, has_failed: bool
    ) -> None:
        """Add a part whose descriptor the program has closed, unless it is gone as well."""
        descriptor = _opened_again(name, folder, expected)
        if descriptor is not None:
            self.add(name, descriptor, has_failed=has_failed)

    def rename(self, attempt: int, first_part: int) -> None:
        """Follow a writer whose parts were moved."""
        for part in self._parts:
            part.name = part.name._replace(attempt=attempt, part=part.name.part + first_part)

    def sync(self, folder: RunFolder, *, at_most: int | None = None) -> OSError | None:
        """Wait until the disk has all parts, or the oldest; the first failure if there is one."""
        first: OSError | None = None
        for part in tuple(self._parts)[:at_most]:
            if part.has_failed:
                continue
            try:
                if self._find(part, folder):
                    os.fsync(part.descriptor)
            except OSError as error:
                part.has_failed = True
                first = first or error
            else:
                self._drop(part)
        return first

    def write_again(self, folder: RunFolder, adopt: Callable[[OrphanedPart], None]) -> None:
        """Write the parts that failed in new files; the old ones, which have no name now, go on.

        A write may still be in flight in them, so they go to ``adopt``. Raises OSError if a part
        fails again; the next call tries it again.
        """
        for part in tuple(self._parts):
            if not part.has_failed:
                continue
            if self._find(part, folder):
                size = rewrite(part.descriptor, folder.part_path(part.name), is_text=True)
                adopt(OrphanedPart(os.dup(part.descriptor), copied=size))
            self._drop(part)

    def close(self) -> None:
        """Let all of them go."""
        for part in tuple(self._parts):
            self._drop(part)

    def _find(self, part: UnsyncedPart, folder: RunFolder) -> bool:
        """Whether there is still something to sync: a part that was sealed has been deleted."""
        status = status_if_same(part.descriptor, part.file_id)
        if status is not None:
            return status.st_nlink > 0
        descriptor = _opened_again(part.name, folder, part.file_id)
        if descriptor is None:
            return False
        part.descriptor = descriptor
        return True

    def _drop(self, part: UnsyncedPart) -> None:
        self._parts.remove(part)
        close_if_same(part.descriptor, part.file_id)


def _opened_again(name: PartName, folder: RunFolder, expected: FileId) -> int | None:
    try:
        descriptor = os.open(folder.part_path(name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    if file_id(descriptor) == expected:
        return descriptor
    os.close(descriptor)
    return None
