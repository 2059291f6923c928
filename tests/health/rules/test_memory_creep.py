import math

import pytest

from epochal.health.engine import Health
from epochal.health.rules.memory_creep import MemoryCreep
from tests.health.machine_records import GIB, gpu, noisy, opened, system, updated


def test_a_leak_is_found_with_its_rate() -> None:
    noise = noisy(1.0, 0.003, 200)
    records = [system(n, rss=4 * GIB * noise[n] + n * 10e6) for n in range(200)]
    found, *_ = opened(MemoryCreep, records)
    assert found.series == "system/rss"
    assert 3e9 < float(found.evidence["per_hour_bytes"]) < 4e9
    assert "without slowing down" in found.sentence


def test_a_slow_leak_is_found_within_hours() -> None:
    records = [system(n, rss=4 * GIB + n * 1e6) for n in range(1000)]
    assert len(opened(MemoryCreep, records)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_leak(seed: int) -> None:
    rss = noisy(4 * GIB, 0.02, 3000, seed=seed)
    assert opened(MemoryCreep, [system(n, rss=rss[n]) for n in range(3000)]) == []


def test_caches_that_fill_up_are_no_leak() -> None:
    records = [system(n, rss=4 * GIB * (2 - math.exp(-n / 30))) for n in range(1000)]
    assert opened(MemoryCreep, records) == []


def test_a_sawtooth_is_no_leak() -> None:
    records = [system(n, rss=4 * GIB + (n % 37) * 50e6) for n in range(1000)]
    assert opened(MemoryCreep, records) == []


def test_an_allocator_that_grows_in_steps_is_no_leak() -> None:
    records = [gpu(n, dram_used=(30 + (n > 90) + (n > 110) + (n > 200)) * GIB) for n in range(600)]
    assert opened(MemoryCreep, records) == []


def test_workers_that_come_and_go_are_no_leak() -> None:
    records = [
        system(n, children=1 + n // 20, children_rss=(1 + n // 20) * GIB) for n in range(200)
    ]
    assert opened(MemoryCreep, records) == []


def test_it_closes_when_the_growth_has_ended() -> None:
    records = [system(n, rss=4 * GIB + min(n, 150) * 10e6) for n in range(600)]
    assert [f.state for f in updated(MemoryCreep, records)] == ["open", "closed"]


def test_a_rise_at_an_even_pace_stays_one_finding() -> None:
    records = [gpu(n, dram_used=(20 + 0.03 * n) * GIB) for n in range(900)]
    health = Health(rules=[MemoryCreep])
    told = [f for record in records for f in health.feed(record, writer="telemetry-node")]
    assert [finding.state for finding in told] == ["open"]
    (grown,) = health.open_findings
    assert float(grown.evidence["before_bytes"]) < 21 * GIB
    assert float(grown.evidence["now_bytes"]) > 45 * GIB
