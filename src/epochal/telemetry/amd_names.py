"""What AMD GPUs are sold as, from the list that libdrm and ROCm read themselves."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

# Lines such as "744C,	C8,	AMD Radeon RX 7900 XTX": device, revision, name.
NAME_LISTS = (
    Path("/usr/share/libdrm/amdgpu.ids"),
    Path("/opt/amdgpu/share/libdrm/amdgpu.ids"),
)


def listed_name(
    device: int | None, revision: int | None, *, lists: Iterable[Path] = NAME_LISTS
) -> str | None:
    """The name of a PCI device and revision; None where no list has it."""
    if device is None or revision is None:
        return None
    line = re.compile(rf"^{device:X},\s*{revision:02X},\s*(\S.*)$", re.MULTILINE | re.IGNORECASE)
    for path in lists:
        try:
            found = line.search(path.read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if found is not None:
            return found[1].strip()
    return None
