import json
import math
import random
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from epochal.companion.own_journal import OwnJournal
from epochal.companion.telemetry_journal import Telemetry
from epochal.journal.layout import PartName, RunFolder
from epochal.records import scalars_of
from epochal.segments.seal import seal_part
from epochal.telemetry.gpu import GPU_METRICS, GpuModel, GpuSample
from epochal.telemetry.host import HOST_METRICS, HostSample
from epochal.telemetry.used import UsedGpus
from tests.doubles.companions import companion_config
from tests.doubles.journals import of_kind

MIB = 1024**2
PEACE = GpuSample(0, clock=1900, power=600_000, gpu_util=90.0, throttle="")


class Time:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s

    def wall(self) -> float:
        return 1_700_000_000 + self.now_s


class Gpus:
    """GPUs that read whatever ``state`` says."""

    kind, metrics, why_absent = "gpu", GPU_METRICS, None
    failures = 0
    last_failure: str | None = None

    def __init__(self, num: int = 1) -> None:
        self.state = PEACE
        self.num = num
        self.computing: dict[int, frozenset[int] | None] = {gpu: frozenset() for gpu in range(num)}
        self.fault: Exception | None = None
        self.depths: list[str] = []
        self.past: list[GpuSample] = []

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        self.depths.append("light" if light else "full")
        if self.fault is not None:
            raise self.fault
        chosen = range(self.num) if only is None else sorted(only)
        state = self.state if light else self.mean_since_the_last_full_reading()
        return tuple(replace(state, id=gpu) for gpu in chosen)

    def mean_since_the_last_full_reading(self) -> GpuSample:
        past, self.past = [*self.past, self.state], []
        power = fmean(one.power or 0 for one in past)
        return replace(
            self.state,
            power=round(power),
            gpu_util=fmean(one.gpu_util or 0 for one in past),
            mem_util=fmean(one.mem_util or 0 for one in past),
        )

    def probe(self) -> bool:
        return True

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        return {}

    def pids(self) -> dict[int, frozenset[int] | None]:
        return self.computing

    def gpu_models(self) -> tuple[GpuModel, ...]:
        return tuple(GpuModel(gpu, name="H200", memory=141 * 1024**3) for gpu in range(self.num))

    def close(self) -> None:
        pass


class Host:
    kind, metrics, why_absent = "system", HOST_METRICS, None

    def __init__(self) -> None:
        self.cpu_pct = 40.0

    def probe(self) -> bool:
        return True

    def sample(self) -> tuple[HostSample, ...]:
        return (HostSample(self.cpu_pct, 6 * MIB, 8 * MIB),)

    def close(self) -> None:
        pass


