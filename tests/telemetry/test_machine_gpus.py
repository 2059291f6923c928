from typing import Any

import pytest

from epochal.telemetry.amd import AmdSource
from epochal.telemetry.gpu import GpuSource
from epochal.telemetry.machine_gpus import MachineGpus, UsedGpus, vendors_of
from epochal.telemetry.nvidia import NvidiaSource
from tests.doubles.amdsmi import FakeAmdSmi
from tests.doubles.nvml import FakeGpu, FakeNvml


def nvidia(visible: str = "0,1", **options: Any) -> NvidiaSource:
    return NvidiaSource(visible, nvml=FakeNvml(**options), sleep=lambda _seconds: None)


def amd(**environ: str) -> AmdSource:
    return AmdSource(amdsmi=FakeAmdSmi(num=1), environ=environ)


def names(*vendors: GpuSource) -> list[str | None]:
    return [sample.name for sample in MachineGpus(vendors=vendors).sample()]


def test_the_first_vendor_that_finds_a_gpu_is_the_machines() -> None:
    assert names(nvidia(), amd()) == ["NVIDIA H200", "NVIDIA H200"]
    assert names(nvidia(driver=False), amd()) == ["AMD Instinct MI300X OAM"]


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
    assert type(vendors_of(environ=environ)[0]) is first


def test_absence_is_explained_for_all_vendors_in_one_sentence() -> None:
    gpus = MachineGpus(vendors=[nvidia(driver=False), amd(ROCR_VISIBLE_DEVICES="")])
    assert not gpus.probe()
    assert gpus.why_absent == (
        "NVML does not start: Driver Not Loaded; no AMD GPU is visible to this process"
    )
    assert (gpus.sample(), gpus.gpu_models(), gpus.pids(), gpus.recent_use(0.0)) == ((), (), {}, {})


def test_what_is_asked_goes_to_the_chosen_vendor() -> None:
    nvml = FakeNvml([FakeGpu(samples=[(2_000_000, 40)], pids=[7])])
    gpus = MachineGpus(vendors=[NvidiaSource("0", nvml=nvml), amd()])
    assert [sample.id for sample in gpus.sample(only={0}, light=True)] == [0]
    assert gpus.recent_use(1.0, only={0}) == {0: [(2.0, 40.0)]}
    assert gpus.pids() == {0: frozenset({7})}
    nvml.gpus[0].lost = True
    gpus.sample()
    gpus.close()
    assert (gpus.failures, gpus.last_failure) == (1, "GPU 0, pcie_count: GPU is lost")


def test_drivers_are_released_when_they_are_not_chosen_and_at_the_end() -> None:
    hidden, shown = FakeNvml(), FakeNvml()
    gpus = MachineGpus(vendors=[NvidiaSource("", nvml=hidden), NvidiaSource("0", nvml=shown)])
    gpus.sample()
    assert (hidden.running, shown.running) == (0, 1)
    gpus.close()
    assert (shown.running, gpus.sample()) == (0, ())


# -- the GPUs that a run uses -------------------------------------------------------------------


def test_a_single_visible_gpu_is_used() -> None:
    assert UsedGpus([3]).ids == {3}


def test_of_several_those_are_used_that_the_runs_processes_compute_on() -> None:
    used = UsedGpus([0, 1, 2, 3])
    assert used.ids == frozenset()
    used.learn({0: frozenset({9}), 1: frozenset({7, 9}), 2: frozenset(), 3: None}, own={7}, age_s=1)
    assert used.ids == {1}


def test_a_gpu_that_was_used_once_stays_used() -> None:
    used = UsedGpus([0, 1])
    used.learn({0: frozenset({7}), 1: frozenset()}, own={7}, age_s=1)
    used.learn({0: frozenset(), 1: frozenset({7})}, own={7}, age_s=2)
    assert used.ids == {0, 1}
    assert used.is_complete


def test_where_processes_are_hidden_every_visible_gpu_counts_until_more_is_known() -> None:
    used = UsedGpus([0, 1])
    used.learn({0: frozenset(), 1: None}, own={7}, age_s=59)
    assert used.ids == frozenset()
    used.learn({0: frozenset(), 1: None}, own={7}, age_s=60)
    assert used.ids == {0, 1}
    used.learn({0: frozenset(), 1: frozenset({7})}, own={7}, age_s=70)
    assert used.ids == {1}


def test_other_peoples_processes_are_a_sign_that_ours_would_be_seen() -> None:
    used = UsedGpus([0, 1])
    used.learn({0: frozenset({9}), 1: frozenset()}, own={7}, age_s=600)
    assert used.ids == frozenset()


def test_beside_other_ranks_there_is_always_more_to_learn() -> None:
    used = UsedGpus([0], others=True)
    used.learn({0: frozenset({7}), 1: frozenset({8})}, own={7, 8}, age_s=1)
    assert used.ids == {0, 1}
    assert not used.is_complete
