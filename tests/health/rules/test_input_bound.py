from epochal.health.rules.input_bound import InputBound
from epochal.records import Record
from tests.health.machine_records import START, gpu, opened, step, system, updated


def phases(number: int, data_ms: float) -> Record:
    metrics = {"phase/data": data_ms, "phase/forward": 60.0}
    record = {"log": "phases", "t": START + number, "step": 50 * number + 49, "steps": 50}
    return {**record, "wall_ms": 60.0 + data_ms, "m": metrics}


def test_waiting_for_data_is_found_from_phases() -> None:
    (found,) = opened(InputBound, [phases(n, 40.0) for n in range(4)])
    assert "40 % of each step" in found.sentence
    assert found.steps == (50, 149)
    assert found.severity == "warning"


def test_one_slow_moment_of_a_busy_machine_is_no_slow_loader() -> None:
    waits = [4.0, 4.0, 50.0, 4.0, 4.0, 50.0, 4.0]
    assert opened(InputBound, [phases(n, ms) for n, ms in enumerate(waits)]) == []


def test_a_fifth_of_a_step_is_no_fault() -> None:
    assert opened(InputBound, [phases(n, 19.0) for n in range(20)]) == []


def test_one_record_is_no_error() -> None:
    waits = [4.0, 4.0, 300.0, 4.0]
    found = updated(InputBound, [phases(n, ms) for n, ms in enumerate(waits)])
    assert [one.severity for one in found if one.state == "open"] == ["warning"]
    longer = [4.0, 4.0, 300.0, 300.0]
    found = updated(InputBound, [phases(n, ms) for n, ms in enumerate(longer)])
    assert found[-1].severity == "error"


def test_a_well_fed_loop_is_left_alone() -> None:
    assert opened(InputBound, [phases(n, 4.0) for n in range(50)]) == []


def span(duration_ms: float) -> Record:
    return {"log": "span", "t": START, "name": "data", "start": START, "duration_ms": duration_ms}


def test_workers_may_take_their_time_to_start() -> None:
    first = phases(0, 400.0)
    records = [span(19_500.0), first, *(phases(n, 2.0) for n in range(1, 5))]
    assert opened(InputBound, records) == []


def test_a_slow_loader_is_told_of_by_the_first_record_of_phases() -> None:
    (found,) = opened(InputBound, [span(900.0), span(800.0), phases(0, 700.0)])
    assert "92 % of each step" in found.sentence
    assert found.severity == "error"


def test_one_step_is_not_enough_to_tell() -> None:
    assert opened(InputBound, [{**phases(0, 700.0), "steps": 1}]) == []


def test_a_hungry_gpu_beside_busy_cpus_is_found() -> None:
    records = [r for n in range(12) for r in (system(n, cpu_pct=97.0), gpu(n, gpu_util=40.0))]
    (found,) = opened(InputBound, records)
    assert "works 40 % of the time" in found.sentence


def test_a_gpu_that_draws_the_screen_is_not_taken_for_hungry() -> None:
    model = {"log": "gpu-model", "t": START, "id": 0, "name": "Apple M3 Max"}
    records = [r for n in range(12) for r in (system(n, cpu_pct=97.0), gpu(n, gpu_util=40.0))]
    assert opened(InputBound, [model, *records]) == []


def test_an_idle_gpu_beside_idle_cpus_is_not_starved() -> None:
    records = [r for n in range(60) for r in (system(n, cpu_pct=20.0), gpu(n, gpu_util=40.0))]
    assert opened(InputBound, records) == []


def test_pauses_between_the_steps_are_found() -> None:
    records = [step(n, t=START + n, duration_ms=300.0) for n in range(60)]
    (found,) = opened(InputBound, records)
    assert "70 % of the time passes between the steps" in found.sentence


def test_pauses_of_a_few_milliseconds_are_the_making_of_batches() -> None:
    records = [step(n, t=START + 0.006 * n, duration_ms=2.0) for n in range(60)]
    assert opened(InputBound, records) == []
    slower = [step(n, t=START + 0.020 * n, duration_ms=8.0) for n in range(60)]
    assert len(opened(InputBound, slower)) == 1


def test_a_game_is_played_between_its_steps() -> None:
    reward = {"log": "metrics", "t": START, "step": 0, "m": {"reward": 1.0}}
    records = [step(n, t=START + n, duration_ms=300.0) for n in range(60)]
    assert opened(InputBound, [reward, *records]) == []


def test_steps_that_follow_each_other_are_left_alone() -> None:
    assert opened(InputBound, [step(n, duration_ms=950.0) for n in range(60)]) == []


def test_pauses_are_a_note_if_they_come_at_every_step() -> None:
    (found,) = opened(InputBound, [step(n, t=START + n, duration_ms=300.0) for n in range(60)])
    assert found.severity == "info"
    # A busy machine stops the loop at some steps.
    often = [step(n, t=START + n, duration_ms=300.0 if n % 3 else 950.0) for n in range(60)]
    assert opened(InputBound, often) == []
