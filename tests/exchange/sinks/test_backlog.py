from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.exchange.sinks.backlog import Backlog, Item, Stream, is_sent
from epochal.exchange.sinks.sink import Entry
from epochal.journal.layout import RunFolder
from epochal.records import Position
from tests.exchange.sinks.journal_files import metrics, run_folder, seal, write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return run_folder(tmp_path / "run")


def steps(items: list[Item]) -> list[int]:
    return [record["step"] for _, record in items if "step" in record]


def test_records_come_once_and_in_order(folder: RunFolder) -> None:
    write(folder, *(metrics(step) for step in range(5)))
    backlog = Backlog(folder, {})
    assert steps(backlog.take(limit=4)) == [0, 1, 2]
    assert steps(backlog.take(limit=4)) == [3, 4]
    assert backlog.take(limit=4) == []


def test_what_is_written_later_comes_later(folder: RunFolder) -> None:
    write(folder, metrics(0))
    backlog = Backlog(folder, {})
    backlog.take(limit=9)
    write(folder, metrics(1))
    write(folder, metrics(2), part=1)
    assert steps(backlog.take(limit=9)) == [1, 2]


def test_goes_on_from_places_in_another_process(folder: RunFolder) -> None:
    write(folder, *(metrics(step) for step in range(5)))
    first = Backlog(folder, {})
    first.take(limit=3)
    assert steps(Backlog(folder, first.places).take(limit=9)) == [2, 3, 4]


def test_sealed_part_is_gone_on_with(folder: RunFolder) -> None:
    name = write(folder, *(metrics(step) for step in range(5)))
    places = Backlog(folder, {})
    places.take(limit=3)
    seal(folder, name)
    assert not folder.part_path(name).exists()
    assert steps(Backlog(folder, places.places).take(limit=9)) == [2, 3, 4]


