from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from epochal.exports.plain import write
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal


def lines(root: Path, *keys: str) -> list[str]:
    store, out = LocalStore(root), io.StringIO()
    write([store.run(key) for key in keys or ("x",)], out)
    return out.getvalue().splitlines()


def test_losses_go_by_the_names_of_old_logs_and_others_by_their_own(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add({"log": "eval", "step": 0, "loss": 10.5})
    journal.add({"log": "step", "step": 0, "loss": 10.25, "norm": 2.0})
    journal.add({"log": "step", "step": 1, "loss": 9.5})
    free = {"Evaluation/hellaswag_accuracy": 0.25, "my metric": 3.0}
    journal.add({"log": "metrics", "step": 1, "m": free})
    assert lines(tmp_path) == [
        "0 val 10.5",
        "0 train 10.25",
        "0 train/norm 2.0",
        "1 train 9.5",
        "1 hellaswag 0.25",
        "1 my_metric 3.0",
    ]


def test_a_run_of_epochs_is_written_by_epoch(tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=0.5, val_loss=0.75).epoch(2, loss=0.25)
    assert lines(tmp_path) == [
        "1 train 0.5",
        "1 val 0.75",
        "1 epoch/duration_s 0.049",
        "2 train 0.25",
        "2 epoch/duration_s 0.049",
    ]


def test_several_runs_are_headed_by_their_names(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(1, loss=1.0)
    Journal(tmp_path, "b").metrics(1, loss=2.0)
    assert lines(tmp_path, "a", "b") == ["# run p/a", "1 train 1.0", "# run p/b", "1 train 2.0"]


@given(values=st.lists(st.floats(), min_size=1, max_size=30))
def test_every_value_reads_back_as_it_was(values: list[float]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder))
        for step, value in enumerate(values):
            nonfinite = not math.isfinite(value)
            record: dict[str, Any] = {
                "log": "metrics",
                "step": step,
                "m": {"a": None if nonfinite else value},
            }
            if nonfinite:
                record["nonfinite"] = {"a": "nan" if math.isnan(value) else repr(value)}
            journal.add(record)
        read = [float(line.split()[2]) for line in lines(Path(folder))]
    assert list(map(repr, read)) == list(map(repr, values))
