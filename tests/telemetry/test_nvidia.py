import sys
from typing import Any

import pytest

from epochal.telemetry import nvidia
from epochal.telemetry.nvidia import NvidiaSource, throttle_words
from tests.doubles.nvml import FakeGpu, FakeNvml, mixed_gpus

MIG = "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f"


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def source_of(nvml: FakeNvml, *, visible: str | None = "0,1", **options: Any) -> NvidiaSource:
    options.setdefault("order", "PCI_BUS_ID")
    options.setdefault("sleep", lambda _seconds: None)
    return NvidiaSource(visible, nvml=nvml, **options)


def test_every_field_is_read_with_the_tables_units() -> None:
    first, second = source_of(FakeNvml()).sample()
    assert (first.id, second.id) == (0, 1)
    assert first.name == "NVIDIA H200"
    assert first.uuid == "GPU-7a539482-5e14-49d3-57cd-674508334e28"
    # The counters of PCIe stand still in this double; shares of the chip need a second sample.
    assert first.readings() == {
        "clock": 1740,
        "max_clock": 1980,
        "power": 620_337,
        "power_limit": 700_000,
        "temperature": 58,
        "temp_slowdown": 89,
        "gpu_util": 99.0,
        "mem_util": 29.0,
        "dram_free": 148_955_594_752,
        "dram_used": 1_799_225_344,
        "dram_total": 150_754_820_096,
        "fan": 65,
        "throttle": "",
        "energy": 0,
        "ecc_corrected": 0,
        "ecc_uncorrected": 0,
    }


def test_passive_cooling_has_no_fan_speed() -> None:
    (sample,) = source_of(FakeNvml(unsupported=["nvmlDeviceGetFanSpeed"]), visible="0").sample()
    assert sample.fan is None


def test_gpu_that_answers_nothing_has_only_absent_fields() -> None:
    source = source_of(FakeNvml(unsupported=["*"]), visible="0")
    (sample,) = source.sample()
    assert sample.readings() == {}
    assert source.failures == 0


def test_refused_question_is_not_asked_again() -> None:
    nvml = FakeNvml(unsupported=["nvmlDeviceGetFanSpeed"])
    source = source_of(nvml, visible="0")
    source.sample()
    source.sample()
    assert nvml.calls.count("nvmlDeviceGetFanSpeed") == 1


def test_use_is_the_mean_of_the_drivers_samples_since_the_last_call() -> None:
    gpu = FakeGpu(gpu_util=7, samples=[(10, 100), (20, 100)])
    source = source_of(FakeNvml([gpu]))
    assert source.sample()[0].gpu_util == 7.0
    gpu.samples += [(30, 50), (40, 53), (50, 4_000_000)]
    assert source.sample()[0].gpu_util == 51.5
    assert source.sample()[0].gpu_util == 7.0


def test_power_is_energy_over_time() -> None:
    gpu, clock = FakeGpu(energy=5_000_000, power=1), Clock()
    source = source_of(FakeNvml([gpu]), clock=clock)
    source.sample()
    gpu.energy += 1_200_000
    clock.now_s += 2.0
    assert source.sample()[0].power == 600_000


@pytest.mark.parametrize(("spent_mj", "elapsed_s"), [(-4_000_000, 2.0), (60_000, 0.1)])
def test_power_is_the_drivers_figure_when_the_counter_says_nothing(
    spent_mj: int, elapsed_s: float
) -> None:
    gpu, clock = FakeGpu(energy=5_000_000, power=123), Clock()
    source = source_of(FakeNvml([gpu]), clock=clock)
    source.sample()
    gpu.energy += spent_mj
    clock.now_s += elapsed_s
    assert source.sample()[0].power == 123


def test_short_intervals_add_up_to_one_that_counts() -> None:
    gpu, clock = FakeGpu(energy=0, power=123), Clock()
    source = source_of(FakeNvml([gpu]), clock=clock)
    powers = []
    for _ in range(4):
        powers.append(source.sample()[0].power)
        gpu.energy += 120_000
        clock.now_s += 0.2
    assert powers == [123, 123, 123, 600_000]


def test_pcie_rate_survives_a_counter_that_wraps() -> None:
    gpu = FakeGpu(pcie_received=2**32 - 1_000_000, pcie_sent=0)

    def pass_time(seconds: float) -> None:
        gpu.pcie_received += 1_200_000
        gpu.pcie_sent += 40_000
        gpu.pcie_timestamp_us += int(seconds * 1e6)

    (sample,) = source_of(FakeNvml([gpu]), sleep=pass_time).sample()
    assert (sample.pcie_rx, sample.pcie_tx) == (60_000_000, 2_000_000)


