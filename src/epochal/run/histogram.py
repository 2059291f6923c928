"""Builds the records of histograms; numpy is imported only when one is logged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from epochal.errors import ValueTypeError
from epochal.exchange.media.pixels import as_array
from epochal.records import Record
from epochal.records.values import (
    MAX_COUNTED,
    SAMPLE_SIZE,
    DeviceParts,
    element_count,
    is_device_tensor,
)
from epochal.run.accepted import MAX_DEPTH

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def histogram_record(at: float, *, name: str, values: Any, step: int, bins: int) -> Record:
    """Counts of values in equal bins; non-finite values are counted apart and never binned.

    Values on an accelerator are left in the record, as ``values`` and ``bins``, for a device reader
    to count them there; :func:`with_distribution` then completes the record.
    """
    import numpy as np

    record: Record = {"log": "histogram", "t": at, "step": step, "name": name}
    if isinstance(values, (list, tuple)):
        values = _gathered(values, what=repr(name))
    if is_device_tensor(values):
        if str(getattr(values, "dtype", "")).startswith("torch.complex"):
            raise ValueTypeError(f"{name!r} must hold numbers, not {values.dtype}.")
        there = element_count(values)
        if there == 0:
            return with_distribution(record, [0, 0, 0])
        known = {"sampled_from": there} if there is not None and there > MAX_COUNTED else {}
        return {**record, "values": values, "bins": bins, **known}
    array = as_array(values, what=repr(name))
    sample = array.ravel()
    if array.size > MAX_COUNTED:  # as many as are counted, taken evenly
        sample = array.flat[np.arange(SAMPLE_SIZE) * array.size // SAMPLE_SIZE]
    sample = sample.astype(np.float64)
    finite = sample[np.isfinite(sample)]
    if not finite.size:
        return with_distribution(record, [0, sample.size, array.size])
    lo, hi, counts = _binned(finite, bins)
    with np.errstate(over="ignore", invalid="ignore"):
        facts = [finite.min(), finite.max(), finite.mean(), finite.std()]
    sizes = [finite.size, sample.size, array.size]
    return with_distribution(record, [*sizes, lo, hi, *(float(fact) for fact in facts), *counts])


def with_distribution(record: Record, numbers: Sequence[float]) -> Record:
    """The record of a histogram with what was counted.

    ``numbers`` are how many values are finite, were counted, and were there; then the edges, min,
    max, mean, std, and the counts.
    """
    finite, counted, there = (int(number) for number in numbers[:3])
    complete = {name: value for name, value in record.items() if name not in ("values", "bins")}
    if finite:
        lo, hi, smallest, largest, mean, std = numbers[3:9]
        complete.update(lo=lo, hi=hi, counts=[int(count) for count in numbers[9:]])
        complete.update(min=smallest, max=largest, mean=mean, std=std)
    else:
        complete.update(lo=0.0, hi=0.0, counts=[])
    complete["count"] = finite
    if finite != counted:
        complete["nonfinite_count"] = counted - finite
    if counted != there:
        complete["sampled_from"] = there
    return complete


def _gathered(values: Iterable[Any], *, what: str) -> Any:
    """Nested lists of numbers, arrays and tensors as one row; on an accelerator where they are."""
    import numpy as np

    parts = list(_parts(values, what, deep=0))
    if any(is_device_tensor(part) for part in parts):
        return DeviceParts(tuple(parts))
    if all(isinstance(part, (int, float)) for part in parts):
        return np.asarray(parts, dtype=np.float64)
    return np.concatenate([as_array(part, what=what).ravel() for part in parts])


def _parts(values: Iterable[Any], what: str, *, deep: int) -> Iterator[Any]:
    if deep > MAX_DEPTH:
        raise ValueTypeError(f"{what} holds itself, or is nested too deeply.")
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _parts(value, what, deep=deep + 1)
        elif isinstance(value, (int, float)) or hasattr(value, "__array__"):
            yield value
        else:
            raise ValueTypeError(f"{what} must hold numbers, not {type(value).__name__}.")


def _binned(finite: npt.NDArray[np.float64], bins: int) -> tuple[float, float, list[int]]:
    """Lowest and highest edge of equal bins, and the counts.

    Values that hardly differ get bins wide enough for floats to tell apart.
    """
    import numpy as np

    lo, hi = float(finite.min()), float(finite.max())
    if lo == hi:
        lo, hi = lo - 0.5, hi + 0.5
    narrowest = 2.0 * bins * float(np.spacing(max(abs(lo), abs(hi))))
    if hi - lo < narrowest:
        lo, hi = lo - narrowest, hi + narrowest
    counts, _ = np.histogram(finite, bins=bins, range=(lo, hi))
    return lo, hi, counts.tolist()