def test_what_is_written_to_a_part_that_became_shorter_is_sent(folder: RunFolder) -> None:
    name = write(folder, *(metrics(step) for step in range(5)))
    backlog = Backlog(folder, {})
    assert steps(backlog.take(limit=9)) == [0, 1, 2, 3, 4]
    path = folder.part_path(name)
    text = path.read_bytes()
    path.write_bytes(text[: text.index(b"\n", len(text) // 2) + 1])
    assert backlog.take(limit=9) == []
    write(folder, metrics(7))
    assert steps(backlog.take(limit=9)) == [7]


def test_part_sealed_between_two_batches_loses_nothing(folder: RunFolder) -> None:
    name = write(folder, metrics(0))
    backlog = Backlog(folder, {})
    backlog.take(limit=9)
    write(folder, metrics(1), metrics(2))
    seal(folder, name)
    assert steps(backlog.take(limit=9)) == [1, 2]


def test_writers_are_merged_by_time(folder: RunFolder) -> None:
    write(folder, *(metrics(step, t=10.0 * step) for step in range(4)))
    write(folder, {"log": "gpu", "t": 15.0, "id": 0, "step": 100}, writer="telemetry-a")
    assert steps(Backlog(folder, {}).take(limit=9)) == [0, 1, 100, 2, 3]


def test_clock_set_back_does_not_reorder_a_writer(folder: RunFolder) -> None:
    write(folder, metrics(0, t=50.0), metrics(1, t=10.0), metrics(2, t=60.0))
    write(folder, {"log": "gpu", "t": 20.0, "step": 100}, writer="telemetry-a")
    found = steps(Backlog(folder, {}).take(limit=9))
    assert [step for step in found if step < 100] == [0, 1, 2]


def test_unwanted_writers_are_not_read(folder: RunFolder) -> None:
    write(folder, metrics(0))
    write(folder, metrics(7), writer="rank-0001")
    backlog = Backlog(folder, {}, wants=lambda writer: writer == "loop")
    assert backlog.count() == 2
    assert steps(backlog.take(limit=9)) == [0]


def test_count_is_what_is_left(folder: RunFolder) -> None:
    name = write(folder, *(metrics(step) for step in range(5)))
    write(folder, metrics(5), part=1)
    backlog = Backlog(folder, {})
    backlog.take(limit=4)
    assert backlog.count() == 4
    seal(folder, name)
    assert backlog.count() == 4
    backlog.close()


def test_torn_tail_is_left_for_later(folder: RunFolder) -> None:
    name = write(folder, metrics(0))
    with open(folder.part_path(name), "ab") as file:
        file.write(b'{"log":"metrics","t":1.0,"st')
    backlog = Backlog(folder, {})
    assert steps(backlog.take(limit=9)) == [0]
    with open(folder.part_path(name), "ab") as file:
        file.write(b'ep":1,"m":{}}\n')
    assert steps(backlog.take(limit=9)) == [1]


times = st.lists(st.floats(0, 100), max_size=12)


@given(loop=times, other=times, limit=st.integers(1, 30))
def test_batch_is_the_same_when_taken_again_after_growth(
    tmp_path_factory: pytest.TempPathFactory, loop: list[float], other: list[float], limit: int
) -> None:
    folder = run_folder(tmp_path_factory.mktemp("run") / "run")
    write(folder, *(metrics(step, t=t) for step, t in enumerate(loop)))
    write(folder, *(metrics(100 + n, t=t) for n, t in enumerate(other)), writer="telemetry-a")
    backlog = Backlog(folder, {})
    batch = backlog.take(limit=limit)
    end = dict(backlog.places)
    write(folder, metrics(999, t=0.0))
    write(folder, metrics(998, t=0.0), writer="child-5")
    again = Backlog(folder, {})
    assert again.take(limit=10_000, until=end) == batch
    assert again.take(limit=10_000, until=end) == []
    rest = again.take(limit=10_000)
    assert len(batch) + len(rest) == len(loop) + len(other) + 5
    backlog.close()


# -- entries ----------------------------------------------------------------------


def place(stream: Stream, record: dict[str, Any], *, writer: str = "loop") -> Entry | None:
    return stream.entry(Position(writer, 1, 0, 1), {"t": 1.0, **record})


def placed_step(stream: Stream, record: dict[str, Any], *, writer: str = "loop") -> int:
    entry = place(stream, record, writer=writer)
    assert entry is not None
    return entry.step


def test_other_ranks_are_not_sent_and_telemetry_is() -> None:
    assert not is_sent("rank-0003")
    assert is_sent("loop")
    assert is_sent("telemetry-node-2")
    assert is_sent("child-77")


def test_record_without_a_step_stands_at_the_last_one() -> None:
    stream = Stream()
    assert placed_step(stream, {"log": "gpu", "id": 0}) == 0
    placed_step(stream, {"log": "step", "step": 5})
    assert placed_step(stream, {"log": "gpu", "id": 0}, writer="telemetry-a") == 5


def test_a_reading_with_a_step_does_not_move_the_training() -> None:
    stream = Stream()
    placed_step(stream, {"log": "step", "step": 5})
    assert placed_step(stream, {"log": "gpu", "id": 0, "step": 9}) == 9
    assert placed_step(stream, {"log": "message", "text": ""}) == 5


def test_epochs_stand_at_their_number() -> None:
    stream = Stream()
    assert placed_step(stream, {"log": "epoch", "epoch": 3}) == 3
    assert placed_step(stream, {"log": "system"}, writer="telemetry-a") == 3


def test_telemetry_of_another_node_carries_its_name() -> None:
    stream = Stream()
    assert place(stream, {"log": "run", "rank": 8}, writer="telemetry-node-b") is None
    entry = place(stream, {"log": "gpu", "id": 0}, writer="telemetry-node-b")
    assert entry is not None
    assert entry.node == "node-b"


def test_status_is_the_last_attempts() -> None:
    stream = Stream()
    place(stream, {"log": "finish", "status": "failed"})
    assert place(stream, {"log": "finish", "status": "finished"}, writer="telemetry-a") is None
    assert stream.plain()["status"] == "failed"
    stream.entry(Position("loop", 2, 0, 0), {"log": "run", "t": 1.0})
    assert stream.plain()["status"] is None


def test_memory_is_gone_on_from() -> None:
    stream = Stream()
    place(stream, {"log": "run", "rank": 8}, writer="telemetry-b")
    place(stream, {"log": "step", "step": 5})
    later = Stream(stream.plain())
    entry = place(later, {"log": "gpu", "id": 0}, writer="telemetry-b")
    assert entry is not None
    assert (entry.step, entry.node) == (5, "b")
