import errno
import shutil
from pathlib import Path

import pytest

from epochal.telemetry.amd import AmdSource
from epochal.telemetry.gpu import GPU_METRICS, GpuSample
from tests.doubles.amd_sysfs import (
    ACCELERATOR,
    ACCELERATOR_ID,
    ACCELERATOR_UUID,
    GAMING,
    GAMING_ID,
    GAMING_UUID,
    AmdSysfs,
)


@pytest.fixture
def sysfs(tmp_path: Path) -> AmdSysfs:
    return AmdSysfs(tmp_path)


def values(sample: GpuSample) -> dict[str, object]:
    found = {metric.name: getattr(sample, metric.attribute) for metric in GPU_METRICS}
    return {name: value for name, value in found.items() if value is not None}


def test_every_field_is_read_with_the_tables_units(sysfs: AmdSysfs) -> None:
    accelerator, gaming = sysfs.source().sample()
    assert (accelerator.id, accelerator.name) == (0, "AMD Instinct MI300X OAM")
    assert accelerator.uuid == ACCELERATOR_UUID
    assert values(accelerator) == {
        "clock": 1893,
        "max_clock": 2100,
        "power": 702_000,
        "power_limit": 750_000,
        "temperature": 71,
        "temp_slowdown": 100,
        "gpu_util": 97.0,
        "mem_util": 41.0,
        "dram_free": 68_702_699_520,
        "dram_used": 137_438_953_472,
        "dram_total": 206_141_652_992,
    }
    assert (gaming.id, gaming.name, gaming.uuid) == (1, "AMD Radeon RX 7900 XTX", GAMING_UUID)
    assert values(gaming) == {
        "clock": 500,
        "max_clock": 2482,
        "power": 29_000,
        "power_limit": 327_000,
        "temperature": 48,
        "temp_slowdown": 100,
        "gpu_util": 3.0,
        "mem_util": 1.0,
        "dram_free": 24_463_278_080,
        "dram_used": 1_289_748_480,
        "dram_total": 25_753_026_560,
        "fan": 20,
    }


def test_models_have_compute_units_and_the_version_of_the_instruction_set(sysfs: AmdSysfs) -> None:
    accelerator, gaming = sysfs.source().gpu_models()
    assert (accelerator.sm_count, accelerator.major, accelerator.minor) == (304, 9, 4)
    assert (accelerator.memory, accelerator.free) == (206_141_652_992, 68_702_699_520)
    assert (accelerator.uuid, accelerator.cuda_driver) == (ACCELERATOR_UUID, None)
    assert (gaming.sm_count, gaming.major, gaming.minor) == (96, 11, 0)


def test_a_full_reading_is_the_mean_since_the_last_and_a_light_one_the_moment(
    sysfs: AmdSysfs,
) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "0"})
    source.sample()
    seen = []
    for percent, microwatts in ((10, 100_000_000), (20, 200_000_000)):
        sysfs.write(ACCELERATOR, "gpu_busy_percent", str(percent))
        sysfs.write(ACCELERATOR, "hwmon/hwmon7/power1_input", str(microwatts))
        (light,) = source.sample(light=True)
        seen.append((light.gpu_util, light.power))
    assert seen == [(10.0, 100_000), (20.0, 200_000)]
    (full,) = source.sample()
    assert (full.gpu_util, full.power) == (16.7, 166_667)
    (again,) = source.sample()
    assert (again.gpu_util, again.power) == (20.0, 200_000)


def test_a_card_whose_name_is_in_no_list_is_called_after_its_instruction_set(
    sysfs: AmdSysfs,
) -> None:
    sysfs.names.unlink()
    sysfs.remove(ACCELERATOR, "product_name")
    assert [one.name for one in sysfs.source().sample()] == ["AMD gfx942", "AMD gfx1100"]


def test_the_clock_of_kfd_stands_in_for_levels_that_are_missing(sysfs: AmdSysfs) -> None:
    sysfs.remove(GAMING, "pp_dpm_sclk")
    _, gaming = sysfs.source().sample()
    assert (gaming.clock, gaming.max_clock) == (None, 2482)


def test_a_level_of_sleep_is_a_clock_too(sysfs: AmdSysfs) -> None:
    sysfs.write(GAMING, "pp_dpm_sclk", "S: 19Mhz *\n0: 500Mhz\n1: 2482Mhz")
    assert sysfs.source().sample()[1].clock == 19


def test_missing_files_are_absent_and_no_fault(sysfs: AmdSysfs) -> None:
    shutil.rmtree(sysfs.device(GAMING) / "hwmon")
    for file in ("gpu_busy_percent", "mem_busy_percent", "unique_id", "mem_info_vram_used"):
        sysfs.remove(GAMING, file)
    source = sysfs.source()
    _, gaming = source.sample()
    assert values(gaming) == {"clock": 500, "max_clock": 2482, "dram_total": 25_753_026_560}
    assert gaming.uuid == GAMING_UUID  # as KFD has it
    assert source.failures == 0