class Watch:
    """Telemetry on a clock of its own."""

    def __init__(self, folder: Path, *, num_gpus: int = 1, every_s: float | None = None) -> None:
        self.clock, self.gpus, self.host = Time(), Gpus(num_gpus), Host()
        self.journal = OwnJournal(companion_config(folder))
        self.telemetry = Telemetry(
            companion_config(folder),
            self.journal,
            gpus=self.gpus,
            used=UsedGpus(range(num_gpus)),
            own_pids=lambda: {77},
            host={"host": self.host},
            every_s=every_s,
            clock=self.clock,
            wall=self.clock.wall,
        )
        self.telemetry.begin()

    def go_on(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.now_s += 1
            self.telemetry.sample_gpus()
            if self.clock.now_s % 5 == 0:
                self.telemetry.sample_host()


@pytest.fixture
def watch(tmp_path: Path) -> Watch:
    return Watch(tmp_path)


def test_ten_seconds_are_one_record_with_mean_and_extremes(watch: Watch, tmp_path: Path) -> None:
    watch.go_on(9)
    assert of_kind(tmp_path, "gpu") == []
    watch.gpus.state = replace(PEACE, clock=1800)
    watch.go_on(1)
    (record,) = of_kind(tmp_path, "gpu")
    assert (record["id"], record["interval_s"], record["clock"]) == (0, 10.0, 1890)
    assert record["min"]["clock"] == 1800
    assert record["max"]["clock"] == 1905
    assert record["t"] == watch.clock.wall()


def test_every_tenth_look_is_thorough_and_its_means_stand_for_the_ten_seconds(
    watch: Watch, tmp_path: Path
) -> None:
    watch.go_on(9)
    watch.gpus.state = replace(PEACE, power=650_000)
    watch.go_on(11)
    assert watch.gpus.depths == ["full", *["light"] * 9, "full", *["light"] * 9, "full"]
    record = of_kind(tmp_path, "gpu")[0]
    assert (record["power"], record["min"]["power"]) == (650_000, 600_000)


def test_the_host_is_written_as_often(watch: Watch, tmp_path: Path) -> None:
    watch.go_on(5)
    watch.host.cpu_pct = 60.0
    watch.go_on(5)
    (record,) = of_kind(tmp_path, "system")
    assert (record["cpu_pct"], record["ram_total"]) == (pytest.approx(46.5, abs=0.5), 8 * MIB)
    assert (record["min"]["cpu_pct"], record["max"]["cpu_pct"]) == (40, 60)
    assert record["epochal_cpu_pct"] >= 0
    assert record["epochal_rss"] > 0


def test_after_the_first_day_a_minute_is_one_record(watch: Watch, tmp_path: Path) -> None:
    watch.clock.now_s += 86_400
    watch.go_on(1)
    before = len(of_kind(tmp_path, "gpu"))
    watch.go_on(180)
    assert len(of_kind(tmp_path, "gpu")) == before + 3


def test_a_throttling_is_written_at_once(watch: Watch, tmp_path: Path) -> None:
    watch.go_on(3)
    watch.gpus.state = replace(PEACE, throttle="thermal cap")
    watch.go_on(1)
    (record,) = of_kind(tmp_path, "gpu")
    assert (record["throttle"], record["interval_s"]) == ("thermal cap", 4.0)


def test_every_record_rests_on_a_thorough_reading_of_its_own_time(
    watch: Watch, tmp_path: Path
) -> None:
    watch.go_on(4)
    watch.gpus.state = replace(PEACE, throttle="power cap")
    watch.go_on(11)
    assert watch.gpus.depths[4:7] == ["light", "light", "full"]  # idle, alarming, and why
    assert [record["interval_s"] for record in of_kind(tmp_path, "gpu")] == [5.0, 10.0]
    assert watch.gpus.depths[-1] == "full"


def test_a_throttling_that_comes_and_goes_does_not_fill_the_disk(
    watch: Watch, tmp_path: Path
) -> None:
    for second in range(100):
        watch.gpus.state = replace(PEACE, throttle="power cap" if second % 2 else "")
        watch.go_on(1)
    assert len(of_kind(tmp_path, "gpu")) <= 11


def test_the_end_of_a_throttling_is_known_within_ten_seconds_on_any_day(
    watch: Watch, tmp_path: Path
) -> None:
    watch.clock.now_s += 86_400
    watch.gpus.state = replace(PEACE, throttle="power cap")
    watch.go_on(30)
    watch.gpus.state = PEACE
    watch.go_on(20)
    assert of_kind(tmp_path, "gpu")[-1]["throttle"] == "power cap"
    watch.go_on(60)
    assert of_kind(tmp_path, "gpu")[-1]["throttle"] == ""


def test_what_was_gathered_is_written_at_the_end(watch: Watch, tmp_path: Path) -> None:
    watch.go_on(3)
    watch.telemetry.end()
    (record,) = of_kind(tmp_path, "gpu")
    assert (record["interval_s"], watch.gpus.depths[-1]) == (3.0, "full")
    assert of_kind(tmp_path, "event")[-1]["name"] == "telemetry"


def test_the_machine_and_each_used_gpu_are_described(watch: Watch, tmp_path: Path) -> None:
    (hardware,) = of_kind(tmp_path, "event")
    assert (hardware["name"], hardware["node"]) == ("hardware", "here")
    assert hardware["text"].endswith("| H200 141 GB")
    (model,) = of_kind(tmp_path, "gpu-model")
    assert (model["id"], model["rank"], model["name"]) == (0, 0, "H200")


def test_only_the_gpus_the_run_computes_on_are_written(tmp_path: Path) -> None:
    watch = Watch(tmp_path, num_gpus=4)
    watch.go_on(10)
    assert of_kind(tmp_path, "gpu") == []
    watch.gpus.computing = {0: frozenset({5}), 1: frozenset(), 2: frozenset({77}), 3: None}
    watch.go_on(40)
    assert {record["id"] for record in of_kind(tmp_path, "gpu")} == {2}
    assert [record["id"] for record in of_kind(tmp_path, "gpu-model")] == [2]


def test_a_sensor_that_fails_is_counted_and_tried_again(watch: Watch, tmp_path: Path) -> None:
    watch.gpus.fault = RuntimeError("the driver was unloaded")
    watch.go_on(5)
    watch.gpus.fault = None
    watch.go_on(5)
    assert len(of_kind(tmp_path, "gpu")) == 1
    watch.telemetry.end()
    event = of_kind(tmp_path, "event")[-1]
    assert (event["failures"], event["last_failure"]) == (
        5,
        "RuntimeError: the driver was unloaded",
    )


def test_what_a_vanished_process_held_is_remembered(watch: Watch) -> None:
    watch.go_on(10)
    assert watch.telemetry.last_seen["ram_used"] == 6 * MIB


def test_a_change_of_throttling_is_an_event_at_once(watch: Watch, tmp_path: Path) -> None:
    watch.go_on(3)
    watch.gpus.state = replace(PEACE, throttle="power cap")
    watch.go_on(1)
    watch.gpus.state = replace(PEACE, throttle="idle")
    watch.go_on(70)
    events = [record for record in of_kind(tmp_path, "event") if record["name"] == "gpu-throttle"]
    assert [(e["id"], e["throttle"], e["was"]) for e in events] == [
        (0, "power cap", "no cap"),
        (0, "no cap", "power cap"),
    ]


def test_records_stand_for_as_long_as_was_asked(tmp_path: Path) -> None:
    watch = Watch(tmp_path, every_s=2.0)
    watch.go_on(20)
    assert {record["interval_s"] for record in of_kind(tmp_path, "gpu")} == {2.0}
    assert len(of_kind(tmp_path, "gpu")) == 10
    assert watch.telemetry.host_every_s == 2.0


def test_records_stand_for_longer_when_that_was_asked(tmp_path: Path) -> None:
    watch = Watch(tmp_path, every_s=30.0)
    watch.go_on(60)
    assert [record["interval_s"] for record in of_kind(tmp_path, "gpu")] == [30.0, 30.0]
    assert watch.telemetry.host_every_s == 5.0


def test_what_is_read_each_second_can_be_watched_until_the_end(
    watch: Watch, tmp_path: Path
) -> None:
    watch.go_on(4)
    watch.gpus.state = replace(PEACE, gpu_util=55.5)
    watch.go_on(1)
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert said["t"] == watch.clock.wall()
    assert (said["gpus"][0]["id"], said["gpus"][0]["gpu_util"]) == (0, 55.5)
    assert said["system"]["cpu_pct"] == 40.0
    watch.telemetry.end()
    assert not (tmp_path / "live").exists()


def noisy(second: int, energy_kj: float, *, rng: random.Random) -> GpuSample:
    """A GPU under load whose every figure is noise, with a pause for evaluation now and then."""
    is_paused = second % 600 < 15
    power = rng.gauss(200, 30) if is_paused else rng.gauss(640, 25)
    return GpuSample(
        0,
        clock=1980 - 15 * max(0, round(rng.gauss(6, 4))),
        max_clock=1980,
        power=round(power * 1000),
        power_limit=700_000,
        temperature=round(62 + 4 * math.sin(second / 900) + rng.gauss(0, 0.7)),
        temp_slowdown=89,
        gpu_util=rng.uniform(0, 60) if is_paused else min(100.0, rng.gauss(97, 2)),
        mem_util=rng.gauss(45, 4),
        dram_free=40 * 1024**3,
        dram_used=100 * 1024**3 + (rng.randrange(4) << 27 if is_paused else 0),
        dram_total=140 * 1024**3,
        pcie_rx=round(rng.lognormvariate(17, 0.7)),
        pcie_tx=round(rng.lognormvariate(15, 0.7)),
        throttle="power cap" if rng.random() < 0.3 else "",
        sm_active=rng.gauss(85, 3),
        tensor_active=rng.gauss(48, 3),
        dram_active=rng.gauss(40, 3),
        energy=int(energy_kj),
        ecc_corrected=0,
        ecc_uncorrected=0,
    )


def test_a_day_of_a_gpu_is_sealed_into_150_kilobytes(tmp_path: Path) -> None:
    watch, rng = Watch(tmp_path), random.Random(7)
    # The host is another matter: it is written once per node, however many GPUs there are.
    watch.telemetry._host = {}
    for second in range(86_400):
        watch.gpus.state = noisy(second, second * 0.62, rng=rng)
        watch.gpus.past.append(watch.gpus.state)
        watch.clock.now_s += 1
        watch.telemetry.sample_gpus()
    watch.journal.close()
    report = seal_part(RunFolder(tmp_path), PartName("telemetry-here", 1, 0))
    assert report.num_records > 8600
    assert report.segment_bytes <= 150_000


def test_means_are_series_under_their_plain_names(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.go_on(10)
    names: set[str] = set()
    for kind in ("gpu", "system"):
        for record in of_kind(tmp_path, kind):
            names |= {name for name, _ in scalars_of(record)}
    assert {"gpu/0/power", "system/cpu_pct", "system/epochal_cpu_pct"} <= names
