"""A stand-in for the ``amdsmi`` package: the functions that the source uses, as 7.0.2 has them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

NOT_SUPPORTED = 2


class AmdSmiError(Exception):
    def __init__(self, err_code: int) -> None:
        super().__init__(err_code)
        self.err_code = err_code

    def __str__(self) -> str:
        return f"Error code:\n\t{self.err_code}"


class FakeAmdSmi:
    """Two accelerators; handles are positions. ``errors`` are functions and their error codes."""

    AmdSmiException = AmdSmiError
    AmdSmiClkType = SimpleNamespace(GFX="GFX")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="HOTSPOT")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="CURRENT", CRITICAL="CRITICAL")

    def __init__(self, *, num: int = 2, hip_ids: tuple[int, ...] = (0, 1), **errors: int) -> None:
        self.num = num
        self.hip_ids = hip_ids
        self.errors = errors
        self.activity: dict[str, Any] = {"gfx_activity": 98, "umc_activity": 41, "mm_activity": 0}
        self.pids: list[int] = []
        self.running = 0

    def amdsmi_init(self) -> None:
        self._check("init")
        self.running += 1

    def amdsmi_shut_down(self) -> None:
        self.running -= 1

    def amdsmi_get_processor_handles(self) -> list[int]:
        return list(range(self.num))

    def amdsmi_get_gpu_enumeration_info(self, handle: int) -> dict[str, Any]:
        self._check("enumeration")
        return {"hip_id": self.hip_ids[handle], "hip_uuid": f"GPU-{handle}f53b1e6a7c2d910"}

    def amdsmi_get_gpu_asic_info(self, _handle: int) -> dict[str, Any]:
        return {
            "market_name": "AMD Instinct MI300X OAM",
            "num_compute_units": 304,
            "target_graphics_version": "gfx942",
        }

    def amdsmi_get_gpu_activity(self, _handle: int) -> dict[str, Any]:
        self._check("activity")
        return self.activity

    def amdsmi_get_power_info(self, _handle: int) -> dict[str, Any]:
        return {"current_socket_power": 702, "average_socket_power": "N/A"}

    def amdsmi_get_power_cap_info(self, _handle: int) -> dict[str, Any]:
        return {"power_cap": 750_000_000}

    def amdsmi_get_clock_info(self, _handle: int, kind: str) -> dict[str, Any]:
        assert kind == "GFX"
        return {"clk": 2101, "max_clk": 2100}

    def amdsmi_get_temp_metric(self, _handle: int, sensor: str, metric: str) -> int:
        assert sensor == "HOTSPOT"
        return {"CURRENT": 71, "CRITICAL": 100}[metric]

    def amdsmi_get_gpu_vram_usage(self, _handle: int) -> dict[str, int]:
        return {"vram_total": 196_592, "vram_used": 150_000}

    def amdsmi_get_gpu_process_list(self, handle: int) -> list[dict[str, Any]]:
        self._check("processes")
        return [{"pid": pid} for pid in self.pids] if handle == 0 else []

    def _check(self, name: str) -> None:
        if name in self.errors:
            raise AmdSmiError(self.errors[name])
