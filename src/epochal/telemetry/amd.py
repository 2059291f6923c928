"""AMD GPUs through AMD's own package ``amdsmi``, where it is installed.

Written from its documentation and source (version 7.0.2); it has not been run on AMD hardware yet.
A GPU's ``id`` is its number in HIP on the whole machine. The library keeps no history, so a full
reading gives the mean of the readings since the last one.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource

_MIB = 1024**2
_DRIVER = Path("/dev/kfd")
# AMDSMI_STATUS_NOT_SUPPORTED and AMDSMI_STATUS_NOT_YET_IMPLEMENTED.
_REFUSALS = (2, 3)


class AmdSource(GpuSource):
    """Samples every visible AMD GPU; with ``every``, also those that the environment hides.

    ``amdsmi`` is the module to use instead of the installed one.
    """

    def __init__(
        self, *, every: bool = False, environ: Mapping[str, str] = os.environ, amdsmi: Any = None
    ) -> None:
        super().__init__()
        self._environ = {} if every else environ
        self._amdsmi = amdsmi
        self._is_started = False

    def close(self) -> None:
        super().close()
        if self._is_started:
            self._is_started = False
            self._amdsmi.amdsmi_shut_down()

    def _open(self) -> list[_AmdDevice]:
        if self._amdsmi is None:
            if not _DRIVER.exists():
                self.why_absent = "there is no driver for AMD GPUs"
                return []
            try:
                # Without its library the package prints and fails in its own ways.
                with contextlib.redirect_stdout(io.StringIO()):
                    import amdsmi
            except (ImportError, OSError, LookupError, AttributeError) as error:
                self.why_absent = f"the package amdsmi cannot be imported: {error}"
                return []
            self._amdsmi = amdsmi
        try:
            self._amdsmi.amdsmi_init()
            self._is_started = True
            handles = self._amdsmi.amdsmi_get_processor_handles()
        except self._amdsmi.AmdSmiException as error:
            self.why_absent = f"amdsmi does not start: {error}"
            return []
        devices = [_AmdDevice(self._amdsmi, handle, i) for i, handle in enumerate(handles)]
        devices.sort(key=lambda device: device.index)
        visible = _visible(devices, self._environ)
        self.why_absent = None if visible else "no AMD GPU is visible to this process"
        return visible


class _AmdDevice:
    """Reads one GPU by its handle; what it does not give is ``None``."""

    def __init__(self, amdsmi: Any, handle: Any, position: int) -> None:
        self._amdsmi = amdsmi
        self._handle = handle
        self.failures = 0
        self.last_failure: str | None = None
        self._moments: dict[str, list[float]] = {}
        self.index = position
        ids = self._ask("gpu_enumeration_info") or {}
        self.index = position if _number(ids.get("hip_id")) is None else int(ids["hip_id"])
        self.uuid: str | None = ids.get("hip_uuid") or None
        self._asic: dict[str, Any] = self._ask("gpu_asic_info") or {}
        name = self._asic.get("market_name")
        self.name = None if name == "N/A" else name

    def sample(self, *, light: bool = False) -> GpuSample:
        """Read the GPU; a ``light`` reading gives the moment's use and power, not their means."""
        activity, power = self._ask("gpu_activity") or {}, self._ask("power_info") or {}
        clock = self._ask("clock_info", self._amdsmi.AmdSmiClkType.GFX) or {}
        watts = _number(power.get("current_socket_power")) or power.get("average_socket_power")
        cap_uw = _number((self._ask("power_cap_info") or {}).get("power_cap"))
        milliwatts = self._mean("power", watts, light=light)
        total, used, free = self._memory()
        return GpuSample(
            id=self.index,
            name=self.name,
            uuid=self.uuid,
            clock=_number(clock.get("clk")),
            max_clock=_number(clock.get("max_clk")),
            power=None if milliwatts is None else round(1000 * milliwatts),
            power_limit=None if cap_uw is None else cap_uw // 1000,
            temperature=self._temperature("CURRENT"),
            temp_slowdown=self._temperature("CRITICAL"),
            gpu_util=self._mean("gpu_util", activity.get("gfx_activity"), light=light),
            mem_util=self._mean("mem_util", activity.get("umc_activity"), light=light),
            dram_free=free,
            dram_used=used,
            dram_total=total,
        )

    def model(self) -> GpuModel:
        """Describe the GPU; gfx942 has the capability 9.4."""
        total, _, free = self._memory()
        target = re.fullmatch(r"gfx(\d+)(\d)\w", str(self._asic.get("target_graphics_version")))
        return GpuModel(
            id=self.index,
            name=self.name,
            sm_count=_number(self._asic.get("num_compute_units")),
            major=int(target[1]) if target else None,
            minor=int(target[2]) if target else None,
            memory=total,
            free=free,
            uuid=self.uuid,
        )

    def pids(self) -> frozenset[int] | None:
        """The processes that compute on the GPU; None if unknown."""
        processes = self._ask("gpu_process_list")
        return None if processes is None else frozenset(int(one["pid"]) for one in processes)

    def recent_use(self, since: float) -> list[tuple[float, float]]:
        """Nothing: the library keeps no history."""
        return []

    def _memory(self) -> tuple[int | None, int | None, int | None]:
        """Total, used and free bytes; the library counts in MiB."""
        vram = self._ask("gpu_vram_usage") or {}
        total, used = _number(vram.get("vram_total")), _number(vram.get("vram_used"))
        if total is None or used is None:
            return None, None, None
        return total * _MIB, used * _MIB, max(0, total - used) * _MIB

    def _temperature(self, metric: str) -> int | None:
        # Of the hottest point: data-centre GPUs have no sensor at the edge.
        sensor = self._amdsmi.AmdSmiTemperatureType.HOTSPOT
        which = getattr(self._amdsmi.AmdSmiTemperatureMetric, metric)
        return _number(self._ask("temp_metric", sensor, which))

    def _mean(self, name: str, moment: Any, *, light: bool) -> float | None:
        value = _number(moment)
        if value is not None:
            self._moments.setdefault(name, []).append(value)
        values = [] if light else self._moments.pop(name, [])
        return round(sum(values) / len(values), 1) if values else value

    def _ask(self, name: str, *arguments: Any) -> Any:
        function = getattr(self._amdsmi, f"amdsmi_get_{name}", None)
        if function is None:
            return None
        try:
            return function(self._handle, *arguments)
        except self._amdsmi.AmdSmiException as error:
            if getattr(error, "err_code", None) not in _REFUSALS:
                self.failures += 1
                self.last_failure = f"GPU {self.index}, {name}: {error}"
            return None


def _number(value: Any) -> int | None:
    """A value that the library gives as a number; "N/A" is None."""
    return value if isinstance(value, int) else None


def _visible(devices: list[_AmdDevice], environ: Mapping[str, str]) -> list[_AmdDevice]:
    """The GPUs a program sees: ROCR_VISIBLE_DEVICES picks some, HIP's variable picks among those.

    Both lists end at the first entry that names nothing. HIP reads CUDA_VISIBLE_DEVICES where its
    own variable is not set.
    """
    hip = environ.get("HIP_VISIBLE_DEVICES", environ.get("CUDA_VISIBLE_DEVICES"))
    for variable in (environ.get("ROCR_VISIBLE_DEVICES"), hip):
        if variable is None:
            continue
        chosen: list[_AmdDevice] = []
        for entry in (one.strip() for one in variable.split(",")):
            if entry.isdigit():
                named = devices[int(entry) : int(entry) + 1]
            else:
                named = [one for one in devices if entry and (one.uuid or "").startswith(entry)]
            if len(named) != 1 or named[0] in chosen:
                break
            chosen += named
        devices = chosen
    return devices
