"""Apple's GPUs through ``ioreg``, which any user may run: use and memory, nothing of power or heat.

Memory is the machine's, shared with the processors. Use is everybody's, the screen's too. Each
question is a process of its own, so an answer serves until a new one is worth its time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from epochal.telemetry.gpu import GPU_METRICS, GpuModel, GpuSample
from epochal.telemetry.means import MomentMeans
from epochal.telemetry.source import Metric, closed_error

_COMMAND = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator", "-a")
_TIMEOUT_S = 2.0
# Largest share of time that asking may take, and the bounds of how long an answer serves: older
# than a record's ten seconds it would be another record's.
_MAX_SHARE = 0.005
_LEAST_PAUSE_S = 2.0
_GREATEST_PAUSE_S = 10.0
_PAUSE_AFTER_FAILURE_S = 60.0

Run = Callable[[Sequence[str]], bytes]


@dataclass(slots=True)
class _Gpu:
    """One GPU: its properties, its last reading, and its utilisation since."""

    id: int
    name: str
    num_cores: int | None
    use: float | None = None
    used_bytes: int | None = None
    means: MomentMeans = field(default_factory=MomentMeans)


class AppleSource:
    """Samples the GPU of an Apple machine.

    ``run`` runs a command and gives what it prints, or raises ``OSError`` or the errors of
    ``subprocess``; ``ram_bytes`` gives the machine's memory.
    """

    kind: ClassVar[str] = "gpu"
    metrics: ClassVar[tuple[Metric, ...]] = GPU_METRICS

    def __init__(
        self,
        *,
        platform: str = sys.platform,
        run: Run | None = None,
        ram_bytes: Callable[[], int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._platform = platform
        self._run = _printed_by if run is None else run
        self._ram_bytes = _machine_memory if ram_bytes is None else ram_bytes
        self._clock = clock
        self._gpus: list[_Gpu] | None = None
        self._total: int | None = None
        self._due_s = 0.0
        self.failures = 0
        self.last_failure: str | None = None
        self.why_absent: str | None = None
        self._closed = False

    def probe(self) -> bool:
        """Return whether there is a GPU; looked up once, at the first call."""
        if self._gpus is None and not self._closed:
            self._gpus = self._open()
            if not self._gpus and self.why_absent is None:
                self.why_absent = self.last_failure or "macOS lists no GPU of Apple's"
        return bool(self._gpus)

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every GPU, or those of some ids; use is the mean of the answers since the last call.

        A ``light`` reading gives the newest answer's, and leaves the mean to the next full one.
        """
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return ()
        if self._clock() >= self._due_s:
            self._learn(self._ask())
        chosen = [one for one in self._gpus or () if only is None or one.id in only]
        return tuple(self._sample(one, light=light) for one in chosen)

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        """Always empty: the driver remembers nothing."""
        return {}

    def pids(self) -> dict[int, frozenset[int] | None]:
        """For each GPU by ``id``, None: macOS does not list its processes."""
        if self._closed:
            raise closed_error(self)
        return {one.id: None for one in self._gpus or ()} if self.probe() else {}

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe the GPU; its memory is the machine's."""
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return ()
        return tuple(
            GpuModel(one.id, name=one.name, sm_count=one.num_cores, memory=self._total)
            for one in self._gpus or ()
        )

    def close(self) -> None:
        """End the source; nothing is open."""
        self._closed = True

    def _open(self) -> list[_Gpu]:
        if self._platform != "darwin":
            self.why_absent = "Apple's GPUs are found on macOS only"
            return []
        entries = self._ask() or []
        self._gpus = [
            _Gpu(id=i, name=_name_of(entry), num_cores=_count(entry.get("gpu-core-count")))
            for i, entry in enumerate(entries)
        ]
        self._learn(entries)
        if self._gpus:
            self._total = self._ram_bytes()
        return self._gpus

    def _ask(self) -> list[Mapping[str, Any]] | None:
        """macOS's properties of each GPU; None, and a counted fault, if there are none."""
        import subprocess

        began_s = self._clock()
        try:
            entries = _entries(self._run(_COMMAND))
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            self.failures += 1
            self.last_failure = f"ioreg: {error}"
            self._due_s = self._clock() + _PAUSE_AFTER_FAILURE_S
            return None
        ended_s = self._clock()
        pause_s = (ended_s - began_s) / _MAX_SHARE
        self._due_s = ended_s + min(max(pause_s, _LEAST_PAUSE_S), _GREATEST_PAUSE_S)
        return entries

    def _learn(self, entries: Sequence[Mapping[str, Any]] | None) -> None:
        for gpu in self._gpus or ():
            is_listed = entries is not None and gpu.id < len(entries)
            said = entries[gpu.id].get("PerformanceStatistics") if entries and is_listed else None
            statistics = said if isinstance(said, Mapping) else {}
            use = _count(statistics.get("Device Utilization %"))
            gpu.use = None if use is None or use > 100 else float(use)
            gpu.used_bytes = _count(statistics.get("In use system memory"))
            gpu.means.add("use", gpu.use)

    def _sample(self, gpu: _Gpu, *, light: bool) -> GpuSample:
        mean = None if light or gpu.use is None else gpu.means.take("use")
        return GpuSample(
            id=gpu.id,
            name=gpu.name,
            gpu_util=gpu.use if mean is None else round(mean, 1),
            dram_used=gpu.used_bytes,
            dram_total=self._total,
        )


def _printed_by(command: Sequence[str]) -> bytes:
    import subprocess

    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TIMEOUT_S, check=True
    )
    return done.stdout


def _entries(printed: bytes) -> list[Mapping[str, Any]]:
    """The accelerators of Apple's own make in a property list, which is empty without any."""
    import plistlib
    from xml.parsers.expat import ExpatError

    if not printed.strip():
        return []
    try:
        listed = plistlib.loads(printed)
    except (ValueError, ExpatError, AttributeError, LookupError, TypeError) as error:
        # plistlib lets through what its parser stumbles on.
        raise ValueError(f"not a property list: {error}") from error
    if not isinstance(listed, list):
        raise ValueError("not a list of accelerators")  # noqa: TRY004 - of what was printed
    return [one for one in listed if isinstance(one, Mapping) and _is_apples(one)]


def _is_apples(entry: Mapping[str, Any]) -> bool:
    # Intel Macs list GPUs of other makers.
    model, driver = _text(entry.get("model")), _text(entry.get("IOClass"))
    return model.startswith("Apple") or driver.startswith("AGX")


def _name_of(entry: Mapping[str, Any]) -> str:
    return _text(entry.get("model")) or "Apple GPU"


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="replace")
    return value.strip("\0 ") if isinstance(value, str) else ""


def _count(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value >= 0 else None


def _machine_memory() -> int:
    import psutil

    return int(psutil.virtual_memory().total)
