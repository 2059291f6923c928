import subprocess
import sys
from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any

import pytest

from epochal.telemetry.gpu import GpuModel, GpuSample, GpuSource
from epochal.telemetry.nvidia import NvidiaSource
from epochal.telemetry.sampler import ResourceSample, ResourceSampler, TorchMemory, torch_memory
from tests.doubles.nvml import FakeNvml

GIB = 1024**3


class Gpus(GpuSource):
    def __init__(self, *samples: GpuSample) -> None:
        super().__init__()
        self._samples = samples

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        return self._samples

    def gpu_models(self) -> tuple[GpuModel, ...]:
        return tuple(GpuModel(id=gpu.id, name=gpu.name) for gpu in self._samples)


def sampler_of(
    *gpus: GpuSample,
    host: Callable[[], dict[str, float]] = dict,
    memory: tuple[TorchMemory, ...] = (),
    clock: Callable[[], float] = lambda: 0.0,
) -> ResourceSampler:
    return ResourceSampler(host=host, gpu=Gpus(*gpus), memory=lambda: memory, clock=clock)


def test_gpu_use_is_the_mean_of_the_known() -> None:
    gpus = (GpuSample(0, gpu_util=90.0), GpuSample(1, gpu_util=75.0), GpuSample(2))
    sample = sampler_of(*gpus).sample()
    assert sample.gpu_pct == 82.5
    assert len(sample.gpus) == 3


def test_memory_is_summed_over_the_devices_in_use() -> None:
    memory = (TorchMemory(0, 10, 40, 100), TorchMemory(1, 20, 50, 100))
    sample = sampler_of(memory=memory).sample()
    assert (sample.vram_active_bytes, sample.vram_allocated_bytes) == (30, 90)
    assert (sample.vram_total, sample.vram_spill) == (200, 0)


def test_spill_is_what_a_device_holds_beyond_its_size() -> None:
    memory = (TorchMemory(0, 10, 130, 100), TorchMemory(1, 20, 50, 100))
    sample = sampler_of(memory=memory).sample()
    assert sample.vram_spill == 30


def test_without_gpu_everything_about_it_is_absent() -> None:
    assert sampler_of().sample() == ResourceSample()


def test_without_allocator_the_total_is_that_of_the_visible_gpus() -> None:
    sample = sampler_of(GpuSample(0, dram_used=1 * GIB, dram_total=6 * GIB)).sample()
    assert (sample.vram_total, sample.vram_allocated_bytes, sample.vram_spill) == (
        6 * GIB,
        None,
        None,
    )
    assert sample.summary() == "VRAM: 1.0/6.0 GB"


def test_failing_source_is_counted_and_absent_while_the_others_go_on() -> None:
    def broken() -> dict[str, float]:
        raise OSError("sensor on fire")

    sampler = sampler_of(GpuSample(0, gpu_util=50.0), host=broken)
    sample = sampler.sample()
    assert (sample.cpu_pct, sample.gpu_pct) == (None, 50.0)
    (fault,) = sampler.guard.faults.values()
    assert (fault.member, fault.error, fault.count) == ("source host", "OSError: sensor on fire", 1)


def test_costly_source_repeats_its_reading_until_it_is_worth_it() -> None:
    now_s = [0.0]
    figures = iter([1.0, 2.0, 3.0])

    def slow() -> dict[str, float]:
        now_s[0] += 0.01
        return {"cpu_pct": next(figures)}

    sampler = sampler_of(host=slow, clock=lambda: now_s[0])
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
    sampler = sampler_of(GpuSample(0, name="NVIDIA H200"))
    assert sampler.hardware_line().endswith(" | NVIDIA H200")


def test_lost_gpu_leaves_the_mean_of_the_rest() -> None:
    nvml = FakeNvml()
    nvml.gpus[0].lost = True
    gpu = NvidiaSource("0,1", nvml=nvml, quick=True)
    assert ResourceSampler(host=dict, gpu=gpu).sample().gpu_pct == 99.0


def torch_with(reserved: list[int], *, started: bool = True) -> dict[str, Any]:
    cuda = SimpleNamespace(
        is_initialized=lambda: started,
        device_count=lambda: len(reserved),
        current_device=lambda: len(reserved) - 1,
        memory_reserved=lambda device: reserved[device],
        memory_allocated=lambda device: reserved[device] // 2,
        get_device_properties=lambda _device: SimpleNamespace(total_memory=1000),
    )
    return {"torch": SimpleNamespace(cuda=cuda)}


def test_the_allocator_is_read_once_the_program_has_started_cuda() -> None:
    assert torch_memory({}) == torch_memory(torch_with([10], started=False)) == ()
    assert torch_memory(torch_with([10])) == (TorchMemory(0, active=5, reserved=10, total=1000),)


def test_only_devices_in_use_are_read_and_before_any_is_the_current_one() -> None:
    assert [one.device for one in torch_memory(torch_with([0, 40, 0, 60]))] == [1, 3]
    assert [one.device for one in torch_memory(torch_with([0, 0]))] == [1]


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
