"""Has finished parts sealed and pictures encoded, parts by a process that takes its memory with it.

``python -m epochal.companion.sealing RUN_FOLDER STEM…`` is that process. It prints one JSON object:
the parts it could not seal, and why.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from epochal.errors import EpochalError
from epochal.journal.layout import PartName, RunFolder, parse_part_name
from epochal.journal.line import decode_json, encode_json
from epochal.journal.segments.parts import WORTH_SEALING_BYTES, sealable_parts

LOOK_EVERY_S = 60.0
_LESS_URGENT = 10


class Sealing:
    """Seals the parts of one run that nobody writes any more, one process at a time.

    ``failures`` has the parts that could not be sealed and why; they are not tried again until they
    have changed. After the run it is one of the last jobs, for the parts of an attempt.
    """

    def __init__(self, folder: RunFolder, *, attempt: int) -> None:
        self._folder = folder
        self._attempt = attempt
        self._process: subprocess.Popen[bytes] | None = None
        self._sizes: dict[PartName, int] = {}
        self.failures: dict[str, str] = {}

    @property
    def command(self) -> str:
        return f"epochal manage pack {self._folder.path}"

    @property
    def is_possible(self) -> bool:
        """Whether parts can be sealed here.

        A small install has no ``pyarrow``: its parts wait for ``manage pack`` on another machine.
        """
        return find_spec("pyarrow") is not None

    def look(self) -> bool:
        """Start sealing what waits, unless that is under way; whether it is under way now."""
        if self._process is not None:
            if self._process.poll() is None:
                return True
            self._collect()
        sizes = {part: part_bytes(self._folder, part) for part in sealable_parts(self._folder)}
        parts = [
            part
            for part, size in sizes.items()
            if size >= WORTH_SEALING_BYTES and self._sizes.get(part) != size
        ]
        if not parts or not self.is_possible:
            return False
        self._sizes.update({part: sizes[part] for part in parts})
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-W", "ignore", "-m", "epochal.companion.sealing"),
                *(str(self._folder.path), *(part.stem for part in parts)),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        return True

    def go_on(self) -> bool:
        """Seal what can be; other ranks may take a moment longer to end."""
        if not self.is_possible:
            return False
        return self.look() or bool(self._unsealed() - self.failures.keys())

    def left(self) -> str | None:
        unsealed = self._unsealed()
        if not unsealed:
            return None
        reasons = [why for stem, why in self.failures.items() if stem in unsealed]
        return f"not sealed: {', '.join(sorted(unsealed))}" + "".join(f"; {why}" for why in reasons)

    def stop(self) -> None:
        """Stop a process that is under way; a part is sealed or it is not, never half."""
        if self._process is not None:
            self._process.kill()
            self._collect()

    def _collect(self) -> None:
        assert self._process is not None
        said, _ = self._process.communicate()
        try:
            failures = decode_json(said)
        except ValueError:  # killed, or died, before it could say anything
            failures = {}
        if isinstance(failures, dict):
            self.failures.update({str(stem): str(why) for stem, why in failures.items()})
        self._process = None

    def _unsealed(self) -> set[str]:
        return {
            part.stem
            for part in self._folder.parts()
            if part.attempt == self._attempt
            and part_bytes(self._folder, part) >= WORTH_SEALING_BYTES
        }


def part_bytes(folder: RunFolder, part: PartName) -> int:
    """The size of a part that is not sealed; 0 for one that is."""
    try:
        return folder.part_path(part).stat().st_size
    except FileNotFoundError:
        return 0


def main(argv: Sequence[str]) -> int:
    """The process that seals."""
    import gc

    # Records hold no cycles: looking for some took a seventh of this process's short life.
    gc.disable()
    from epochal.journal.segments.seal import seal_part

    if hasattr(os, "nice"):
        os.nice(_LESS_URGENT)
    folder = RunFolder(Path(argv[0]))
    failures: dict[str, str] = {}
    for stem in argv[1:]:
        part = parse_part_name(f"{stem}.jsonl", ".jsonl")
        if part is None:
            continue
        try:
            seal_part(folder, part)
        except (EpochalError, OSError) as error:
            failures[stem] = str(error)
    sys.stdout.buffer.write(encode_json(failures))
    sys.stdout.flush()
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    os._exit(status)  # nothing is left to do, and taking all of it down takes its time


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
