"""Parts that were deleted while the writer had them open, and what still arrives in them.

A thread that is inside ``write`` while the writer moves to a new file finishes in the file it began
with, after whatever was read from there. If that file was deleted, its record is then in no file
that has a name. So the descriptor is kept for some seconds, and the lines that come late are
written again.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from epochal.journal.regular_file import close_if_same, file_id, read_from, status_if_same

# Far longer than a write stays in the kernel, even where threads wait long for a core; not longer,
# because the disk gets the space of the deleted file back only then.
_QUIET_S = 5.0
# The end waits this long for a write in flight, and again for as long as some come.
_LAST_WAIT_S = 0.02

WriteLine = Callable[[bytes], bool]


class OrphanedPart:
    """A part the writer leaves: its descriptor, and how much of it needs no copying any more."""

    def __init__(self, descriptor: int, *, copied: int) -> None:
        self._descriptor = descriptor
        self._file_id = file_id(descriptor)
        self._copied = copied
        self._quiet_since = time.monotonic()

    def is_deleted(self) -> bool:
        """Whether the file has no name any more."""
        status = status_if_same(self._descriptor, self._file_id)
        return status is not None and status.st_nlink == 0

    def is_quiet(self, at: float) -> bool:
        """Whether, at a monotonic time, nothing has come for so long that nothing will."""
        return at - self._quiet_since >= _QUIET_S

    def take(self) -> bytes:
        """The whole lines that have not been copied, which the caller copies now."""
        rest = self._rest()
        text = rest[: rest.rfind(b"\n") + 1]
        self.mark_copied(len(text))
        return text

    def lines(self, *, ended: bool = False) -> list[bytes]:
        """The lines that have not been copied; when writing has ``ended``, a cut last one as well.

        Before that, a line without its newline may be half of one: a long write can be seen page
        by page.
        """
        *whole, cut = self._rest().split(b"\n")
        if ended and cut:
            whole.append(cut)
        return [line + b"\n" for line in whole]

    def mark_copied(self, size: int) -> None:
        """So many bytes more need no copying."""
        self._copied += size
        self._quiet_since = time.monotonic()

    def close(self) -> None:
        """Let the file go."""
        close_if_same(self._descriptor, self._file_id)

    def _rest(self) -> bytes:
        if status_if_same(self._descriptor, self._file_id) is None:
            return b""
        return read_from(self._descriptor, self._copied)


class DeletedParts:
    """The deleted parts in which a write may still be in flight; its caller holds a lock.

    ``write`` puts one line into the part of now, and says whether it is down. A line that is not
    stays where it is for the next time.
    """

    def __init__(self) -> None:
        self._parts: list[OrphanedPart] = []

    def adopt(self, part: OrphanedPart) -> None:
        """Keep a part that was left if it is deleted, else close it."""
        if part.is_deleted():
            self._parts.append(part)
        else:
            part.close()

    def collect(self, write: WriteLine, *, ended: bool = False) -> bool:
        """Write what has come, and close what is quiet or has ``ended``; whether any came."""
        has_come = False
        for part in tuple(self._parts):
            is_over = ended or part.is_quiet(time.monotonic())
            for line in part.lines(ended=is_over):
                if not write(line):
                    return has_come
                part.mark_copied(len(line))
                has_come = True
            if is_over:
                self._parts.remove(part)
                part.close()
        return has_come

    def finish(self, write: WriteLine) -> int:
        """Wait for writes in flight and close everything; how many lines could not be written."""
        is_growing = bool(self._parts)
        while is_growing:
            self.collect(write)
            time.sleep(_LAST_WAIT_S)
            is_growing = self.collect(write)
        self.collect(write, ended=True)
        unsaved = sum(len(part.lines(ended=True)) for part in self._parts)
        self.close()
        return unsaved

    def close(self) -> None:
        """Let all of them go as they are."""
        for part in self._parts:
            part.close()
        self._parts.clear()