@pytest.mark.parametrize("number", [errno.EPERM, errno.EIO, errno.EBUSY, errno.ENODEV])
def test_what_cannot_be_read_is_absent_and_counted_until_it_can(
    sysfs: AmdSysfs, number: int
) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "0"})
    sysfs.errors["gpu_busy_percent"] = number
    (sample,) = source.sample()
    assert (sample.gpu_util, sample.clock, source.failures) == (None, 1893, 1)
    assert (source.last_failure or "").startswith("GPU 0, gpu_busy_percent: ")
    sysfs.errors.clear()
    assert source.sample()[0].gpu_util == 97.0


@pytest.mark.parametrize("number", [errno.EOPNOTSUPP, errno.EINVAL, errno.EACCES])
def test_what_the_driver_refuses_is_absent_and_not_asked_again(
    sysfs: AmdSysfs, number: int
) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "0"})
    sysfs.errors["mem_busy_percent"] = number
    assert [source.sample()[0].mem_util for _ in range(2)] == [None, None]
    assert (sysfs.reads.count("mem_busy_percent"), source.failures) == (1, 0)


@pytest.mark.parametrize("text", ["", "65535", "-1", "n/a", "\x00\ufffd", "9" * 40, "1_0"])
def test_nonsense_is_absent(sysfs: AmdSysfs, text: str) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "0"})
    sysfs.write(ACCELERATOR, "gpu_busy_percent", text)
    assert source.sample()[0].gpu_util is None
    assert source.failures == (1 if text else 0)


def test_bytes_that_are_no_text_are_absent(sysfs: AmdSysfs) -> None:
    (sysfs.device(ACCELERATOR) / "pp_dpm_sclk").write_bytes(b"\xff\xfe 2: \xff")
    (sysfs.device(ACCELERATOR) / "mem_info_vram_used").write_bytes(b"\xff\xfe")
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "0"})
    (sample,) = source.sample()
    assert (sample.max_clock, sample.dram_used, sample.dram_free) == (2100, None, None)
    assert source.last_failure == "GPU 0, mem_info_vram_used says '��'"


def test_a_card_that_has_gone_is_counted_once_while_the_other_goes_on(sysfs: AmdSysfs) -> None:
    source = sysfs.source()
    source.sample()
    shutil.rmtree(sysfs.device(ACCELERATOR))
    gone, gaming = source.sample()
    source.sample()
    assert gone == GpuSample(0, name="AMD Instinct MI300X OAM", uuid=ACCELERATOR_UUID)
    assert gaming.clock == 500
    assert (source.failures, source.last_failure) == (1, "GPU 0, the card has gone")


def test_a_sleeping_card_is_not_woken(sysfs: AmdSysfs) -> None:
    sysfs.write(GAMING, "power/runtime_status", "suspended")
    sysfs.errors = dict.fromkeys(("temp1_input", "power1_average", "_percent"), errno.EPERM)
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "1"})
    assert set(values(source.sample()[0])) == {"max_clock", "dram_used", "dram_free", "dram_total"}
    assert source.failures == 0


def test_sensors_are_found_again_under_another_number(sysfs: AmdSysfs) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "1"})
    source.sample()
    hwmon = sysfs.device(GAMING) / "hwmon"
    (hwmon / "hwmon3").rename(hwmon / "hwmon9")
    assert source.sample()[0].temperature == 48


def test_one_sensor_is_kept_to(sysfs: AmdSysfs) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "1"})
    source.sample()
    sysfs.errors["temp1_input"] = errno.EBUSY
    assert source.sample()[0].temperature is None


def test_sensors_without_labels_are_edge_and_junction(sysfs: AmdSysfs) -> None:
    for file in ("temp1_label", "temp2_label"):
        sysfs.remove(GAMING, f"hwmon/hwmon3/{file}")
    assert sysfs.source().sample()[1].temperature == 48


def test_only_the_gpus_that_are_asked_for_are_read(sysfs: AmdSysfs) -> None:
    assert [sample.id for sample in sysfs.source().sample(only={1})] == [1]


