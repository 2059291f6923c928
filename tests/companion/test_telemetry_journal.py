import json
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.companion.own_journal import OwnJournal
from epochal.companion.telemetry_journal import RELEASE_S, LiveFile, Telemetry, ThrottleWatch
from epochal.journal.layout import RunFolder
from epochal.records import scalars_of
from epochal.telemetry.gpu import THROTTLE_WORDS, GpuModel, GpuSample, GpuSource
from epochal.telemetry.machine_gpus import UsedGpus
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


class Gpus(GpuSource):
    """GPUs that read whatever ``state`` says."""

    def __init__(self, num: int = 1) -> None:
        super().__init__()
        self.state = PEACE
        self.num = num
        self.computing: dict[int, frozenset[int] | None] = {gpu: frozenset() for gpu in range(num)}
        self.fault: Exception | None = None
        self.depths: list[str] = []

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        self.depths.append("light" if light else "full")
        if self.fault is not None:
            raise self.fault
        chosen = range(self.num) if only is None else sorted(only)
        return tuple(replace(self.state, id=gpu) for gpu in chosen)

    def pids(self) -> dict[int, frozenset[int] | None]:
        return self.computing

    def gpu_models(self) -> tuple[GpuModel, ...]:
        return tuple(GpuModel(gpu, name="H200", memory=141 * 1024**3) for gpu in range(self.num))


class Watch:
    """Telemetry on a clock of its own."""

    def __init__(self, folder: Path, *, num_gpus: int = 1, every_s: float | None = None) -> None:
        self.clock, self.gpus, self.cpu_pct = Time(), Gpus(num_gpus), 40.0
        self.journal = OwnJournal(companion_config(folder))
        self.telemetry = Telemetry(
            companion_config(folder),
            self.journal,
            gpus=self.gpus,
            used=UsedGpus(range(num_gpus)),
            own_pids=lambda: {77},
            host={"host": self.read_host},
            every_s=every_s,
            clock=self.clock,
            wall=self.clock.wall,
        )
        self.telemetry.begin()

    def read_host(self) -> dict[str, float]:
        return {"cpu_pct": self.cpu_pct, "ram_used": 6 * MIB, "ram_total": 8 * MIB}

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
    watch.cpu_pct = 60.0
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


def test_means_are_series_under_their_plain_names(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.go_on(10)
    names: set[str] = set()
    for kind in ("gpu", "system"):
        for record in of_kind(tmp_path, kind):
            names |= {name for name, _ in scalars_of(record)}
    assert {"gpu/0/power", "system/cpu_pct", "system/epochal_cpu_pct"} <= names


# -- throttling -------------------------------------------------------------------


def changes(words: list[str | None]) -> list[dict[str, str]]:
    watch = ThrottleWatch()
    found = [watch.see(word, float(second)) for second, word in enumerate(words)]
    return [change for change in found if change is not None]


def test_what_comes_and_goes_each_second_is_one_change() -> None:
    assert changes(["", "power cap", "", "idle", "power cap"] * 200) == [
        {"throttle": "power cap", "was": "no cap"}
    ]


def test_what_is_graver_is_told_at_once() -> None:
    assert changes(["", "power cap", "thermal cap"]) == [
        {"throttle": "power cap", "was": "no cap"},
        {"throttle": "thermal cap", "was": "power cap"},
    ]


def test_what_is_less_grave_is_told_when_it_lasts() -> None:
    calm: list[str | None] = ["power cap", ""] * int(RELEASE_S)
    assert changes(["thermal cap", *calm]) == [
        {"throttle": "thermal cap", "was": "no cap"},
        {"throttle": "power cap", "was": "thermal cap"},
    ]


def test_a_reading_without_the_word_says_nothing() -> None:
    assert changes(["power cap", *[None] * 1000]) == [{"throttle": "power cap", "was": "no cap"}]


@given(st.lists(st.sampled_from([*THROTTLE_WORDS, None]), max_size=300))
def test_each_change_follows_from_the_one_before(words: list[str | None]) -> None:
    said = "no cap"
    for change in changes(words):
        assert change["was"] == said
        assert change["throttle"] != said
        said = change["throttle"]


# -- the file of current readings -------------------------------------------------


def live_file(folder: Path, node: str = "here", *, wall: Iterator[float] | None = None) -> LiveFile:
    times = repeat(1234.5678) if wall is None else wall
    return LiveFile(RunFolder(folder), node=node, rank=0, wall=lambda: next(times))


def test_a_shorter_text_leaves_nothing_of_a_longer_one(tmp_path: Path) -> None:
    live = live_file(tmp_path)
    live.see_host({"text": "x" * 10_000})
    live.write()
    live.see_host({"text": "y"})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert said.pop("system") == {"text": "y", "t": 1234.568}
    assert said == {"t": 1234.568, "node": "here", "rank": 0, "gpus": []}


def test_what_is_not_known_now_stays_as_it_was_known(tmp_path: Path) -> None:
    live = live_file(tmp_path)
    live.see_gpu(1, {"power": 5, "clock": 7})
    live.see_gpu(1, {"power": None, "clock": 8})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert said["gpus"] == [{"id": 1, "power": 5, "clock": 8, "t": 1234.568}]


def test_each_reading_has_its_own_time(tmp_path: Path) -> None:
    live = live_file(tmp_path, wall=iter([10.0, 11.0, 12.0]))
    live.see_gpu(0, {"clock": 7})
    live.see_host({"cpu_pct": 50.0})
    live.see_gpu(0, {"clock": None})
    live.write()
    said = json.loads((tmp_path / "live" / "here.json").read_bytes())
    assert (said["gpus"][0]["t"], said["system"]["t"], said["t"]) == (10.0, 11.0, 12.0)


def test_it_goes_and_leaves_that_of_another_node(tmp_path: Path) -> None:
    here, there = live_file(tmp_path), live_file(tmp_path, "there")
    here.write()
    there.write()
    here.close()
    assert [path.name for path in (tmp_path / "live").iterdir()] == ["there.json"]
    there.close()
    assert not (tmp_path / "live").exists()


def test_a_run_that_was_deleted_is_not_brought_back(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        live_file(tmp_path / "gone").write()
    assert not (tmp_path / "gone").exists()
