"""The configuration of one companion, passed as its command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from epochal.journal.layout import LOOP, TELEMETRY, RunFolder, node_name

GRACE_S = 30.0

# A word of the command line: the field, and how the next word is read.
_OPTIONS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "--attempt": ("attempt", int),
    "--parent": ("parent", int),
    "--parent-start": ("parent_start", float),
    "--node": ("node", node_name),
    "--rank": ("rank", int),
    "--writer": ("writer", str),
    "--grace": ("grace_s", float),
}
_FLAGS: Mapping[str, str] = {"--shares-node": "shares_node", "--aside": "is_aside"}


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
    """Read a command line; ``argparse`` would take half a MiB for as long as the run lasts."""
    folder, *words = sys.argv[1:] if argv is None else argv
    facts: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if word in _FLAGS:
            facts[_FLAGS[word]] = True
        else:
            name, read = _OPTIONS[word]
            facts[name] = read(next(rest))
    return CompanionConfig(folder=RunFolder(Path(folder).absolute()), **facts)
