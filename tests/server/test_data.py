from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.health.data_records import epoch
from tests.server.live import Server
from tests.store.journals import Journal


def test_a_run_without_watched_data_has_no_splits(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).epoch(1, loss=1.0)
    assert server.ask("/api/runs/id-x/data").json == {"splits": []}


def test_epochs_repeats_and_overlaps_of_each_split(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path)
    labels: dict[str, Any] = {
        "labels": {"0": 60, "1": 40},
        "labelled_batches": 4,
        "one_class_batches": 1,
    }
    journal.add(epoch(1, range(20, 70), name="eval", padding=0.25, complete=True))
    journal.add(epoch(1, range(50), ended=False, **labels))
    journal.add(epoch(1, range(25, 75), complete=True, mean=1.0, std=2.0))
    train, evaluation = server.ask("/api/runs/id-x/data").json["splits"]
    assert (train["name"], train["is_training"], train["overlaps"]) == ("train", True, [])
    (one,) = train["epochs"]
    assert (one["samples"], one["compared"], one["repeated"]) == (100, 100, 0.25)
    assert (one["complete"], one["mean"], one["padding"]) == (True, 1.0, None)
    assert (train["labels"], train["one_class"]) == ({"0": 60, "1": 40}, 0.25)
    assert evaluation["epochs"][0]["padding"] == 0.25
    (overlap,) = evaluation["overlaps"]
    assert (overlap["by"], overlap["share"], overlap["error"]) == ("content", 1.0, 0.0)


def test_ranks_are_added_up(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add(epoch(1, range(50)))
    journal.add(epoch(1, range(50, 100)), writer="rank-0001")
    (split,) = server.ask("/api/runs/id-x/data").json["splits"]
    assert (split["ranks"], split["epochs"][0]["samples"]) == (2, 100)
    assert split["epochs"][0]["repeated"] == 0.0
