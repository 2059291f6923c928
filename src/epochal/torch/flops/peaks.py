"""Finds what a GPU can do at most: by its PCI id, by its name, or from the nearest known GPU."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from epochal.errors import UsageError
from epochal.torch.flops.peak_table import DTYPES, ROWS, Line, Row

_LONG_NAMES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "nvfp4": "fp4",
    "mxfp8": "fp8",
}
# Architectures of which no part's clock is known, and one whose multiprocessors do the same per
# clock, but for four bits.
_RELATED = {(10, 3): (10, 0), (12, 1): (12, 0)}
# A slice of a GPU has fewer multiprocessors; a few disabled ones more or less are the same part.
_SAME_PART = 0.03


@dataclass(frozen=True, slots=True)
class Peak:
    """What one device can do at most, dense, in TFLOP/s by dtype.

    ``clock_mhz`` is the clock it is reached at; ``note`` says what was assumed, None for a known
    part as it stands.
    """

    device: str
    tflops: Mapping[str, float] = field(default_factory=dict)
    source: str = ""
    clock_mhz: float | None = None
    note: str | None = None

    def of(self, dtype: str) -> float | None:
        """The rate of a dtype; 32-bit products run on the tensor cores as TF32 where they can."""
        name = dtype_name(dtype)
        if name == "fp32":
            return self.tflops.get("tf32", self.tflops.get("fp32"))
        return self.tflops.get(name)


def dtype_name(dtype: object) -> str:
    """The short name of a dtype: "bf16" for "bfloat16" and for ``torch.bfloat16``."""
    name = str(dtype).removeprefix("torch.").lower()
    short = _LONG_NAMES.get(name, name)
    if short not in DTYPES:
        raise UsageError(f"dtype={dtype!r} is not known: use one of {', '.join(DTYPES)}.")
    return short


def peak_of(
    name: str,
    *,
    pci_id: str | None = None,
    sm_count: int | None = None,
    clock_mhz: float | None = None,
    capability: tuple[int, int] | None = None,
) -> Peak | None:
    """What a GPU of this name can do; None when nothing like it is known.

    ``pci_id`` is the four hex digits of the device ("2335"). A part that is not in the table is
    scaled by multiprocessors and clock from one of its architecture, which the note says.
    """
    row = _row_of_id(pci_id) or _row_of_name(name)
    if row is None:
        return _scaled_from_kin(name, sm_count, clock_mhz, capability)
    if row.sm_count and sm_count and abs(sm_count / row.sm_count - 1) > _SAME_PART:
        share = sm_count / row.sm_count
        note = f"{sm_count} of {row.sm_count} multiprocessors"
        return _peak(name, row, factor=share, clock_mhz=row.clock_mhz, note=note)
    return _peak(name, row, clock_mhz=row.clock_mhz)


def _peak(
    device: str, row: Row, *, clock_mhz: float | None, factor: float = 1.0, note: str | None = None
) -> Peak:
    known = {dtype: getattr(row, dtype) for dtype in DTYPES}
    rates = {dtype: rate * factor for dtype, rate in known.items() if rate is not None}
    return Peak(device, rates, row.source, clock_mhz, note)


def _row_of_id(pci_id: str | None) -> Row | None:
    if pci_id is None:
        return None
    wanted = pci_id.lower().removeprefix("0x")
    return next((row for row in ROWS if wanted in row.pci_ids), None)


def _row_of_name(name: str) -> Row | None:
    plain = _plain(name)
    return next((row for row in ROWS if re.fullmatch(row.name, plain)), None)


def _plain(name: str) -> str:
    """A driver's name without the maker's, the slice's, and what separates its words."""
    words = re.sub(r"[-_\s]+", " ", name.lower()).strip()
    words = re.sub(r" mig \S+$", "", words)
    return re.sub(r"^(nvidia |tesla |amd )+", "", words)


def _scaled_from_kin(
    name: str, sm_count: int | None, clock_mhz: float | None, capability: tuple[int, int] | None
) -> Peak | None:
    if not sm_count or not clock_mhz or capability is None or _is_amd(name):
        return None
    row = _kin(name, capability)
    related = None
    if row is None and capability in _RELATED:
        related = _RELATED[capability]
        row = _kin(name, related)
    if row is None:
        return None
    assert row.sm_count
    assert row.clock_mhz
    factor = sm_count * clock_mhz / (row.sm_count * row.clock_mhz)
    whose = "the same architecture" if related is None else "a related architecture"
    note = (
        f"not in the table: scaled to {sm_count} multiprocessors at {clock_mhz:.0f} MHz from"
        f" {row.sm_count} at {row.clock_mhz} MHz of {whose}; calibrate() measures it"
    )
    if related is not None:
        row = replace(row, fp4=None)
    return _peak(name, row, factor=factor, clock_mhz=clock_mhz, note=note)


def _kin(name: str, capability: tuple[int, int]) -> Row | None:
    """A part of this architecture, of the name's line if there is one, whose rate can be scaled."""
    line = _line_of(name)
    kin = [row for row in ROWS if row.capability == capability and row.sm_count and row.clock_mhz]
    row = next((row for row in kin if row.line == line), None)
    return row or next((row for row in kin if row.line != "limited"), None)


def _line_of(name: str) -> Line:
    plain = _plain(name)
    if "geforce" in plain or "titan" in plain:
        return "geforce"
    return "professional" if "rtx" in plain or "quadro" in plain else "data-center"


def _is_amd(name: str) -> bool:
    return any(word in name.lower() for word in ("amd", "radeon", "instinct"))


def chosen_device(device: Any = None) -> torch.device:
    """The device that is meant: the given one, else the current GPU, else the CPU."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    chosen = torch.device(device)
    if chosen == torch.device("cuda"):
        return torch.device("cuda", torch.cuda.current_device())
    return chosen


def device_peak(device: Any = None) -> Peak | None:
    """What a GPU can do by its maker's papers; None for unknown ones and for CPUs."""
    chosen = chosen_device(device)
    if chosen.type != "cuda":
        return None
    facts = torch.cuda.get_device_properties(chosen)
    clock_khz = getattr(facts, "clock_rate", None)
    return peak_of(
        facts.name,
        pci_id=_pci_id(getattr(facts, "uuid", None)),
        sm_count=facts.multi_processor_count,
        clock_mhz=None if clock_khz is None else clock_khz / 1000,
        capability=(facts.major, facts.minor),
    )


def device_title(device: torch.device) -> str:
    """The name people know a device by."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type.upper()


def _pci_id(uuid: object) -> str | None:
    """The PCI device id, which only the driver's own library tells; None where it does not."""
    if uuid is None:
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
    except (ImportError, OSError):
        return None
    except pynvml.NVMLError:
        return None
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}".encode())
        # The upper half is the device, the lower the vendor.
        return f"{pynvml.nvmlDeviceGetPciInfo(handle).pciDeviceId >> 16:04x}"
    except pynvml.NVMLError:  # a slice of a GPU has a UUID of another kind
        return None
    finally:
        pynvml.nvmlShutdown()
