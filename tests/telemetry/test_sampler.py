import subprocess
import sys
from collections.abc import Callable, Collection

import pytest

from epochal.telemetry.gpu import GPU_METRICS, GpuModel, GpuSample
from epochal.telemetry.host import HOST_METRICS, HostSample
from epochal.telemetry.nvidia import NvidiaSource
from epochal.telemetry.sampler import ResourceSample, ResourceSampler
from epochal.telemetry.torch_memory import TORCH_MEMORY_METRICS, TorchMemorySample
from tests.doubles.nvml import FakeNvml

GIB = 1024**3


class Host:
    kind = "system"
    metrics = HOST_METRICS
    why_absent: str | None = None

    def __init__(self, sample: Callable[[], HostSample] = HostSample) -> None:
        self._sample = sample

    def probe(self) -> bool:
        return True

    def sample(self) -> tuple[HostSample, ...]:
        return (self._sample(),)

    def close(self) -> None:
        pass


class Gpus:
    kind = "gpu"
    metrics = GPU_METRICS
    why_absent: str | None = None
    failures = 0
    last_failure: str | None = None

    def __init__(self, *samples: GpuSample) -> None:
        self._samples = samples

    def probe(self) -> bool:
        return bool(self._samples)

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        return self._samples

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        return {}

    def pids(self) -> dict[int, frozenset[int] | None]:
        return {}

    def gpu_models(self) -> tuple[GpuModel, ...]:
        return tuple(GpuModel(id=gpu.id, name=gpu.name) for gpu in self._samples)

    def close(self) -> None:
        pass


class Memory:
    kind = "system"
    metrics = TORCH_MEMORY_METRICS
    why_absent: str | None = None

    def __init__(self, *samples: TorchMemorySample) -> None:
        self._samples = samples

    def probe(self) -> bool:
        return bool(self._samples)

    def sample(self) -> tuple[TorchMemorySample, ...]:
        return self._samples

    def close(self) -> None:
        pass


def broken() -> HostSample:
    raise OSError("sensor on fire")


def test_gpu_use_is_the_mean_of_the_known() -> None:
    gpus = Gpus(GpuSample(0, gpu_util=90.0), GpuSample(1, gpu_util=75.0), GpuSample(2))
    sample = ResourceSampler(host=Host(), gpu=gpus, memory=Memory()).sample()
    assert sample.gpu_pct == 82.5
    assert len(sample.gpus) == 3


def test_memory_is_summed_over_the_devices_in_use() -> None:
    memory = Memory(TorchMemorySample(0, 10, 40, 100), TorchMemorySample(1, 20, 50, 100))
    sample = ResourceSampler(host=Host(), gpu=Gpus(), memory=memory).sample()
    assert (sample.vram_active_bytes, sample.vram_allocated_bytes) == (30, 90)
    assert (sample.vram_total, sample.vram_spill) == (200, 0)


def test_spill_is_what_a_device_holds_beyond_its_size() -> None:
    memory = Memory(TorchMemorySample(0, 10, 130, 100), TorchMemorySample(1, 20, 50, 100))
    sample = ResourceSampler(host=Host(), gpu=Gpus(), memory=memory).sample()
    assert sample.vram_spill == 30


def test_without_gpu_everything_about_it_is_absent() -> None:
    sample = ResourceSampler(host=Host(), gpu=Gpus(), memory=Memory()).sample()
    assert sample == ResourceSample()


def test_without_allocator_the_total_is_that_of_the_visible_gpus() -> None:
    gpus = Gpus(GpuSample(0, dram_used=1 * GIB, dram_total=6 * GIB))
    sample = ResourceSampler(host=Host(), gpu=gpus, memory=Memory()).sample()
    assert (sample.vram_total, sample.vram_allocated_bytes, sample.vram_spill) == (
        6 * GIB,
        None,
        None,
    )
    assert sample.summary() == "VRAM: 1.0/6.0 GB"


def test_failing_source_is_counted_and_absent_while_the_others_go_on() -> None:
    gpus = Gpus(GpuSample(0, gpu_util=50.0))
    sampler = ResourceSampler(host=Host(broken), gpu=gpus, memory=Memory(), clock=lambda: 0.0)
    sample = sampler.sample()
    assert (sample.cpu_pct, sample.gpu_pct) == (None, 50.0)
    (fault,) = sampler.guard.faults.values()
    assert (fault.member, fault.error, fault.count) == ("source host", "OSError: sensor on fire", 1)


def test_costly_source_repeats_its_reading_until_it_is_worth_it() -> None:
    now_s = [0.0]
    figures = iter([1.0, 2.0, 3.0])

    def slow() -> HostSample:
        now_s[0] += 0.01
        return HostSample(cpu_pct=next(figures))

    sampler = ResourceSampler(host=Host(slow), gpu=Gpus(), memory=Memory(), clock=lambda: now_s[0])
    sampler.prime()
    assert sampler.sample().cpu_pct == 2.0
    now_s[0] += 1.9
    assert sampler.sample().cpu_pct == 2.0
    now_s[0] += 0.2
    assert sampler.sample().cpu_pct == 3.0


def test_summary_is_one_line_of_what_is_known() -> None:
    sample = ResourceSample(
        cpu_pct=45.2,
        ram_used=3 * GIB,
        ram_total=24 * GIB,
        gpu_pct=82.0,
        vram_allocated_bytes=int(2.1 * GIB),
        vram_total=6 * GIB,
    )
    assert sample.summary() == "CPU: 45% | RAM: 3.0/24.0 GB | GPU: 82% | VRAM: 2.1/6.0 GB"
    assert ResourceSample().summary() == ""


def test_hardware_line_names_the_gpus() -> None:
    gpus = Gpus(GpuSample(0, name="NVIDIA H200"))
    sampler = ResourceSampler(host=Host(), gpu=gpus, memory=Memory())
    assert sampler.hardware_line().endswith(" | NVIDIA H200")


def test_lost_gpu_leaves_the_mean_of_the_rest() -> None:
    nvml = FakeNvml()
    nvml.gpus[0].lost = True
    gpu = NvidiaSource("0,1", nvml=nvml, quick=True)
    sample = ResourceSampler(host=Host(), gpu=gpu, memory=Memory()).sample()
    assert sample.gpu_pct == 99.0


def test_this_machine_can_be_sampled() -> None:
    sampler = ResourceSampler()
    sampler.prime()
    sample = sampler.sample()
    assert sample.ram_total is not None
    assert sampler.hardware_line()
    sampler.close()
    assert sampler.guard.faults == {}


def test_sampling_imports_no_torch() -> None:
    program = (
        "import sys; from epochal.telemetry.sampler import ResourceSampler\n"
        "light = {'psutil', 'pynvml', 'numpy', 'torch'} & set(sys.modules)\n"
        "ResourceSampler().sample()\n"
        "print(sorted(light), 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] False False\n"


@pytest.mark.cuda
def test_reserved_memory_of_a_started_cuda_is_seen() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    sample = ResourceSampler().sample()
    assert sample.vram_active_bytes is not None
    assert sample.vram_active_bytes >= block.numel()
    assert sample.vram_spill == 0
