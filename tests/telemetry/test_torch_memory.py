from types import SimpleNamespace
from typing import Any

from epochal.telemetry.torch_memory import TorchMemorySample, TorchMemorySource


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


def test_torch_that_nobody_imported_is_absent() -> None:
    source = TorchMemorySource(modules={})
    assert source.sample() == ()
    assert source.why_absent == "PyTorch is not imported"


def test_cuda_that_nobody_started_is_absent() -> None:
    source = TorchMemorySource(modules=torch_with([10], started=False))
    assert source.sample() == ()
    assert source.why_absent == "CUDA is not started in PyTorch"


def test_source_appears_when_the_program_starts_cuda() -> None:
    modules: dict[str, Any] = {}
    source = TorchMemorySource(modules=modules)
    assert not source.probe()
    modules.update(torch_with([10]))
    assert source.sample() == (TorchMemorySample(device=0, active=5, reserved=10, total=1000),)


def test_only_devices_in_use_are_read() -> None:
    source = TorchMemorySource(modules=torch_with([0, 40, 0, 60]))
    assert [sample.device for sample in source.sample()] == [1, 3]


def test_before_any_memory_is_taken_the_current_device_is_read() -> None:
    source = TorchMemorySource(modules=torch_with([0, 0]))
    assert source.sample() == (TorchMemorySample(device=1, active=0, reserved=0, total=1000),)
