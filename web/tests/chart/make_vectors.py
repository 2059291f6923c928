"""Write vectors.json: what the recording side makes of numbers, for the page to agree with.

Run from the repository root: ``python web/tests/chart/make_vectors.py``.
"""

import json
import math
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from epochal.records.format import format_bytes, format_count, format_duration, format_number
from epochal.series.smooth import Smoothing

_NUMBERS = """
    0 -0.0 1.234e-4 -1.234e-4 5e-324 0.001 0.000999999 0.00099999 1.5264 -2 99.9999 99.99996
    99.99995 100 100.125 100.375 -100.125 12345.678 1e15 1.125e15 999999999999999.9 9.995e14
    0.5 2.5 5e-5 1.5e-4 1e300 1.7976931348623157e308 0.03125 64.00005 0.12345 0.00390625
"""
_DURATIONS = """
    0 0.0495 0.057 0.9999 0.9999999 1 1.5 4.89 59.99 60 272.9 11579 86399 86400 2955600 1e12 -1
    2.5e-6 1e11
"""
_COUNTS = """
    0 1 0.5 1.5 2.5 999 999.5 1000 1023 1048535.04 950 1250 1350 125250 125350 -1500 1e16
"""


def _listed(text: str) -> list[float]:
    return [float(word) for word in text.split()]


def _texts(values: Iterable[float], write: Callable[[float], str]) -> list[tuple[float, str]]:
    return [(value, write(value)) for value in values]


def _smoothed(values: Sequence[float], weight: float) -> list[float]:
    return list(Smoothing("ema", weight).apply(values, range(len(values))))


def _finite(values: Sequence[float]) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def main() -> None:
    """Write the file beside this one."""
    rng = random.Random(7)
    numbers = _listed(_NUMBERS)
    numbers += [rng.choice([-1, 1]) * 10 ** rng.uniform(-12, 18) for _ in range(150)]
    numbers += [rng.randrange(1, 10**6) / 2 ** rng.randrange(1, 14) for _ in range(60)]
    durations = _listed(_DURATIONS)
    durations += [10 ** rng.uniform(-4, 11.9) for _ in range(60)]
    counts = _listed(_COUNTS)
    counts += [rng.choice([1, 1, -1]) * 10 ** rng.uniform(0, 16) for _ in range(60)]
    values = [round(rng.gauss(0, 1), 6) for _ in range(40)]
    values[7] = values[8] = math.nan
    smooth = {
        "values": _finite(values),
        "ema": {str(weight): _finite(_smoothed(values, weight)) for weight in (0.0, 0.6, 0.99)},
    }
    vectors = {
        "number": _texts(numbers, format_number),
        "duration": _texts(durations, format_duration),
        "bytes": _texts(counts, format_bytes),
        "count": _texts(counts, format_count),
        "smooth": smooth,
    }
    path = Path(__file__).with_name("vectors.json")
    path.write_text(json.dumps(vectors, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