def test_pcie_without_counters_is_the_drivers_figure() -> None:
    nvml = FakeNvml(unsupported=["nvmlDeviceGetFieldValues"])
    (sample,) = source_of(nvml, visible="0").sample()
    assert (sample.pcie_rx, sample.pcie_tx) == (581_000, 745_000)


def test_quick_sample_asks_nothing_slow_and_does_not_sleep() -> None:
    nvml = FakeNvml()
    slept: list[float] = []
    (sample, _) = source_of(nvml, quick=True, sleep=slept.append).sample()
    slow = {"FieldValues", "PcieThroughput", "TotalEnergyConsumption"}
    assert not {call.removeprefix("nvmlDeviceGet") for call in nvml.calls} & slow
    assert slept == []
    assert (sample.power, sample.pcie_rx) == (620_337, None)


@pytest.mark.parametrize(
    ("reasons", "words"),
    [
        (None, None),
        (0x0, ""),
        (0x1, "idle"),
        (0x4, "power cap"),
        (0x8 | 0x80, "power cap"),
        (0x4 | 0x20, "thermal cap"),
        (0x8 | 0x40, "thermal cap"),
        (0x8, "other cap"),
        (0x2, "other cap"),
    ],
)
def test_gravest_throttle_reason_is_named(reasons: int | None, words: str | None) -> None:
    assert throttle_words(reasons) == words


def test_lost_gpu_is_absent_and_counted_once_while_the_other_goes_on() -> None:
    nvml = FakeNvml()
    source = source_of(nvml)
    source.sample()
    nvml.gpus[0].lost = True
    lost, healthy = source.sample()
    source.sample()
    assert (lost.id, lost.clock, lost.dram_total) == (0, None, None)
    assert healthy.clock == 1740
    assert source.failures == 1
    assert source.last_failure == "GPU 0, pcie_count: GPU is lost"


def test_visible_numbers_follow_pci_order_not_nvmls() -> None:
    (sample,) = source_of(FakeNvml(mixed_gpus()), visible="0").sample()
    assert sample.name == "Tesla T4"
    assert sample.id == 1


def test_visible_numbers_follow_speed_by_default() -> None:
    nvml = FakeNvml(mixed_gpus())
    samples = source_of(nvml, visible="0,1", order="FASTEST_FIRST").sample()
    assert [sample.name for sample in samples] == ["NVIDIA H200", "Tesla T4"]


def test_visible_uuid_picks_its_gpu() -> None:
    (sample,) = source_of(FakeNvml(), visible="GPU-91c2d100").sample()
    assert sample.id == 1


def test_mig_device_counts_as_its_gpu() -> None:
    (sample,) = source_of(FakeNvml(), visible=MIG).sample()
    assert sample.id == 1


@pytest.mark.parametrize("visible", ["", "MIG-unknown", "9"])
def test_no_visible_gpu_is_absence_with_a_reason(visible: str) -> None:
    source = source_of(FakeNvml(), visible=visible)
    assert not source.probe()
    assert source.sample() == ()
    assert source.why_absent


def test_environment_is_read_when_nothing_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    (sample,) = NvidiaSource(nvml=FakeNvml(mixed_gpus()), quick=True).sample()
    assert sample.name == "NVIDIA H200"


def test_missing_driver_is_absence_with_a_reason() -> None:
    source = source_of(FakeNvml(driver=False))
    assert not source.probe()
    assert source.why_absent == "NVML does not start: Driver Not Loaded"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the binding looks for itself")
def test_without_the_drivers_library_the_binding_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvidia, "_LIBRARY", "libnowhere.so.1")
    monkeypatch.setitem(sys.modules, "pynvml", None)  # importing it would be an ImportError
    source = NvidiaSource()
    assert not source.probe()
    assert source.why_absent == "NVML does not start: libnowhere.so.1 is not installed"


def test_models_have_the_fields_of_a_gpu_model_record() -> None:
    (model, _) = source_of(FakeNvml()).gpu_models()
    assert (model.name, model.sm_count, model.major, model.minor) == ("NVIDIA H200", 132, 9, 0)
    assert (model.memory, model.free) == (150_754_820_096, 148_955_594_752)
    assert (model.ecc, model.cuda_driver) == (True, 13_000)
    assert (model.l2_size, model.cuda_runtime) == (None, None)


