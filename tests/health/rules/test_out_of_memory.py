from typing import Any

from epochal.health.rules.out_of_memory import OutOfMemory
from epochal.records import Record
from tests.health.machine_records import GIB, START, Entry, opened, step, updated


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


def test_many_are_one_finding_until_they_stop() -> None:
    records = [step(0)]
    for number in range(1, 10):
        records += [error(number - 0.5), step(number)]
    records += [step(number) for number in range(10, 300)]
    opening, closing = updated(OutOfMemory, records)
    assert (opening.state, closing.state) == ("open", "closed")
    assert (closing.steps, closing.evidence["times"]) == ((0, 8), 9)


def test_each_device_and_rank_has_its_own() -> None:
    entries: list[Entry] = [step(0), error(0.5), (1, error(0.5)), step(1)]
    assert {f.series for f in opened(OutOfMemory, entries)} == {"cuda:0", "cuda:0 of rank 1"}
