from __future__ import annotations

from pathlib import Path

from epochal.journal.entries import Entry
from epochal.records import Position
from epochal.server.entries import _spread
from tests.server.live import Server
from tests.store.journals import Journal


def texts(root: Path, *, count: int) -> Journal:
    journal = Journal(root)
    for step in range(count):
        journal.add({"log": "text", "step": step, "name": "ab"[step % 2], "text": f"t{step}"})
    return journal


def test_the_newest_entries_come_in_order(tmp_path: Path, server: Server) -> None:
    texts(tmp_path, count=6)
    answer = server.ask("/api/runs/id-x/texts", limit=2).json
    assert [entry["record"]["text"] for entry in answer["entries"]] == ["t4", "t5"]
    assert (answer["total"], answer["names"]) == (6, {"a": 3, "b": 3})


def test_older_entries_are_reached_by_an_offset(tmp_path: Path, server: Server) -> None:
    texts(tmp_path, count=6)
    answer = server.ask("/api/runs/id-x/texts", limit=2, offset=2, name="a").json
    assert [entry["record"]["text"] for entry in answer["entries"]] == ["t0"]


def test_histograms_can_be_spread_over_the_steps(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    for step in range(10):
        journal.add(
            {"log": "histogram", "step": step, "name": "w", "lo": 0, "hi": 1, "counts": [1]}
        )
    answer = server.ask("/api/runs/id-x/histograms", name="w", limit=4, spread=1).json
    assert [entry["step"] for entry in answer["entries"]] == [0, 3, 6, 9]


def test_samples_are_those_of_the_last_step_up_to_one(tmp_path: Path, server: Server) -> None:
    journal = texts(tmp_path, count=6)
    for index in range(2):
        journal.add({"log": "blob", "step": 3, "name": "c", "file": f"{index}.png", "index": index})

    def shown(at: int = 10**9) -> list[str]:
        entries = server.ask("/api/runs/id-x/samples", at=at).json["entries"]
        return [entry["record"].get("text") or entry["record"]["file"] for entry in entries]

    assert shown(at=2) == ["t2", "t1"]
    assert shown(at=3) == ["t2", "t3", "0.png", "1.png"]
    assert shown() == ["t4", "t5", "0.png", "1.png"]
    journal.add({"log": "text", "step": 9, "name": "a", "text": "later"})
    assert shown() == ["later", "t5", "0.png", "1.png"]
    answer = server.ask("/api/runs/id-x/samples").json
    assert (answer["names"], answer["steps"]) == ({"a": 4, "b": 3, "c": 2}, [0, 1, 2, 3, 4, 5, 9])


def test_spreading_keeps_both_ends() -> None:
    entries = [Entry(Position("loop", 1, 0, i), 0, {"log": "text"}) for i in range(100)]
    for limit in (1, 2, 7, 99, 100, 200):
        chosen = _spread(entries, limit)
        assert len(chosen) == min(limit, 100)
        assert chosen[-1] is entries[-1]
        assert limit == 1 or chosen[0] is entries[0]


def test_the_log_is_by_time(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).epoch(1, loss=1.0)
    journal.add({"log": "message", "level": "msg", "text": "hello"}, writer="rank-0001").finish()
    kinds = [entry["kind"] for entry in server.ask("/api/runs/id-x/log").json["entries"]]
    assert kinds == ["epoch", "message", "finish"]


def test_findings_and_graphs_are_entries(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add({"log": "graph", "name": "net", "svg": "<svg/>"})
    found = {"id": "f1", "rule": "nonfinite", "sentence": "loss is nan"}
    journal.add({"log": "finding", **found}, writer="findings")
    (finding,) = server.ask("/api/runs/id-x/findings").json["entries"]
    assert finding["record"]["sentence"] == "loss is nan"
    assert finding["record"]["healthy"].startswith("Every value is a number.")
    (graph,) = server.ask("/api/runs/id-x/graph").json["entries"]
    assert graph["record"]["svg"] == "<svg/>"


def test_raw_records_come_page_by_page(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    for step in range(5):
        journal.metrics(step, loss=1.0)
    page = server.ask("/api/runs/id-x/records", limit=4).json
    rest = server.ask("/api/runs/id-x/records", since=page["position"]).json
    found = [one["record"].get("step") for one in (*page["records"], *rest["records"])]
    assert found == [None, 0, 1, 2, 3, 4]
    assert (page["more"], rest["more"]) == (True, False)


def test_experts_and_phases_are_entries_by_step(tmp_path: Path, server: Server) -> None:
    experts = {"log": "experts", "layers": ["a"], "load": [[0.5, 0.5]], "top_k": 1}
    phases = {"log": "phases", "steps": 5, "wall_ms": 9.0, "m": {"phase/data": 1.0}}
    Journal(tmp_path).add({**experts, "step": 4}, {**phases, "step": 4}, {**experts, "step": 2})
    found = server.ask("/api/runs/id-x/experts").json["entries"]
    assert [entry["step"] for entry in found] == [2, 4]
    (phase,) = server.ask("/api/runs/id-x/phases").json["entries"]
    assert phase["record"]["m"] == {"phase/data": 1.0}


def test_the_timeline_is_of_all_ranks_by_time(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    journal.add({"log": "timeline", "start": 1.0, "samples": {}}, writer="telemetry-n")
    journal.add({"log": "span", "name": "save", "start": 1.0, "duration_ms": 5.0})
    found = server.ask("/api/runs/id-x/timeline").json["entries"]
    assert [entry["kind"] for entry in found] == ["timeline", "span"]


def test_the_last_speed_of_light_is_in_the_detail(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    assert server.ask("/api/runs/id-x").json["sol"] is None
    journal.add({"log": "sol", "tps": 1.0}, {"log": "sol", "tps": 2.0, "bf16_peak": 989.4})
    assert server.ask("/api/runs/id-x").json["sol"] == {"tps": 2.0, "bf16_peak": 989.4}
