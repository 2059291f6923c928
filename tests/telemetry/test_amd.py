"""The readings of AMD GPUs, against a double of the ``amdsmi`` package."""

from pathlib import Path

import pytest

from epochal.telemetry import amd
from epochal.telemetry.amd import AmdSource
from epochal.telemetry.gpu import GpuModel, GpuSample
from tests.doubles.amdsmi import NOT_SUPPORTED, FakeAmdSmi

MIB = 1024**2


def source_of(amdsmi: FakeAmdSmi, **environ: str) -> AmdSource:
    return AmdSource(amdsmi=amdsmi, environ=environ)


def test_every_reading_has_the_unit_of_the_record() -> None:
    first, second = source_of(FakeAmdSmi()).sample()
    assert second.id == 1
    assert first == GpuSample(
        id=0,
        name="AMD Instinct MI300X OAM",
        uuid="GPU-0f53b1e6a7c2d910",
        clock=2101,
        max_clock=2100,
        power=702_000,
        power_limit=750_000,
        temperature=71,
        temp_slowdown=100,
        gpu_util=98,
        mem_util=41,
        dram_free=46_592 * MIB,
        dram_used=150_000 * MIB,
        dram_total=196_592 * MIB,
    )


def test_models_have_the_fields_of_a_gpu_model_record() -> None:
    (model, _) = source_of(FakeAmdSmi()).gpu_models()
    assert model == GpuModel(
        id=0,
        name="AMD Instinct MI300X OAM",
        sm_count=304,
        major=9,
        minor=4,
        memory=196_592 * MIB,
        free=46_592 * MIB,
        uuid="GPU-0f53b1e6a7c2d910",
    )


def test_a_full_reading_is_the_mean_of_the_light_ones_since_the_last() -> None:
    amdsmi = FakeAmdSmi(num=1)
    source = source_of(amdsmi)
    source.sample()
    for percent in (10, 20, 60):
        amdsmi.activity = {"gfx_activity": percent, "umc_activity": "N/A"}
        (sample,) = source.sample(light=percent < 60)
    assert (sample.gpu_util, sample.mem_util) == (30.0, None)


def test_what_a_gpu_does_not_offer_is_absent_and_what_fails_is_counted() -> None:
    for code, failures in ((NOT_SUPPORTED, 0), (30, 1)):
        source = source_of(FakeAmdSmi(num=1, activity=code))
        (sample,) = source.sample()
        assert (sample.gpu_util, sample.temperature) == (None, 71)
        assert source.failures == failures
    assert source.last_failure == "GPU 0, gpu_activity: Error code:\n\t30"


@pytest.mark.parametrize(
    ("environ", "ids"),
    [
        ({}, [0, 1, 2]),
        ({"ROCR_VISIBLE_DEVICES": "2,0"}, [2, 0]),
        ({"ROCR_VISIBLE_DEVICES": "2,0", "HIP_VISIBLE_DEVICES": "1"}, [0]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, [1]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, [0]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-1f53,7,0"}, [1]),
        ({"ROCR_VISIBLE_DEVICES": ""}, []),
    ],
)
def test_the_variables_of_rocm_choose_the_gpus(environ: dict[str, str], ids: list[int]) -> None:
    source = source_of(FakeAmdSmi(num=3, hip_ids=(0, 1, 2)), **environ)
    assert [sample.id for sample in source.sample()] == ids
    assert source.probe() == bool(ids)


def test_ids_are_those_of_hip_or_else_the_librarys_order() -> None:
    assert [one.id for one in source_of(FakeAmdSmi(hip_ids=(1, 0))).sample()] == [0, 1]
    older = source_of(FakeAmdSmi(enumeration=NOT_SUPPORTED))
    assert [(one.id, one.uuid) for one in older.sample()] == [(0, None), (1, None)]


def test_who_computes_on_each_gpu() -> None:
    amdsmi = FakeAmdSmi()
    amdsmi.pids = [7, 9]
    assert source_of(amdsmi).pids() == {0: frozenset({7, 9}), 1: frozenset()}
    assert source_of(FakeAmdSmi(num=1, processes=NOT_SUPPORTED)).pids() == {0: None}


def test_absence_has_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    refused = source_of(FakeAmdSmi(init=34))
    assert not refused.probe()
    assert (refused.why_absent or "").startswith("amdsmi does not start: ")
    monkeypatch.setattr(amd, "_DRIVER", tmp_path / "kfd")
    without_driver = AmdSource()
    assert not without_driver.probe()
    assert without_driver.why_absent == "there is no driver for AMD GPUs"
    (tmp_path / "kfd").touch()
    without_package = AmdSource()
    assert not without_package.probe()
    assert (without_package.why_absent or "").startswith("the package amdsmi cannot be imported")


def test_closing_leaves_the_library_once_and_ends_the_source() -> None:
    amdsmi = FakeAmdSmi()
    source = source_of(amdsmi)
    source.sample()
    source.close()
    source.close()
    assert (amdsmi.running, source.sample(), source.recent_use(0.0)) == (0, (), {})
