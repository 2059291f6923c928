"""An archive of run folders."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epochal.exports.archive import BUDGET_BYTES, SAMPLE_BYTES, write
from epochal.store.local.by_path import load_run


def write_archive(
    runs: Path | Sequence[Path],
    path: Path,
    *,
    budget_bytes: int = BUDGET_BYTES,
    sample_bytes: int = SAMPLE_BYTES,
) -> None:
    folders = [runs] if isinstance(runs, Path) else runs
    with path.open("w", encoding="utf-8") as out:
        write(
            [load_run(folder) for folder in folders],
            out,
            budget_bytes=budget_bytes,
            sample_bytes=sample_bytes,
        )
