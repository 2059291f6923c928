import subprocess

import pytest

from epochal.telemetry.apple import AppleSource
from epochal.telemetry.gpu import GpuModel, GpuSample
from tests.doubles.ioreg import GIB, Ioreg, accelerator, intel_accelerator, statistics


def source_of(ioreg: Ioreg, *, platform: str = "darwin") -> AppleSource:
    return AppleSource(platform=platform, run=ioreg, ram_bytes=lambda: 32 * GIB, clock=ioreg.clock)


def test_use_and_memory_are_read_and_nothing_else_is_claimed() -> None:
    (sample,) = source_of(Ioreg()).sample()
    assert sample == GpuSample(
        0, name="Apple M2 Pro", gpu_util=94.0, dram_used=6_120_144_896, dram_total=32 * GIB
    )


def test_the_model_has_its_cores_and_the_machines_memory() -> None:
    (model,) = source_of(Ioreg()).gpu_models()
    assert model == GpuModel(0, name="Apple M2 Pro", sm_count=19, memory=32 * GIB)


def test_an_ordinary_user_s_command_is_run() -> None:
    ioreg = Ioreg()
    source_of(ioreg).sample()
    assert " ".join(ioreg.commands[0]) == "/usr/sbin/ioreg -r -d 1 -w 0 -c IOAccelerator -a"


def test_every_second_s_readings_share_answers_and_a_small_part_of_the_time() -> None:
    ioreg = Ioreg(cost_s=0.02)
    source = source_of(ioreg)
    began_s = ioreg.now_s
    for _ in range(60):
        source.sample(light=True)
        ioreg.now_s += 1.0
    assert 10 <= len(ioreg.commands) <= 15
    assert ioreg.cost_s * len(ioreg.commands) < 0.006 * (ioreg.now_s - began_s)


def test_an_answer_is_never_older_than_a_record_however_dear_it_is() -> None:
    ioreg = Ioreg(cost_s=0.5)
    source = source_of(ioreg)
    source.sample()
    ioreg.now_s += 10.0
    source.sample()
    assert len(ioreg.commands) == 2


def test_a_full_reading_is_the_mean_of_the_answers_since_the_last() -> None:
    ioreg = Ioreg(cost_s=0.0)
    source = source_of(ioreg)
    source.sample()
    lights = []
    for percent in (10, 20):
        ioreg.use(percent)
        ioreg.now_s += 2.0
        lights += [source.sample(light=True)[0].gpu_util for _ in range(3)]
    assert lights == [10.0, 10.0, 10.0, 20.0, 20.0, 20.0]
    assert [source.sample()[0].gpu_util for _ in range(2)] == [15.0, 20.0]


@pytest.mark.parametrize(
    "fault",
    [
        FileNotFoundError(2, "No such file or directory"),
        subprocess.TimeoutExpired("ioreg", 2.0),
        subprocess.CalledProcessError(1, "ioreg"),
    ],
)
def test_no_answer_is_absent_and_counted_and_not_asked_for_at_once(fault: Exception) -> None:
    ioreg = Ioreg()
    source = source_of(ioreg)
    source.sample()
    ioreg.fault = fault
    ioreg.now_s += 10.0
    (sample,) = source.sample()
    assert (sample.gpu_util, sample.dram_used, sample.dram_total) == (None, None, 32 * GIB)
    assert source.failures == 1
    assert (source.last_failure or "").startswith("ioreg: ")
    ioreg.fault = None
    ioreg.now_s += 30.0
    assert source.sample()[0].gpu_util is None
    ioreg.now_s += 31.0
    assert (source.sample()[0].gpu_util, len(ioreg.commands)) == (94.0, 3)


@pytest.mark.parametrize(
    "printed",
    [
        b"garbage",
        b"<plist><array><dict>",
        b"\xff\xfe\x00",
        b"bplist00\x00",
        b"<plist><dict/></plist>",
    ],
)
def test_what_is_no_list_of_accelerators_is_counted(printed: bytes) -> None:
    ioreg = Ioreg()
    ioreg.printed = printed
    source = source_of(ioreg)
    assert not source.probe()
    assert source.failures == 1
    assert source.why_absent == source.last_failure


@pytest.mark.parametrize(
    "said",
    [
        "busy",
        {},
        {"Device Utilization %": "94", "In use system memory": -1},
        {"Device Utilization %": 4_000, "In use system memory": 1.5},
        {"Device Utilization %": True},
    ],
)
def test_statistics_of_another_kind_are_absent(said: object) -> None:
    source = source_of(Ioreg(accelerator(PerformanceStatistics=said)))
    (sample,) = source.sample()
    assert (sample.gpu_util, sample.dram_used, source.failures) == (None, None, 0)


def test_a_name_may_be_bytes_or_missing() -> None:
    named = accelerator(model=b"Apple M1\x00")
    nameless = accelerator()
    del nameless["model"], nameless["gpu-core-count"]
    models = source_of(Ioreg(named, nameless)).gpu_models()
    assert [(one.id, one.name, one.sm_count) for one in models] == [
        (0, "Apple M1", 19),
        (1, "Apple GPU", None),
    ]


def test_gpus_of_other_makers_are_left_out() -> None:
    source = source_of(Ioreg(intel_accelerator()))
    assert not source.probe()
    assert source.why_absent == "macOS lists no GPU of Apple's"


def test_a_gpu_that_is_listed_no_more_has_no_readings() -> None:
    ioreg = Ioreg()
    source = source_of(ioreg)
    source.sample()
    ioreg.printed = b"\n"
    ioreg.now_s += 10.0
    assert source.sample()[0].gpu_util is None


def test_elsewhere_nothing_is_run() -> None:
    ioreg = Ioreg()
    source = source_of(ioreg, platform="linux")
    assert not source.probe()
    assert source.why_absent == "Apple's GPUs are found on macOS only"
    assert ioreg.commands == []


def test_who_computes_and_what_was_before_are_not_told() -> None:
    source = source_of(Ioreg(accelerator(), accelerator(PerformanceStatistics=statistics())))
    assert source.pids() == {0: None, 1: None}
    assert source.recent_use(0.0) == {}


def test_a_real_command_that_is_missing_is_a_failure_like_any() -> None:
    source = AppleSource(platform="darwin", ram_bytes=lambda: GIB)
    if source.probe():
        pytest.skip("this is a Mac")
    assert source.failures == 1
