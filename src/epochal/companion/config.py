"""The configuration of one companion, passed as its command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from epochal.journal.layout import LOOP, TELEMETRY, RunFolder, node_name

GRACE_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CompanionConfig:
    """One attempt of one run on one node.

    ``writer`` is the journal writer of the process that is watched, ``parent`` its number and
    ``parent_start`` its start time in the system's own units. ``shares_node`` says that other ranks
    run beside it, ``is_aside`` that the folder is one of ranks that cannot see rank 0.
    """

    folder: RunFolder
    attempt: int
    parent: int
    parent_start: float | None
    node: str
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
    """Read a command line."""
    parser = argparse.ArgumentParser(prog="python -m epochal.companion")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--parent-start", type=float)
    parser.add_argument("--node", type=node_name, default="node")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--writer", default=LOOP)
    parser.add_argument("--shares-node", action="store_true")
    parser.add_argument("--aside", action="store_true")
    parser.add_argument("--grace", type=float, default=GRACE_S)
    args = parser.parse_args(argv)
    return CompanionConfig(
        folder=RunFolder(args.folder.absolute()),
        attempt=args.attempt,
        parent=args.parent,
        parent_start=args.parent_start,
        node=args.node,
        rank=args.rank,
        writer=args.writer,
        shares_node=args.shares_node,
        is_aside=args.aside,
        grace_s=args.grace,
    )
