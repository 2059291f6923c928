from pathlib import Path
from typing import Any

import pytest

from epochal.errors import UsageError
from epochal.telemetry.amd import AmdSource
from epochal.telemetry.apple import AppleSource
from epochal.telemetry.gpu import GpuSource
from epochal.telemetry.machine_gpus import MachineGpus, vendors_of
from epochal.telemetry.nvidia import NvidiaSource
from tests.doubles.amd_sysfs import ACCELERATOR, ACCELERATOR_ID, AmdSysfs
from tests.doubles.ioreg import GIB, Ioreg
from tests.doubles.nvml import FakeGpu, FakeNvml


def nvidia(visible: str = "0,1", **options: Any) -> NvidiaSource:
    return NvidiaSource(visible, nvml=FakeNvml(**options), sleep=lambda _seconds: None)


def apple(*, platform: str = "darwin") -> AppleSource:
    return AppleSource(platform=platform, run=Ioreg(), ram_bytes=lambda: GIB)


def names(*vendors: GpuSource) -> list[str | None]:
    return [sample.name for sample in MachineGpus(vendors=vendors).sample()]


def test_the_first_vendor_that_finds_a_gpu_is_the_machines(tmp_path: Path) -> None:
    amd = AmdSysfs(tmp_path)
    none = AmdSource(root=tmp_path / "nothing")
    assert names(nvidia(), amd.source(), apple()) == ["NVIDIA H200", "NVIDIA H200"]
    assert names(nvidia(driver=False), amd.source(), apple())[0] == "AMD Instinct MI300X OAM"
    assert names(nvidia(driver=False), none, apple()) == ["Apple M2 Pro"]


def test_ids_never_clash_where_two_vendors_stand_side_by_side(tmp_path: Path) -> None:
    gpus = MachineGpus(vendors=[nvidia(), AmdSysfs(tmp_path).source()])
    assert [model.id for model in gpus.gpu_models()] == [0, 1]
    assert [sample.name for sample in gpus.sample(only={1})] == ["NVIDIA H200"]


@pytest.mark.parametrize(
    ("environ", "first"),
    [
        ({}, NvidiaSource),
        ({"CUDA_VISIBLE_DEVICES": "0"}, NvidiaSource),
        ({"ROCR_VISIBLE_DEVICES": "0"}, AmdSource),
        ({"HIP_VISIBLE_DEVICES": "0"}, AmdSource),
    ],
)
def test_a_program_that_is_told_of_amds_gpus_is_asked_about_those_first(
    environ: dict[str, str], first: type
) -> None:
    kinds = [type(source) for source in vendors_of(environ=environ)]
    assert kinds[0] is first
    assert set(kinds) == {NvidiaSource, AmdSource, AppleSource}


def test_absence_is_explained_for_all_vendors_in_one_sentence(tmp_path: Path) -> None:
    gpus = MachineGpus(
        vendors=[nvidia(driver=False), AmdSource(root=tmp_path), apple(platform="linux")]
    )
    assert not gpus.probe()
    assert gpus.why_absent == (
        "NVML does not start: Driver Not Loaded; Linux knows no AMD GPU that computes; "
        "Apple's GPUs are found on macOS only"
    )
    assert (gpus.sample(), gpus.gpu_models(), gpus.pids(), gpus.recent_use(0.0)) == ((), (), {}, {})


def test_what_is_asked_goes_to_the_chosen_vendor(tmp_path: Path) -> None:
    sysfs = AmdSysfs(tmp_path)
    sysfs.process(7, vram={ACCELERATOR_ID: 10**9}, queues=(ACCELERATOR_ID,))
    gpus = MachineGpus(vendors=[nvidia(driver=False), sysfs.source()])
    assert gpus.pids() == {0: frozenset({7}), 1: frozenset()}
    sysfs.write(ACCELERATOR, "gpu_busy_percent", "many")
    assert gpus.sample(light=True)[0].gpu_util is None
    assert (gpus.failures, gpus.last_failure) == (1, "GPU 0, gpu_busy_percent says 'many'")


def test_the_drivers_memory_is_passed_on() -> None:
    nvml = FakeNvml([FakeGpu(samples=[(2_000_000, 40)])])
    gpus = MachineGpus(vendors=[NvidiaSource("0", nvml=nvml)])
    assert gpus.recent_use(1.0, only={0}) == {0: [(2.0, 40.0)]}
    gpus.close()
    assert gpus.recent_use(1.0) == {}


def test_vendors_that_are_not_chosen_are_let_go(tmp_path: Path) -> None:
    nvml = FakeNvml()
    hidden = NvidiaSource("", nvml=nvml)
    gpus = MachineGpus(vendors=[hidden, AmdSysfs(tmp_path).source()])
    assert gpus.probe()
    assert nvml.running == 0


def test_closing_lets_the_driver_go_and_ends_it() -> None:
    nvml = FakeNvml()
    gpus = MachineGpus(vendors=[NvidiaSource("0", nvml=nvml)])
    gpus.sample()
    gpus.close()
    assert nvml.running == 0
    for ask in (gpus.sample, gpus.pids, gpus.gpu_models):
        with pytest.raises(UsageError, match="closed"):
            ask()
