"""Importers are found by their files, and by entry points of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from epochal.base.guard import Guard
from epochal.errors import InternalError
from epochal.exchange.imports import formats
from epochal.exchange.imports.registry import (
    all_importers,
    open_all_foreign,
    open_foreign,
    own_formats,
)
from epochal.store.local.catalog import folder_store
from tests.doubles.packages import installed_package
from tests.exchange.imports.samples import SAMPLES

IMPORTER = """
from epochal.exchange.imports.foreign import Batch, Identity, RecordList, file_signature


def find(path, bounds=None):
    files = [path] if path.is_file() else sorted(path.glob("*.diary"))
    return DiaryFiles(path, files) if any(file.suffix == ".diary" for file in files) else None


class DiaryFiles:
    label = "Diary"

    def __init__(self, path, files):
        self.path = path
        self._runs = [DiaryRun(file) for file in files]

    def runs(self):
        return self._runs


class DiaryRun:
    problems = ()

    def __init__(self, path):
        self.path = path
        self.key = path.name
        self.identity = Identity(id=path.stem, name=path.stem, project="diaries")
        self._is_read = False

    def signature(self):
        return file_signature(self.path)

    def read_new(self):
        if self._is_read:
            return
        self._is_read = True
        records = RecordList()
        for step, line in enumerate(self.path.read_text().split()):
            records.add_point("loss", float(line), step=step, t=step * 1.0)
        yield Batch(records)

    def rewind(self):
        self._is_read = False

    def blob(self, file):
        raise KeyError(file)
"""


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A folder of installed packages, with one that says it has an importer."""
    with installed_package(
        tmp_path, "run_diaries", "[epochal.importers]\ndiary = run_diaries\n"
    ) as installed:
        yield installed


@pytest.fixture
def diaries(tmp_path: Path) -> Path:
    folder = tmp_path / "diaries"
    folder.mkdir()
    (folder / "monday.diary").write_text("3.0\n2.0\n")
    return folder


def test_every_file_is_an_importer_of_its_name() -> None:
    files = {path.stem for path in Path(formats.__path__[0]).glob("*.py")} - {"__init__"}
    assert {one.name for one in all_importers(Guard())} == set(own_formats()) == files


def test_trackers_are_tried_before_what_any_program_writes() -> None:
    names = [one.name for one in all_importers(Guard())]
    assert names.index("wandb") < names.index("tensorboard")
    assert {one.name for one in all_importers(Guard()) if one.is_general} == set(names[-2:])


def test_another_package_adds_an_importer(package: Path, diaries: Path) -> None:
    (package / "run_diaries.py").write_text(IMPORTER)
    source = open_foreign(diaries / "monday.diary")
    assert source is not None
    assert source.label == "Diary"
    with folder_store(diaries) as store:
        (run,) = store.runs()
        assert (run.info.name, run.info.problem) == ("monday", None)


@pytest.mark.parametrize("source", ["import no_such_package", "", "find = 3", "ORDER = 'first'"])
def test_an_importer_that_cannot_be_loaded_is_one_fault_and_left_out(
    package: Path, diaries: Path, tmp_path: Path, source: str
) -> None:
    if source.startswith("ORDER"):
        source += IMPORTER
    (package / "run_diaries.py").write_text(source)
    guard = Guard()
    assert [one.name for one in all_importers(guard)] == [
        one.name for one in all_importers(Guard()) if one.name in own_formats()
    ]
    assert list(guard.faults) == ["loading of importer diary"]
    assert open_all_foreign(diaries, guard=guard) == []
    assert open_foreign(SAMPLES["csv"](tmp_path).source) is not None


def test_a_file_that_nobody_knows_names_the_importer_that_cannot_be_loaded(
    package: Path, diaries: Path
) -> None:
    (package / "run_diaries.py").write_text("import no_such_package")
    with pytest.raises(InternalError, match=r"loading of importer diary failed.*no_such_package"):
        open_foreign(diaries)


def test_an_importer_of_another_package_cannot_take_the_place_of_ours(package: Path) -> None:
    about = package / "run_diaries-1.0.dist-info"
    (about / "entry_points.txt").write_text("[epochal.importers]\ncsv = run_diaries\n")
    (package / "run_diaries.py").write_text(IMPORTER)
    guard = Guard()
    assert {one.name: one.module.__name__ for one in all_importers(guard)}["csv"] == (
        "epochal.exchange.imports.formats.csv"
    )
    assert "the name of another importer" in guard.faults["loading of importer csv"].error