@pytest.mark.parametrize(
    ("environ", "ids"),
    [
        ({}, [0, 1]),
        ({"ROCR_VISIBLE_DEVICES": "1"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": f"{GAMING_UUID},0"}, [1, 0]),
        ({"ROCR_VISIBLE_DEVICES": "1,0", "HIP_VISIBLE_DEVICES": "0"}, [1]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
    ],
)
def test_the_gpus_of_a_program_are_those_it_is_shown(
    sysfs: AmdSysfs, environ: dict[str, str], ids: list[int]
) -> None:
    assert [sample.id for sample in sysfs.source(environ).sample()] == ids
    assert [sample.id for sample in sysfs.source(environ, every=True).sample()] == [0, 1]


def test_the_process_s_own_variables_are_read_when_none_are_given(
    sysfs: AmdSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    (sample,) = AmdSource(root=sysfs.root, name_lists=[]).sample()
    assert sample.id == 1


def test_hidden_gpus_are_absence_with_a_reason(sysfs: AmdSysfs) -> None:
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": ""})
    assert not source.probe()
    assert source.sample() == ()
    assert source.why_absent == "no AMD GPU is visible to this process"


def test_a_node_that_a_container_may_not_use_is_not_counted(sysfs: AmdSysfs) -> None:
    sysfs.hide_node(1)
    source = sysfs.source()
    assert [(one.id, one.uuid) for one in source.sample()] == [(0, GAMING_UUID)]
    assert source.failures == 0


def test_an_integrated_gpu_counts_where_it_computes(sysfs: AmdSysfs) -> None:
    shutil.rmtree(sysfs.root / "class/kfd/kfd/topology/nodes/2")
    assert [one.id for one in sysfs.source().sample()] == [0]


def test_without_kfd_the_discrete_gpus_count_in_pci_order(sysfs: AmdSysfs) -> None:
    shutil.rmtree(sysfs.root / "class/kfd")
    source = sysfs.source()
    assert [one.uuid for one in source.sample()] == [GAMING_UUID, ACCELERATOR_UUID]
    assert [one.sm_count for one in source.gpu_models()] == [None, None]
    assert source.pids() == {0: None, 1: None}
    sysfs.remove(GAMING, "hwmon/hwmon3/power1_cap")  # as on integrated ones
    assert [one.uuid for one in sysfs.source().sample()] == [ACCELERATOR_UUID]


def test_partitions_of_a_card_are_gpus_with_its_readings(sysfs: AmdSysfs) -> None:
    properties = (sysfs.root / "class/kfd/kfd/topology/nodes/1/properties").read_text()
    partition = properties.replace("simd_count 1216", "simd_count 608")
    partition = partition.replace("location_id 49408", "location_id 49409")
    sysfs.node(3, gpu_id=28852, name="ip discovery", properties=partition)
    source = sysfs.source({"ROCR_VISIBLE_DEVICES": "2"})
    assert (source.sample()[0].id, source.sample()[0].temperature) == (2, 71)
    assert source.gpu_models()[0].sm_count == 152


def test_a_machine_without_amd_gpus_says_so(tmp_path: Path) -> None:
    source = AmdSource(root=tmp_path)
    assert not source.probe()
    assert (source.sample(), source.gpu_models(), source.pids()) == ((), (), {})
    assert source.why_absent == "Linux knows no AMD GPU that computes"


def test_who_computes_on_each_gpu(sysfs: AmdSysfs) -> None:
    everywhere = {ACCELERATOR_ID: 4096, GAMING_ID: 4096}
    sysfs.process(7, vram={**everywhere, ACCELERATOR_ID: 10**9}, queues=(ACCELERATOR_ID,) * 2)
    sysfs.process(9, vram={ACCELERATOR_ID: 1 << 20, GAMING_ID: 0})
    assert sysfs.source().pids() == {0: frozenset({7, 9}), 1: frozenset()}


def test_the_processes_of_a_container_are_not_told(sysfs: AmdSysfs) -> None:
    sysfs.process(7, vram={ACCELERATOR_ID: 10**9}, queues=(ACCELERATOR_ID,))
    sysfs.enter_namespace(4026532281)
    assert sysfs.source().pids() == {0: None, 1: None}


def test_a_process_that_ends_meanwhile_is_no_fault(sysfs: AmdSysfs) -> None:
    sysfs.process(7, vram={ACCELERATOR_ID: 10**9}, queues=(ACCELERATOR_ID,))
    sysfs.errors = {"gpuid": errno.ENODEV, f"vram_{ACCELERATOR_ID}": errno.ENODEV}
    source = sysfs.source()
    assert source.pids() == {0: frozenset(), 1: frozenset()}
    assert source.failures == 0


def test_nonsense_of_kfd_is_counted(sysfs: AmdSysfs) -> None:
    sysfs.node(1, gpu_id=ACCELERATOR_ID, name="", properties="simd_count many\nlocation_id")
    (sysfs.root / "class/kfd/kfd/topology/nodes/2/gpu_id").write_text("none\n")
    source = sysfs.source()
    assert not source.probe()
    assert (source.failures, source.last_failure) == (1, "KFD, gpu_id says 'none'")


def test_the_driver_remembers_no_use(sysfs: AmdSysfs) -> None:
    assert sysfs.source().recent_use(0.0) == {}
