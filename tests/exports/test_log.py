from __future__ import annotations

import io
from pathlib import Path

from epochal.exports import log
from epochal.store.local.store import LocalStore
from tests.store.journals import Journal


def text_of(root: Path, *keys: str) -> str:
    store, out = LocalStore(root), io.StringIO()
    log.write([store.run(key) for key in keys], out)
    return out.getvalue()


def test_epochs_are_a_line_each_between_header_and_total(tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=1.5264).epoch(2, loss=1.102, acc=0.5)
    assert text_of(tmp_path, "x").splitlines() == [
        "# epochal training log",
        "epoch   1/100  loss=1.5264  [49ms]",
        "epoch   2/100  loss=1.1020  acc=0.5000  [49ms]",
        "# total: 98ms",
    ]


def test_a_run_without_epochs_gives_step_lines(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=0.5).metrics(2, loss=0.25, lr=1e-4)
    assert text_of(tmp_path, "x").splitlines() == [
        "# epochal training log",
        "step       1  loss=0.5000",
        "step       2  loss=0.2500  lr=1.00e-04",
        "# total: 1s",
    ]


def test_epoch_records_at_hand_give_the_same_log(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    log.write_epoch_log(path, [{"epoch": 1, "total": 3, "duration_s": 2, "m": {"loss": 1}}])
    assert path.read_text().splitlines()[1] == "epoch 1/3  loss=1.0000  [2s]"


def test_a_name_cannot_break_a_line(tmp_path: Path) -> None:
    Journal(tmp_path).add({"log": "metrics", "step": 1, "m": {"a\nb": 1.0}})
    assert "a\\nb=1.0000" in text_of(tmp_path, "x")
