"""A pipe under the name of another tracker's file is never waited for."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from epochal.errors import FormatError
from epochal.exchange.imports.sqlite_file import SqliteFile
from epochal.store.local.catalog import folder_store
from tests.exchange.imports.samples import tensorboard

_NAMES = (
    "events.out.tfevents.1700000000.host.1.0",
    "table.csv",
    "lines.jsonl",
    "training.json",
    "log-1.json",
    "mlflow.db",
    "trackio.db",
    "run-x.wandb",
    "wandb/offline-run-20240101_000000-x/run-x.wandb",
)


def _pipes(root: Path) -> None:
    for name in _NAMES:
        for folder in (root, root / "alone" / name.replace("/", "-")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.mkfifo(folder / name)


def test_ls_and_import_do_not_wait_for_pipes(tmp_path: Path) -> None:
    _pipes(tmp_path)
    places = [tmp_path, *(tmp_path / "alone").iterdir()]
    program = """
import sys
from epochal.cli.main import main
for place in sys.argv[1:]:
    main(["ls", place])
    main(["import", place, "--dry-run"])
    main(["import", place, "--dir", place + "/copies"])
"""
    ended = subprocess.run(
        [sys.executable, "-c", program, *map(str, places)],
        timeout=120,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_file_that_a_pipe_took_the_place_of_is_a_problem(tmp_path: Path) -> None:
    sample = tensorboard(tmp_path)
    with folder_store(sample.source) as store:
        runs = {run.path: run for run in store.runs()}
        run = runs[sample.file.parent]
        assert run.info.records > 1
        sample.file.unlink()
        os.mkfifo(sample.file)
        store.refresh()
        assert "not a regular file" in str(run.info.problem)


@pytest.mark.parametrize("side", ["-wal", "-journal"])
def test_a_pipe_beside_an_sqlite_file_is_not_waited_for(tmp_path: Path, side: str) -> None:
    path = tmp_path / "mlflow.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table a (b)")
    os.mkfifo(f"{path}{side}")
    with pytest.raises(FormatError, match="not a regular file"):
        SqliteFile(path).tables()
