"""Write lost-time.json: how the recording side shares a step's time out, for the page to agree.

Run from the repository root: ``python web/tests/panels/make_lost_time.py``.
"""

import json
import random
from pathlib import Path
from typing import Any

from epochal.series.lost_time import explain_phases

_SHARES = ("useful", "kernels", "clocks", "host", "input_wait", "communication", "other")
_PHASES = (
    "data",
    "forward",
    "backward",
    "optimizer",
    "sync",
    "eval",
    "save",
    "log",
    "mine",
    "other",
)


def _case(rng: random.Random) -> dict[str, Any]:
    names = rng.sample(_PHASES, rng.randrange(1, len(_PHASES)))
    means = {f"phase/{name}": round(rng.uniform(0, 20), 3) for name in names}
    wall = round(sum(means.values()) * rng.uniform(1, 1.2), 3)
    record: dict[str, Any] = {"steps": 50, "wall_ms": wall, "m": means}
    record["ideal_ms"] = round(wall * rng.uniform(0.05, 1.1), 3)
    if rng.random() < 0.5:
        record["host_bound"] = round(rng.random(), 3)
    clock = rng.choice([None, 900, 1500, 1830, 1980])
    util = rng.choice([None, 30.0, 85.0, 100.0])
    peak = rng.choice([None, 1830])
    lost = explain_phases(record, gpu={"clock": clock, "gpu_util": util}, peak_clock_mhz=peak)
    assert lost is not None
    shares = [getattr(lost, name) for name in _SHARES]
    return {"record": record, "clock": clock, "util": util, "peak": peak, "shares": shares}


def main() -> None:
    """Write the file beside this one."""
    rng = random.Random(11)
    cases = [_case(rng) for _ in range(60)]
    path = Path(__file__).with_name("lost-time.json")
    path.write_text(json.dumps(cases, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
