"""A made-up /sys with two AMD GPUs as amdgpu and KFD show real ones, and what is beside them.

KFD lists an accelerator first, at the higher PCI address; a gaming card second, which also has a
screen. Node 0 is the processor's, card0 the chip of a server's remote console.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from epochal.telemetry.amd import AmdSource
from epochal.telemetry.sysfs import read_text

ACCELERATOR = "0000:c1:00.0"
GAMING = "0000:03:00.0"
ACCELERATOR_ID, GAMING_ID = 28851, 51545
ACCELERATOR_UUID, GAMING_UUID = "GPU-9b2f3c1d5e6a7084", "GPU-f1a2b3c4d5e6f708"

_ACCELERATOR = {
    "vendor": "0x1002",
    "class": "0x120000",
    "device": "0x74a1",
    "revision": "0x00",
    "product_name": "AMD Instinct MI300X OAM",
    "unique_id": "9b2f3c1d5e6a7084",
    "gpu_busy_percent": "97",
    "mem_busy_percent": "41",
    "mem_info_vram_total": "206141652992",
    "mem_info_vram_used": "137438953472",
    "pp_dpm_sclk": "0: 500Mhz\n1: 1893Mhz *\n2: 2100Mhz",
    "power/runtime_status": "active",
    "hwmon/hwmon7/name": "amdgpu",
    "hwmon/hwmon7/temp2_input": "71000",
    "hwmon/hwmon7/temp2_label": "junction",
    "hwmon/hwmon7/temp2_crit": "100000",
    "hwmon/hwmon7/temp3_input": "62000",
    "hwmon/hwmon7/temp3_label": "mem",
    "hwmon/hwmon7/power1_input": "702000000",
    "hwmon/hwmon7/power1_label": "PPT",
    "hwmon/hwmon7/power1_cap": "750000000",
    "hwmon/hwmon7/freq1_input": "1893000000",
    "hwmon/hwmon7/freq1_label": "sclk",
}
_GAMING = {
    "vendor": "0x1002",
    "class": "0x030000",
    "device": "0x744c",
    "revision": "0xc8",
    "unique_id": "f1a2b3c4d5e6f708",
    "gpu_busy_percent": "3",
    "mem_busy_percent": "1",
    "mem_info_vram_total": "25753026560",
    "mem_info_vram_used": "1289748480",
    "pp_dpm_sclk": "0: 500Mhz *\n1: 2364Mhz\n2: 2482Mhz",
    "power/runtime_status": "active",
    "hwmon/hwmon3/name": "amdgpu",
    "hwmon/hwmon3/temp1_input": "48000",
    "hwmon/hwmon3/temp1_label": "edge",
    "hwmon/hwmon3/temp1_crit": "100000",
    "hwmon/hwmon3/temp2_input": "53000",
    "hwmon/hwmon3/temp2_label": "junction",
    "hwmon/hwmon3/temp2_crit": "110000",
    "hwmon/hwmon3/power1_average": "29000000",
    "hwmon/hwmon3/power1_label": "PPT",
    "hwmon/hwmon3/power1_cap": "327000000",
    "hwmon/hwmon3/pwm1": "51",
}
_PROCESSOR_NODE = "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\ndomain 0"
_ACCELERATOR_NODE = """cpu_cores_count 0
simd_count 1216
mem_banks_count 1
wave_front_size 64
simd_per_cu 4
gfx_target_version 90402
vendor_id 4098
device_id 29857
location_id 49408
domain 0
drm_render_minor 129
unique_id 11182222496619982980
num_xcc 8
max_engine_clk_fcompute 2100"""
_GAMING_NODE = """cpu_cores_count 0
simd_count 192
simd_per_cu 2
gfx_target_version 110000
vendor_id 4098
device_id 29772
location_id 768
domain 0
drm_render_minor 128
unique_id 17411676767351404296
max_engine_clk_fcompute 2482"""
_NAMES = """# List of AMDGPU IDs
1.0.0
744C,\tC8,\tAMD Radeon RX 7900 XTX
744C,\tCC,\tAMD Radeon RX 7900 XT
"""


class AmdSysfs:
    """The tree below ``root``; ``errors`` gives files, by their ends, that fail with an errno."""

    def __init__(self, root: Path) -> None:
        self.root = root / "sys"
        self.proc = root / "proc"
        self.names = root / "amdgpu.ids"
        self.errors: dict[str, int] = {}
        self.reads: list[str] = []
        self.names.write_text(_NAMES)
        console = {"vendor": "0x1a03", "class": "0x030000", "device": "0x2000"}
        self._card("card0", "0000:62:00.0", console)
        self._card("card1", GAMING, _GAMING)
        self._card("card2", ACCELERATOR, _ACCELERATOR)
        (self.root / "class/drm/card1-DP-1").mkdir()
        (self.root / "class/drm/renderD128").mkdir()
        self.node(0, gpu_id=0, name="", properties=_PROCESSOR_NODE)
        self.node(1, gpu_id=ACCELERATOR_ID, name="ip discovery", properties=_ACCELERATOR_NODE)
        self.node(2, gpu_id=GAMING_ID, name="ip discovery", properties=_GAMING_NODE)
        (self.root / "class/kfd/kfd/proc").mkdir()
        self.enter_namespace(4026531836)

    def source(self, environ: dict[str, str] | None = None, *, every: bool = False) -> AmdSource:
        return AmdSource(
            every=every,
            environ={} if environ is None else environ,
            root=self.root,
            proc=self.proc,
            read=self.read,
            name_lists=[self.names],
        )

    def read(self, path: Path) -> str:
        self.reads.append(path.name)
        for end, number in self.errors.items():
            if str(path).endswith(end):
                raise OSError(number, os.strerror(number))
        return read_text(path)

    def device(self, address: str) -> Path:
        return self.root / "devices/pci0000:00" / address

    def write(self, address: str, file: str, text: str) -> None:
        _write(self.device(address) / file, text)

    def remove(self, address: str, file: str) -> None:
        (self.device(address) / file).unlink()

    def node(self, number: int, *, gpu_id: int, name: str, properties: str) -> None:
        folder = self.root / f"class/kfd/kfd/topology/nodes/{number}"
        _write(folder / "gpu_id", str(gpu_id))
        _write(folder / "name", name)
        _write(folder / "properties", properties)

    def process(self, pid: int, *, vram: dict[int, int], queues: tuple[int, ...] = ()) -> None:
        folder = self.root / f"class/kfd/kfd/proc/{pid}"
        for gpu_id, size in vram.items():
            _write(folder / f"vram_{gpu_id}", str(size))
        for number, gpu_id in enumerate(queues):
            _write(folder / f"queues/{number}/gpuid", str(gpu_id))

    def enter_namespace(self, number: int) -> None:
        link = self.proc / "self/ns/pid"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(f"pid:[{number}]")

    def hide_node(self, number: int) -> None:
        """As a container's device rules do."""
        for file in ("gpu_id", "name", "properties"):
            self.errors[f"nodes/{number}/{file}"] = errno.EPERM

    def _card(self, card: str, address: str, files: dict[str, str]) -> None:
        for file, text in files.items():
            self.write(address, file, text)
        folder = self.root / "class/drm" / card
        folder.mkdir(parents=True)
        (folder / "device").symlink_to(self.device(address))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
