"""The one format of numbers, durations, bytes and counts in everything that people read.

Sizes have IEC names, because they are counted by 1024: KiB, MiB, GiB. Two texts keep ``GB`` for
``1024**3``, because others read them by that name: the VRAM part of an epoch line and the summary
of a resource sample. The sizes of RAM and GPUs in the line about the hardware are names of parts
(``H200 141 GB``).
"""

from __future__ import annotations

import math

from epochal.records.values import as_float

UNKNOWN = "—"

_LONGEST_S = 1e12  # about 30,000 years: an estimate beyond it says nothing
_SMALLEST_FIXED = 1e-3
_FIVE_DECIMALS_BELOW = 1e-2  # four would leave two digits
_FOUR_DECIMALS_BELOW = 100.0
_PLAINLY_FIXED = (2e-2, 99.0)  # no rounding leaves the range of four decimals
_TWO_DECIMALS_BELOW = 1e8  # beyond it four digits say more than a row of them
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_COUNT_UNITS = ("", "k", "M", "B", "T")


def format_number(value: float) -> str:
    """Write a metric's value briefly, with at least three digits.

    ``0``, ``1.23e-04``, ``0.00123``, ``0.0010``, ``0.1234``, ``123.46``, ``1.576e+13``.

    Each form is chosen by the rounded value, so that no text overshoots its form's range.
    """
    value = as_float(value)
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == 0:
        return "0"
    if _PLAINLY_FIXED[0] < abs(value) < _PLAINLY_FIXED[1]:
        return f"{value:.4f}"
    small, large = f"{value:.2e}", f"{value:.3e}"
    if abs(float(small)) < _SMALLEST_FIXED:
        return small
    five_decimals = f"{value:.5f}"
    if abs(float(five_decimals)) < _FIVE_DECIMALS_BELOW:
        return five_decimals.removesuffix("0")
    if abs(float(large)) >= _TWO_DECIMALS_BELOW:
        return large
    four_decimals = f"{value:.4f}"
    if abs(float(four_decimals)) < _FOUR_DECIMALS_BELOW:
        return four_decimals
    return f"{value:.2f}"


def format_significant(value: float) -> str:
    """Write a number of a sentence with three significant digits: ``11.5``, ``2.30``, ``0.1``.

    Args:
        value: The number.
    """
    value = as_float(value)
    if not math.isfinite(value) or value == 0:
        return format_number(value)
    if 999.5 <= abs(value) < 1e6:
        return f"{value:,.0f}"
    rounded = float(f"{value:.3g}")
    if not 1e-4 <= abs(rounded) < 1000:
        return f"{value:.2e}"
    # What is exact stays short: 0.1, and not 0.100.
    decimals = 2 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:g}" if rounded == value else f"{value:.{decimals}f}"


def format_duration(seconds: float) -> str:
    """Write a duration as ``49ms``, ``1.5s``, ``4m 32s``, ``3h 12m`` or ``34d 05h``, rounded down.

    A negative, non-finite or absurdly long duration is unknown and gives an em dash.

    Args:
        seconds: The duration in seconds.
    """
    if not 0 <= seconds < _LONGEST_S:
        return UNKNOWN
    # Whole microseconds first: 0.057 * 1000 falls just below 57 and would be rounded down twice.
    whole_s, microseconds = divmod(round(seconds * 1e6), 1_000_000)
    if whole_s < 1:
        return f"{microseconds // 1000}ms"
    minutes, whole_s = divmod(whole_s, 60)
    if minutes < 1:
        tenth = microseconds // 100_000
        return f"{whole_s}.{tenth}s" if tenth else f"{whole_s}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 1:
        return f"{minutes}m {whole_s:02d}s"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02d}h" if days else f"{hours}h {minutes:02d}m"


def format_clock(seconds: float) -> str:
    """Write the time left in a step line as ``02h15m``, or ``3d02h`` from one day on, rounded down.

    Under a minute it is ``42s``. A negative, non-finite or absurdly long duration is unknown and
    gives an em dash.
    """
    if not 0 <= seconds < _LONGEST_S:
        return UNKNOWN
    if seconds < 60:
        return f"{int(seconds)}s"
    hours, minutes = divmod(int(seconds) // 60, 60)
    days, hours = divmod(hours, 24)
    return f"{days}d{hours:02d}h" if days else f"{hours:02d}h{minutes:02d}m"


def format_bytes(size_bytes: float) -> str:
    """Write a size by 1024: ``512 B``, ``1.5 KiB``, ``2.1 GiB``; not finite gives a dash."""
    if not math.isfinite(size_bytes):
        return UNKNOWN
    number, unit = _scaled(size_bytes, base=1024, units=_BYTE_UNITS)
    return f"{number} {unit}"


def format_count(count: float) -> str:
    """Write a count in thousands: ``950``, ``125.3k``, ``1.2M``, ``3.4B``, ``5.6T``.

    Not finite gives an em dash.
    """
    if not math.isfinite(count):
        return UNKNOWN
    number, unit = _scaled(count, base=1000, units=_COUNT_UNITS)
    return f"{number}{unit}"


def format_reached(step: int | None, epoch: int | None) -> str:
    """Write how far a run came: ``step 1,204``, ``epoch 12`` where it counts no steps, or ""."""
    if step is not None:
        return f"step {step:,}"
    return "" if epoch is None else f"epoch {epoch:,}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 module``, ``3 modules``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def format_tps(tokens_per_second: float) -> str:
    """Write tokens per second for a step line, six characters wide: ``125.3k``, ``950.0 ``.

    Below a thousand the plain figure is kept, where thousands would round it away. Not finite or
    negative gives a hyphen.
    """
    if not math.isfinite(tokens_per_second) or tokens_per_second < 0:
        return f"{'-':>5} "
    plain = f"{tokens_per_second:5.1f}"
    return f"{plain} " if float(plain) < 1000 else f"{tokens_per_second / 1000:5.1f}k"


def _scaled(amount: float, *, base: int, units: tuple[str, ...]) -> tuple[str, str]:
    # A value that rounds up to the base belongs to the next unit: 1023.96 KiB is 1.0 MiB.
    text = f"{amount:.0f}"
    for unit in units[:-1]:
        if abs(float(text)) < base:
            return text, unit
        amount /= base
        text = f"{amount:.1f}"
    return text, units[-1]
