"""What the device that is here can do at most, by asking it what it is."""

from __future__ import annotations

from typing import Any

import torch

from epochal.torch.flops.peaks import Peak, peak_of


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
