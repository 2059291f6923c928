import math
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.health.rules.memory import MemoryGrowth, OutOfMemory
from epochal.records import Record
from tests.health.machine_records import (
    GIB,
    START,
    Entry,
    gpu,
    noisy,
    opened,
    step,
    system,
    updated,
)


def test_a_leak_is_found_with_its_rate() -> None:
    noise = noisy(1.0, 0.003, 200)
    records = [system(n, rss=4 * GIB * noise[n] + n * 10e6) for n in range(200)]
    found, *_ = opened(MemoryGrowth, records)
    assert found.series == "system/rss"
    assert 3e9 < float(found.evidence["per_hour_bytes"]) < 4e9
    assert "without slowing down" in found.sentence


def test_a_slow_leak_is_found_within_hours() -> None:
    records = [system(n, rss=4 * GIB + n * 1e6) for n in range(1000)]
    assert len(opened(MemoryGrowth, records)) == 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_leak(seed: int) -> None:
    rss = noisy(4 * GIB, 0.02, 3000, seed=seed)
    assert opened(MemoryGrowth, [system(n, rss=rss[n]) for n in range(3000)]) == []


def test_caches_that_fill_up_are_no_leak() -> None:
    records = [system(n, rss=4 * GIB * (2 - math.exp(-n / 30))) for n in range(1000)]
    assert opened(MemoryGrowth, records) == []


def test_a_sawtooth_is_no_leak() -> None:
    records = [system(n, rss=4 * GIB + (n % 37) * 50e6) for n in range(1000)]
    assert opened(MemoryGrowth, records) == []


def test_an_allocator_that_grows_in_steps_is_no_leak() -> None:
    records = [gpu(n, dram_used=(30 + (n > 90) + (n > 110) + (n > 200)) * GIB) for n in range(600)]
    assert opened(MemoryGrowth, records) == []


def test_workers_that_come_and_go_are_no_leak() -> None:
    records = [
        system(n, children=1 + n // 20, children_rss=(1 + n // 20) * GIB) for n in range(200)
    ]
    assert opened(MemoryGrowth, records) == []


def test_it_closes_when_the_growth_has_ended() -> None:
    records = [system(n, rss=4 * GIB + min(n, 150) * 10e6) for n in range(600)]
    assert [f.state for f in updated(MemoryGrowth, records)] == ["open", "closed"]


def test_a_rise_at_an_even_pace_stays_one_finding() -> None:
    records = [gpu(n, dram_used=(20 + 0.03 * n) * GIB) for n in range(900)]
    health = Health(rules=[MemoryGrowth])
    told = [f for record in records for f in health.feed(record, writer="telemetry-node")]
    assert [finding.state for finding in told] == ["open"]
    (grown,) = health.open_findings
    assert float(grown.evidence["before_bytes"]) < 21 * GIB
    assert float(grown.evidence["now_bytes"]) > 45 * GIB


def test_a_gpu_that_fills_up_is_found_with_the_time_left() -> None:
    records = [gpu(n, dram_used=(50 + 0.25 * n) * GIB, dram_total=80 * GIB) for n in range(100)]
    found, *_ = updated(MemoryGrowth, records)
    assert found.severity == "warning"
    assert 900 < float(found.evidence["left_s"]) < 1200
    assert "will be full in 1" in found.sentence


def test_it_grows_graver_when_little_time_is_left() -> None:
    records = [gpu(n, dram_used=(50 + 0.25 * n) * GIB, dram_total=80 * GIB) for n in range(115)]
    assert [f.severity for f in updated(MemoryGrowth, records)] == ["warning", "error"]


def test_a_gpu_that_is_full_and_stays_so_is_left_alone() -> None:
    records = [gpu(n, dram_used=79.5 * GIB, dram_total=80 * GIB) for n in range(200)]
    assert opened(MemoryGrowth, records) == []


def test_a_host_that_is_all_but_full_is_found() -> None:
    (found,) = opened(MemoryGrowth, [system(0, ram_used=61 * GIB, ram_total=64 * GIB)])
    assert (found.severity, found.evidence["left_bytes"]) == ("warning", 3 * GIB)


def test_growth_far_from_the_limit_is_left_alone() -> None:
    records = [system(n, ram_used=(10 + 0.05 * n) * GIB, ram_total=512 * GIB) for n in range(200)]
    assert opened(MemoryGrowth, records) == []


def test_a_model_being_loaded_is_not_taken_for_a_leak() -> None:
    """Read each second, a machine fills quickly while data and model are brought in."""
    loading = [
        {**system(0, ram_used=(34 + 0.1 * n) * GIB, ram_total=64 * GIB), "t": 1.7e9 + n}
        for n in range(250)
    ]
    training = [
        {**system(0, ram_used=60 * GIB, ram_total=64 * GIB), "t": 1.7e9 + n}
        for n in range(250, 600)
    ]
    start = step(0, t=1.7e9, loss=2.0)
    assert opened(MemoryGrowth, [start, *loading[:140], *training]) == []


def test_growth_is_judged_from_the_first_step_on() -> None:
    before = [gpu(n, dram_used=(50 + n) * GIB, dram_total=80 * GIB) for n in range(25)]
    after = [gpu(n, dram_used=75 * GIB, dram_total=80 * GIB) for n in range(25, 80)]
    first = step(0, t=before[-1]["t"] + 1, loss=2.0)
    assert opened(MemoryGrowth, [*before, first, *after]) == []


def error(at: float, **facts: Any) -> Record:
    told = {"device": "cuda:0", "asked": int(20 * GIB), "where": "train.py:12 in step"}
    return {"log": "event", "t": START + at, "name": "out-of-memory", **told, **facts}


def finish(at: float, status: str) -> Record:
    return {"log": "finish", "t": START + at, "status": status}


def test_one_that_was_caught_is_a_warning() -> None:
    (found,) = opened(OutOfMemory, [step(7, loss=1.0), error(7.5), step(8, loss=1.0)])
    assert (found.severity, found.series, found.steps) == ("warning", "cuda:0", (7, 7))
    assert found.sentence == (
        "Memory ran out on cuda:0 when 20.0 GiB more were requested at train.py:12 in step; "
        "the training went on."
    )


def test_one_at_the_end_of_a_run_that_finished_well_was_caught_too() -> None:
    assert len(opened(OutOfMemory, [step(7), error(7.5), finish(8, "finished")])) == 1


def test_one_that_ended_the_run_is_told_by_how_it_ended() -> None:
    assert opened(OutOfMemory, [step(7), error(7.5), finish(8, "failed")]) == []


def test_many_are_one_finding() -> None:
    records = [step(0)]
    for number in range(1, 10):
        records += [error(number - 0.5), step(number)]
    health = Health(rules=[OutOfMemory])
    news = [finding for record in records for finding in health.feed(record)]
    (found,) = health.open_findings
    assert len(news) == 1
    assert (found.steps, found.evidence["times"]) == ((0, 8), 9)


def test_each_device_and_rank_has_its_own() -> None:
    entries: list[Entry] = [step(0), error(0.5), (1, error(0.5)), step(1)]
    first, second = opened(OutOfMemory, entries)
    assert [first.series, second.series] == ["cuda:0", "cuda:0 of rank 1"]
    assert second.sentence.startswith("Memory ran out on cuda:0 of rank 1 when")
    assert second.evidence["rank"] == 1
