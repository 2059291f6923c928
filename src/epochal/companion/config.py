"""The configuration of one companion, passed as its command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from epochal.journal.layout import LOOP, TELEMETRY, RunFolder
from epochal.journal.line import decode_json

GRACE_S = 30.0


class CompanionConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one run on one node.

    ``writer`` is the journal writer of the process that is watched, ``parent`` its number and
    ``parent_start`` its start time in the system's own units. ``shares_node`` says that other ranks
    run beside it, ``is_aside`` that the folder is one of ranks that cannot see rank 0.
    """

    folder: RunFolder
    attempt: int
    parent: int
    parent_start: float | None = None
    node: str = "node"
    rank: int = 0
    writer: str = LOOP
    shares_node: bool = False
    is_aside: bool = False
    grace_s: float = GRACE_S

    @property
    def is_main(self) -> bool:
        """Whether this is the companion of rank 0, which alone seals and forwards."""
        return self.writer == LOOP

    @property
    def own_writer(self) -> str:
        """The name this companion writes under."""
        return f"{TELEMETRY}{self.node}"


def parse(argv: Sequence[str] | None = None) -> CompanionConfig:
    """Read a command line: the run's folder, and the other fields as JSON."""
    folder, facts = sys.argv[1:] if argv is None else argv
    return CompanionConfig(folder=RunFolder(Path(folder).absolute()), **decode_json(facts.encode()))
