"""Reading back lines of `{"step": …, "m": {…}}`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path


def complete_steps(path: Path, keys: Sequence[str]) -> set[int]:
    """The steps whose line is whole and holds every key; a torn last line is left out."""
    if not path.exists():
        return set()
    wanted = set(keys)
    steps = set()
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            continue
        record = json.loads(line)
        if wanted <= record.get("m", {}).keys():
            steps.add(record["step"])
    return steps
