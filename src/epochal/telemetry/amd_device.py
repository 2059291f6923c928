"""One AMD GPU, read from the files of the kernel's ``amdgpu`` driver; what they lack is ``None``.

The driver keeps no history: utilisation and power are current values. A full reading gives the mean
of the readings since the last one. No file has the reason for throttling, so it is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from epochal.telemetry.amd_kfd import KfdNode
from epochal.telemetry.gpu import GpuModel, GpuSample
from epochal.telemetry.means import MomentMeans
from epochal.telemetry.sysfs import Read, SysfsFiles, read_text

# Lines such as "744C,	C8,	AMD Radeon RX 7900 XTX": device, revision, name.
NAME_LISTS = (Path("/usr/share/libdrm/amdgpu.ids"), Path("/opt/amdgpu/share/libdrm/amdgpu.ids"))


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


# Data-centre GPUs have no sensor at the edge.
_SENSORS = ("edge", "junction")
_UNLABELLED = {"temp1": "edge", "temp2": "junction"}
_MOST_PWM = 255
# Levels such as "2: 2100Mhz *", the star at the present one; "S" is a level of sleep.
_LEVEL = re.compile(r"^\w+:\s*(\d+)\s*mhz\s*(\*?)", re.MULTILINE | re.IGNORECASE)


class AmdDevice:
    """Reads one card; ``folder`` is its ``device`` in sysfs, ``node`` what KFD knows of it."""

    def __init__(
        self,
        folder: Path,
        *,
        index: int,
        node: KfdNode | None = None,
        read: Read = read_text,
        name_lists: Iterable[Path] = NAME_LISTS,
    ) -> None:
        self.index = index
        self.node = node
        self._facts = KfdNode(gpu_id=0, address="") if node is None else node
        self.files = SysfsFiles(f"GPU {index}", read=read)
        self._folder = folder
        self._hwmon_folder: Path | None = None
        self._sensor: str | None = None
        self._max_clock: int | None = None
        self._means = MomentMeans()
        self._is_lost = False
        self.uuid = self._read_uuid()
        self.name = self._read_name(name_lists)

    def sample(self, *, light: bool = False) -> GpuSample:
        """Read the card; a ``light`` reading gives the moment's use and power, not their means."""
        nothing = GpuSample(self.index, name=self.name, uuid=self.uuid)
        if self._has_gone():
            return nothing
        total, used = self._memory()
        is_asleep = self.files.text(self._folder / "power/runtime_status") == "suspended"
        # Reading a sensor would wake it, or be refused.
        hwmon = None if is_asleep else self._hwmon()
        levels = "" if is_asleep else self.files.text(self._folder / "pp_dpm_sclk") or ""
        temperature, critical = self._temperature(hwmon)
        pwm = self._sensor_number(hwmon, "pwm1", least=0, greatest=_MOST_PWM)
        moment: dict[str, float | None] = {
            "gpu_util": None if is_asleep else self._percent("gpu_busy_percent"),
            "mem_util": None if is_asleep else self._percent("mem_busy_percent"),
            "power": self._milli(hwmon, "power1_average", "power1_input"),
        }
        for name, value in moment.items():
            self._means.add(name, value)
        shown = moment if light else {name: self._means.take(name) for name in moment}
        return GpuSample(
            id=self.index,
            name=self.name,
            uuid=self.uuid,
            clock=self._clock(hwmon, levels),
            max_clock=self._greatest_clock(levels),
            power=_whole(shown["power"]),
            power_limit=_whole(self._milli(hwmon, "power1_cap")),
            temperature=temperature,
            temp_slowdown=critical,
            gpu_util=_tenths(shown["gpu_util"]),
            mem_util=_tenths(shown["mem_util"]),
            dram_free=None if total is None or used is None else max(0, total - used),
            dram_used=used,
            dram_total=total,
            fan=None if pwm is None else round(100 * pwm / _MOST_PWM),
        )

    def model(self) -> GpuModel:
        """Describe the card: compute units as multiprocessors, the ISA's version as capability."""
        total, used = self._memory()
        major, minor = self._facts.capability or (None, None)
        return GpuModel(
            id=self.index,
            name=self.name,
            sm_count=self._facts.num_units,
            major=major,
            minor=minor,
            memory=total,
            free=None if total is None or used is None else max(0, total - used),
            uuid=self.uuid,
        )

    def _has_gone(self) -> bool:
        if not self._is_lost and not self._folder.is_dir():
            self._is_lost = True
            self.files.count("the card has gone")
        return self._is_lost

    def _memory(self) -> tuple[int | None, int | None]:
        names = ("mem_info_vram_total", "mem_info_vram_used")
        total, used = (self.files.number(self._folder / name, least=0) for name in names)
        return total, used

    def _percent(self, name: str) -> int | None:
        return self.files.number(self._folder / name, least=0, greatest=100)

    def _hwmon(self) -> Path | None:
        # It has another number after the driver was loaded anew.
        if self._hwmon_folder is None or not self._hwmon_folder.is_dir():
            self._hwmon_folder = hwmon_of(self._folder)
        return self._hwmon_folder

    def _sensor_number(
        self,
        hwmon: Path | None,
        name: str,
        *,
        least: int | None = None,
        greatest: int | None = None,
    ) -> int | None:
        if hwmon is None:
            return None
        return self.files.number(hwmon / name, least=least, greatest=greatest)

    def _milli(self, hwmon: Path | None, *names: str) -> float | None:
        """The first of these sensors with a value, in thousandths of the file's unit."""
        found = (self._sensor_number(hwmon, name, least=0) for name in names)
        value = next((one for one in found if one is not None), None)
        return None if value is None else value / 1000

    def _temperature(self, hwmon: Path | None) -> tuple[int | None, int | None]:
        """The temperature and its critical value, both of one sensor; that one from then on."""
        if hwmon is None:
            return None, None
        for sensor in [self._sensor] if self._sensor else self._sensors(hwmon):
            value = self.files.number(hwmon / f"{sensor}_input")
            if value is not None:
                self._sensor = sensor
                return _degrees(value), _degrees(self.files.number(hwmon / f"{sensor}_crit"))
        return None, None

    def _sensors(self, hwmon: Path) -> list[str]:
        labels = {
            sensor: self.files.text(hwmon / f"{sensor}_label") or usual
            for sensor, usual in _UNLABELLED.items()
        }
        known = [sensor for sensor, label in labels.items() if label in _SENSORS]
        return sorted(known, key=lambda sensor: _SENSORS.index(labels[sensor]))

    def _clock(self, hwmon: Path | None, levels: str) -> int | None:
        hertz = self._sensor_number(hwmon, "freq1_input", least=0)
        if hertz is not None:
            return round(hertz / 1e6)
        return next((int(mhz) for mhz, star in _LEVEL.findall(levels) if star), None)

    def _greatest_clock(self, levels: str) -> int | None:
        found = max((int(mhz) for mhz, _ in _LEVEL.findall(levels)), default=None)
        self._max_clock = found or self._max_clock
        return self._max_clock or self._facts.max_clock

    def _read_uuid(self) -> str | None:
        number = self.files.hexadecimal(self._folder / "unique_id")
        number = number or self._facts.unique_id
        return f"GPU-{number:016x}" if number else None

    def _read_name(self, lists: Iterable[Path]) -> str:
        device = self.files.hexadecimal(self._folder / "device")
        revision = self.files.hexadecimal(self._folder / "revision")
        known = self.files.text(self._folder / "product_name")
        known = known or listed_name(device, revision, lists=lists)
        return known or f"AMD {self._facts.target or self._facts.codename or 'GPU'}"


def hwmon_of(device: Path) -> Path | None:
    """The folder of a card's sensors; None where it has none."""
    try:
        return next(iter(sorted((device / "hwmon").glob("hwmon*"))), None)
    except OSError:  # the card is going
        return None


def _degrees(thousandths: int | None) -> int | None:
    return None if thousandths is None else round(thousandths / 1000)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(float(value), 1)
