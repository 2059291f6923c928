"""The companion's records of GPUs other than NVIDIA's, from their files to the journal."""

from pathlib import Path

import pytest

from epochal.companion.own_journal import OwnJournal
from epochal.companion.telemetry_journal import Telemetry
from epochal.telemetry.apple import AppleSource
from epochal.telemetry.gpu import GpuSource
from epochal.telemetry.used import UsedGpus
from tests.doubles.amd_sysfs import ACCELERATOR, ACCELERATOR_ID, GAMING_ID, AmdSysfs
from tests.doubles.companions import companion_config
from tests.doubles.ioreg import GIB, Ioreg
from tests.doubles.journals import of_kind

RUN_PID = 77


class Watch:
    """Telemetry of some GPUs, each second of a made-up clock."""

    def __init__(self, folder: Path, gpus: GpuSource) -> None:
        self.now_s = 1000.0
        self.telemetry = Telemetry(
            companion_config(folder),
            OwnJournal(companion_config(folder)),
            gpus=gpus,
            used=UsedGpus([model.id for model in gpus.gpu_models()]),
            own_pids=lambda: {RUN_PID},
            host={},
            clock=lambda: self.now_s,
            wall=lambda: 1_700_000_000 + self.now_s,
        )
        self.telemetry.begin()

    def go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_s += 1.0
            self.telemetry.sample_gpus()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    return folder


def test_the_amd_gpu_a_run_computes_on_is_recorded(run: Path, tmp_path: Path) -> None:
    sysfs = AmdSysfs(tmp_path)
    sysfs.process(RUN_PID, vram={ACCELERATOR_ID: 10**9, GAMING_ID: 4096}, queues=(ACCELERATOR_ID,))
    watch = Watch(run, sysfs.source())
    watch.go_on(5)
    sysfs.write(ACCELERATOR, "gpu_busy_percent", "47")
    watch.go_on(5)
    (model,) = of_kind(run, "gpu-model")
    assert (model["id"], model["name"], model["sm_count"]) == (0, "AMD Instinct MI300X OAM", 304)
    (record,) = of_kind(run, "gpu")
    assert (record["id"], record["power"], record["temperature"]) == (0, 702_000, 71)
    assert record["gpu_util"] == 72.0
    assert record["max"]["gpu_util"] == 98
    assert "throttle" not in record


def test_every_visible_amd_gpu_is_recorded_in_a_container(run: Path, tmp_path: Path) -> None:
    sysfs = AmdSysfs(tmp_path)
    sysfs.process(4711, vram={ACCELERATOR_ID: 10**9}, queues=(ACCELERATOR_ID,))
    sysfs.enter_namespace(4026532281)
    watch = Watch(run, sysfs.source())
    watch.go_on(90)
    assert {record["id"] for record in of_kind(run, "gpu")} == {0, 1}


def test_the_gpu_of_an_apple_machine_is_recorded(run: Path) -> None:
    ioreg = Ioreg(cost_s=0.0)
    gpus = AppleSource(platform="darwin", run=ioreg, ram_bytes=lambda: 32 * GIB, clock=ioreg.clock)
    watch = Watch(run, gpus)
    for _ in range(10):
        ioreg.now_s += 1.0
        watch.go_on(1)
    (record,) = of_kind(run, "gpu")
    assert (record["id"], record["gpu_util"], record["dram_total"]) == (0, 94.0, 32 * GIB)
    assert len(ioreg.commands) <= 6


def test_readings_that_failed_are_told_at_the_end(run: Path, tmp_path: Path) -> None:
    sysfs = AmdSysfs(tmp_path)
    sysfs.write(ACCELERATOR, "gpu_busy_percent", "many")
    watch = Watch(run, sysfs.source({"ROCR_VISIBLE_DEVICES": "0"}))
    watch.telemetry.end()
    (event,) = [one for one in of_kind(run, "event") if one["name"] == "telemetry"]
    assert event["failures"] >= 1
    assert event["last_failure"] == "GPU 0, gpu_busy_percent says 'many'"
