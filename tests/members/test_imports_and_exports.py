"""An importer or exporter of each shape fails, and only that one does, with a sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochal.base.guard import Guard
from epochal.cli.main import main
from epochal.errors import InternalError
from epochal.exchange.imports.registry import importer_member, open_all_foreign, open_foreign
from epochal.exports.export import BINARY
from epochal.exports.export import FORMATS as EXPORTS
from epochal.store.local.catalog import folder_store
from tests.conftest import StartRun
from tests.exchange.imports.samples import SAMPLES
from tests.members.faults import broken


@pytest.fixture(autouse=True)
def no_more_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", ["csv", "tensorboard"])
def test_an_importer_that_fails_leaves_the_others_and_our_own_runs(
    name: str,
    start_run: StartRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    start_run("ours").finish()
    other = next(one for one in ("csv", "training_json") if one != name)
    folder = tmp_path / "runs" / "others"
    folder.mkdir()
    SAMPLES[other](folder)
    monkeypatch.setattr(f"epochal.exchange.imports.formats.{name}.find", broken)
    guard = Guard()
    found = open_all_foreign(folder, guard=guard)
    # Tables are not looked for beside the files of a tracker.
    assert guard.count(importer_member(name)) == (name != "csv")
    assert len(found) == 1
    capsys.readouterr()
    assert main(["--dir", str(tmp_path / "runs"), "ls"]) == 0
    assert "ours" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["csv", "tensorboard"])
def test_a_file_of_an_importer_that_fails_is_one_run_with_a_problem(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = SAMPLES[name](tmp_path).source
    monkeypatch.setattr(f"epochal.exchange.imports.formats.{name}.find", broken)
    if open_all_foreign_or_none(source):
        return  # a table or lines to the next importer
    with pytest.raises(InternalError, match=f"importer {name} failed.*please report it"):
        open_foreign(source)
    assert main(["import", str(source)]) == 2
    assert f"importer {name} failed" in capsys.readouterr().err
    with folder_store(source) as store:
        assert any("failed" in (run.info.problem or "") for run in store.runs())


def open_all_foreign_or_none(source: Path) -> object:
    try:
        return open_all_foreign(source)
    except InternalError:
        return None


@pytest.mark.parametrize("name", [next(iter(EXPORTS)), next(iter(BINARY))])
def test_an_exporter_that_fails_says_so_and_leaves_no_file(
    name: str,
    start_run: StartRun,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = start_run("ours")
    run.log({"loss": 1.0}, step=0)
    run.finish()
    module = {**EXPORTS, **BINARY}[name]
    other = next(one for one in EXPORTS if one != name)
    monkeypatch.setattr(f"{module}.write", broken)
    assert main(["export", str(run.dir), "--format", name, "-o", "broken"]) == 2
    assert f"exporter {name} failed" in capsys.readouterr().err
    assert list(tmp_path.glob("*broken*")) == []
    assert main(["-v", "export", str(run.dir), "--format", name, "-o", "broken"]) == 2
    said = capsys.readouterr()
    assert "Traceback" in said.err + said.out
    assert main(["export", str(run.dir), "--format", other, "-o", "whole"]) == 0
    assert (tmp_path / "whole").stat().st_size > 0
