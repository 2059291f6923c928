"""The run that sinks send in tests."""

from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from tests.exchange.sinks.journal_files import metrics, run_folder, write


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = run_folder(tmp_path / "run")
    write(folder, metrics(0), metrics(1))
    return folder
