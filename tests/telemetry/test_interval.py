from hypothesis import given
from hypothesis import strategies as st

from epochal.telemetry.gpu import GpuSample
from epochal.telemetry.sampler import Interval


def gpu_interval(*samples: GpuSample) -> Interval:
    interval = Interval("gpu")
    for sample in samples:
        interval.add(sample.readings())
    return interval


def test_a_summary_has_mean_least_and_greatest() -> None:
    samples = [GpuSample(0, power=watts * 1000) for watts in (600, 650, 610)]
    assert gpu_interval(*samples).summary() == {
        "power": 620_000,
        "min": {"power": 600_000},
        "max": {"power": 650_000},
    }


def test_a_full_reading_is_the_mean_of_what_it_covers() -> None:
    interval = gpu_interval(GpuSample(0, power=600_000, clock=1000))
    interval.add(GpuSample(0, power=640_000, clock=2000).readings(), is_full=True)
    summary = interval.summary()
    assert (summary["power"], summary["clock"]) == (640_000, 1500)
    assert summary["min"]["power"] == 600_000


def test_what_is_steady_is_said_once_and_exactly() -> None:
    summary = gpu_interval(GpuSample(0, max_clock=1593), GpuSample(0, max_clock=1597)).summary()
    assert summary == {"max_clock": 1597}


def test_what_nobody_knows_is_left_out_and_does_not_count() -> None:
    interval = Interval("system")
    interval.add({})
    interval.add({"cpu_pct": 50.0})
    assert interval.summary() == {"cpu_pct": 50.0, "min": {"cpu_pct": 50}, "max": {"cpu_pct": 50}}


def test_rates_keep_their_leading_digits_and_have_no_least() -> None:
    summary = gpu_interval(GpuSample(0, pcie_rx=1_234_567), GpuSample(0, pcie_rx=56)).summary()
    assert summary == {"pcie_rx": 620_000, "max": {"pcie_rx": 2_000_000}}


def test_the_gravest_word_of_an_interval_stands_for_it() -> None:
    words = ["", "power cap", "thermal cap", "idle", ""]
    summary = gpu_interval(*(GpuSample(0, throttle=word) for word in words)).summary()
    assert summary["throttle"] == "thermal cap"


def test_a_summary_starts_anew() -> None:
    interval = gpu_interval(GpuSample(0, fan=10))
    assert interval.num_samples == 1
    interval.summary()
    assert interval.num_samples == 0
    assert interval.summary() == {}


@given(st.lists(st.floats(0, 100), min_size=1), st.lists(st.integers(0, 10**12), min_size=1))
def test_the_mean_lies_between_the_extremes_whatever_is_rounded(
    shares: list[float], rates: list[int]
) -> None:
    samples = [GpuSample(0, gpu_util=share) for share in shares]
    samples += [GpuSample(0, pcie_tx=rate, power=rate, dram_used=rate) for rate in rates]
    summary = gpu_interval(*samples).summary()
    for name, greatest in summary["max"].items():
        assert summary[name] <= greatest + 0.5
        assert name == "pcie_tx" or summary["min"][name] <= summary[name] + 0.5
        assert name == "pcie_tx" or summary["min"][name] >= 0
