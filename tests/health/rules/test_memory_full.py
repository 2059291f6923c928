from epochal.health.rules.memory_full import MemoryFull
from tests.health.machine_records import GIB, gpu, opened, step, system, updated


def test_a_gpu_that_fills_up_is_found_with_the_time_left() -> None:
    records = [gpu(n, dram_used=(50 + 0.25 * n) * GIB, dram_total=80 * GIB) for n in range(100)]
    found, *_ = updated(MemoryFull, records)
    assert found.severity == "warning"
    assert 900 < float(found.evidence["left_s"]) < 1200
    assert "will be full in 1" in found.sentence


def test_it_grows_graver_when_little_time_is_left() -> None:
    records = [gpu(n, dram_used=(50 + 0.25 * n) * GIB, dram_total=80 * GIB) for n in range(115)]
    assert [f.severity for f in updated(MemoryFull, records)] == ["warning", "error"]


def test_a_gpu_that_is_full_and_stays_so_is_left_alone() -> None:
    records = [gpu(n, dram_used=79.5 * GIB, dram_total=80 * GIB) for n in range(200)]
    assert opened(MemoryFull, records) == []


def test_a_host_that_is_all_but_full_is_found() -> None:
    (found,) = opened(MemoryFull, [system(0, ram_used=61 * GIB, ram_total=64 * GIB)])
    assert "95 % full" in found.sentence


def test_growth_far_from_the_limit_is_left_alone() -> None:
    records = [system(n, ram_used=(10 + 0.05 * n) * GIB, ram_total=512 * GIB) for n in range(200)]
    assert opened(MemoryFull, records) == []


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
    assert opened(MemoryFull, [start, *loading[:140], *training]) == []


def test_growth_is_judged_from_the_first_step_on() -> None:
    before = [gpu(n, dram_used=(50 + n) * GIB, dram_total=80 * GIB) for n in range(25)]
    after = [gpu(n, dram_used=75 * GIB, dram_total=80 * GIB) for n in range(25, 80)]
    first = step(0, t=before[-1]["t"] + 1, loss=2.0)
    assert opened(MemoryFull, [*before, first, *after]) == []
