"""Encodes the pictures and videos that the training process has written as raw pixels."""

from __future__ import annotations

from epochal.journal.layout import RunFolder

# The companion's other tasks wait no longer than this.
_LOOK_S = 0.5


class SampleEncoding:
    """Encodes what waits, a little at a time; after the run it is one of the last jobs."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._seen: int | None = None
        self._is_done = True

    @property
    def command(self) -> str:
        return f"epochal manage repair {self._folder.path}"

    def look(self) -> None:
        """Encode for a moment, if anything was stored since the last time."""
        try:
            changed = self._folder.blobs.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if changed != self._seen or not self._is_done:
            self._seen = changed
            self.go_on()

    def go_on(self) -> bool:
        if self._folder.blobs.is_dir():
            from epochal.journal.blobs import encode_pending  # which most runs have no use for

            self._is_done = encode_pending(self._folder, budget_s=_LOOK_S)
        return not self._is_done

    def stop(self) -> None:
        """Leave the rest: readers encode it when they need it."""

    def left(self) -> str | None:
        return None if self._is_done else "encoding the last pictures"
