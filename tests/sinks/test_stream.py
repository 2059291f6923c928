from typing import Any

from epochal.records import Position
from epochal.sinks.sink import Entry
from epochal.sinks.stream import Stream, is_sent


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