def test_unknown_architecture_has_no_multiprocessor_count() -> None:
    (model,) = source_of(FakeNvml([FakeGpu(capability=(99, 0))])).gpu_models()
    assert model.sm_count is None


def test_close_leaves_nvml_once() -> None:
    nvml = FakeNvml()
    source = source_of(nvml)
    source.sample()
    source.close()
    source.close()
    assert nvml.running == 0


def test_shares_of_the_chips_parts_come_with_the_second_sample() -> None:
    source = source_of(FakeNvml(), visible="0")
    source.sample()
    (sample,) = source.sample()
    assert (sample.sm_active, sample.tensor_active, sample.dram_active) == (81.2, 44.0, 37.5)


def test_a_gpu_without_such_counters_has_no_shares() -> None:
    source = source_of(FakeNvml([FakeGpu(gpm=None)]), visible="0")
    source.sample()
    assert source.sample()[0].sm_active is None


def test_a_binding_without_such_functions_is_no_fault() -> None:
    nvml = FakeNvml(unsupported=["nvmlGpmSampleGet"])
    source = source_of(nvml, visible="0")
    assert [source.sample()[0].sm_active for _ in range(2)] == [None, None]
    assert (nvml.gpm_samples, source.failures) == (0, 0)


def test_closing_gives_the_samples_of_the_counters_back() -> None:
    nvml = FakeNvml()
    source = source_of(nvml)
    source.sample()
    assert nvml.gpm_samples == 4
    source.close()
    assert nvml.gpm_samples == 0


def test_energy_counts_from_the_first_sample() -> None:
    clock, gpu = Clock(), FakeGpu(energy=5_000_000)
    source = source_of(FakeNvml([gpu]), visible="0", clock=clock)
    source.sample()
    clock.now_s, gpu.energy = 110.0, 12_600_000
    assert source.sample()[0].energy == 7


def test_ecc_errors_are_counted() -> None:
    (sample,) = source_of(FakeNvml([FakeGpu(ecc_errors=(4, 1))]), visible="0").sample()
    assert (sample.ecc_corrected, sample.ecc_uncorrected) == (4, 1)


def test_quick_reading_leaves_the_counters_alone() -> None:
    nvml = FakeNvml()
    source_of(nvml, visible="0", quick=True).sample()
    assert not {"nvmlGpmSampleGet", "nvmlDeviceGetTotalEccErrors"} & set(nvml.calls)


def test_only_the_gpus_that_are_asked_for_are_read() -> None:
    source = source_of(FakeNvml())
    assert [sample.id for sample in source.sample(only={1})] == [1]


def test_who_computes_on_each_gpu() -> None:
    nvml = FakeNvml([FakeGpu(pids=[7, 9])])
    assert source_of(nvml, visible="0").pids() == {0: frozenset({7, 9})}
    nvml = FakeNvml(unsupported=["nvmlDeviceGetComputeRunningProcesses"])
    assert source_of(nvml, visible="0").pids() == {0: None}
    assert source_of(FakeNvml(driver=False)).pids() == {}


def test_a_light_reading_asks_for_nothing_dear_and_leaves_the_next_full_one_whole() -> None:
    clock, gpu = Clock(), FakeGpu(energy=0, samples=[(1, 10)], gpu_util=77)
    nvml = FakeNvml([gpu])
    source = source_of(nvml, visible="0", clock=clock)
    source.sample()
    nvml.calls.clear()
    clock.now_s, gpu.energy, gpu.samples = 105.0, 3_000_000, [(1, 10), (2, 20)]
    (light,) = source.sample(light=True)
    assert (light.power, light.gpu_util, light.energy) == (620_337, 77.0, None)
    assert light.sm_active == 81.2
    dear = {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetSamples"}
    assert not dear & set(nvml.calls)
    clock.now_s, gpu.energy, gpu.samples = 110.0, 6_000_000, [(1, 10), (2, 20), (3, 40)]
    (full,) = source.sample()
    assert (full.power, full.gpu_util, full.energy) == (600_000, 30.0, 6)


def test_the_drivers_memory_of_use_is_given_in_the_order_of_time() -> None:
    nvml = FakeNvml()
    nvml.gpus[0].samples = [(2_000_000, 40), (1_000_000, 30), (3_000_000, 50)]
    source = NvidiaSource("0", nvml=nvml)
    assert source.recent_use(1.5)[0] == [(2.0, 40.0), (3.0, 50.0)]
    assert source.recent_use(9.0) == {}
    source.close()
    assert source.recent_use(0.0) == {}
