"""A reader that has never read before: ``python -m tests.drills.reader ADDRESS`` counts steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from epochal.store.opening import open_runs


class Steps(NamedTuple):
    """Of a run: its records of steps, how many steps there are, and how many follow without gap."""

    records: int
    distinct: int
    unbroken: int


def count_steps(address: str) -> dict[str, Steps]:
    """What is there of each run."""
    counted: dict[str, Steps] = {}
    with open_runs(address) as store:
        for view in store.runs():
            steps = Counter(
                record["step"] for _, record in view.records() if record["log"] == "metrics"
            )
            unbroken = next(step for step in range(len(steps) + 1) if step not in steps)
            counted[view.outline().name] = Steps(steps.total(), len(steps), unbroken)
    return counted


def read_afresh(address: str, environment: Mapping[str, str]) -> dict[str, Steps]:
    """What a new process with an empty cache counts."""
    with tempfile.TemporaryDirectory(prefix="reader-") as cache:
        printed = subprocess.run(
            [sys.executable, "-m", "tests.drills.reader", address],
            stdout=subprocess.PIPE,
            check=True,
            env={**os.environ, **environment, "EPOCHAL_CACHE_DIR": cache},
            timeout=600,
        ).stdout
    return {name: Steps(*steps) for name, steps in json.loads(printed).items()}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(count_steps(sys.argv[1])))
