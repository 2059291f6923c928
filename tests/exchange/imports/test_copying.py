from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main
from epochal.exchange.imports.copying import Copied, copy_run
from epochal.journal.layout import RunFolder, read_json
from epochal.journal.reader import read_journal
from epochal.journal.segments.parts import sealable_parts
from epochal.journal.segments.seal import seal_part
from epochal.store.local.by_path import load_run
from epochal.store.local.catalog import folder_store
from tests.exchange.imports.event_files import scalar, write_events
from tests.exchange.imports.samples import TENSORBOARD, WANDB, opened


def copy_all(source: Path, root: Path) -> list[Copied]:
    found = opened(source)
    return [copy_run(found, run, root=root) for run in found.runs()]


def command(*words: str) -> int:
    return main(["import", *words])


def test_a_copy_is_a_run_like_any_other(tmp_path: Path) -> None:
    (copied,) = copy_all(WANDB, tmp_path)
    (run,) = folder_store(tmp_path).runs()
    assert (copied.outcome, run.info.name, run.info.project) == ("new", "first", "digits")
    assert run.info.status.state == "finished"
    assert run.config["model"] == {"layers": 2}
    assert run.config["late"] == 3
    assert len(run.series("loss")) == 31
    assert run.samples("img")[0].read().startswith(b"\x89PNG")


def test_a_copy_whose_tracker_tells_no_end_is_imported_and_can_be_packed(tmp_path: Path) -> None:
    write_events(tmp_path / "logs", [scalar("a", 1, step=1, t=time.time())])
    (copied,) = copy_all(tmp_path / "logs", tmp_path / "runs")
    status = load_run(copied.folder).status
    assert (status.state, status.text) == ("finished", "imported")
    assert status.reason == "the files of TensorBoard do not say how it ended"
    folder = RunFolder(copied.folder)
    assert sealable_parts(folder) == folder.parts()
    seal_part(folder, folder.parts()[0])
    assert load_run(copied.folder).series("a").values.tolist() == [1]


def test_points_that_a_later_session_purged_are_hidden(tmp_path: Path) -> None:
    copy_all(TENSORBOARD, tmp_path)
    run = folder_store(tmp_path).run("tensorboard/first")
    series = run.series("loss/train")
    assert (len(series), series.hidden) == (35, 10)
    assert series.values[-5:].tolist() == [9.0] * 5
    assert run.config["opt"] == "adam"
    assert len(run.histograms("weights")) == 1


def test_times_are_kept_to_the_millisecond(tmp_path: Path) -> None:
    write_events(tmp_path / "logs", [scalar("a", 1, step=1, t=1.7e9 + 0.123456)])
    (copied,) = copy_all(tmp_path / "logs", tmp_path / "runs")
    (_, record) = list(read_journal(RunFolder(copied.folder)))[1]
    assert record == {"log": "metrics", "t": 1700000000.123, "step": 1, "m": {"a": 1.0}}


def test_the_same_source_again_changes_nothing(tmp_path: Path) -> None:
    first = copy_all(TENSORBOARD, tmp_path)
    again = copy_all(TENSORBOARD, tmp_path)
    assert [copied.outcome for copied in again] == ["unchanged"] * 3
    assert [copied.folder for copied in again] == [copied.folder for copied in first]


def test_a_source_that_grew_replaces_its_copy_and_keeps_labels(tmp_path: Path) -> None:
    write_events(tmp_path / "logs", [scalar("a", 1, step=1)])
    (first,) = copy_all(tmp_path / "logs", tmp_path / "runs")
    (first.folder / "labels.json").write_text('{"tags":["kept"]}')
    write_events(tmp_path / "logs", [scalar("a", 2, step=2)])
    (second,) = copy_all(tmp_path / "logs", tmp_path / "runs")
    (run,) = folder_store(tmp_path / "runs").runs()
    assert (second.outcome, second.folder) == ("updated", first.folder)
    assert (run.info.tags, run.series("a").steps.tolist()) == (("kept",), [1, 2])


def test_a_name_that_is_taken_gets_a_number(tmp_path: Path) -> None:
    for name in ("x/run", "y/run"):
        write_events(tmp_path / name, [scalar("a", 1, step=1)])
        found = opened(tmp_path / name)
        (run,) = found.runs()
        copied = copy_run(found, run, root=tmp_path / "runs", project="p")
    assert (copied.name, read_json(copied.folder / "run.json")["name"]) == ("run-2", "run-2")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(OSError, match="denied"):
        copy_all(WANDB, tmp_path / "runs")


def test_nothing_is_left_behind_beside_the_runs(tmp_path: Path) -> None:
    copy_all(WANDB, tmp_path)
    assert [path.name for path in (tmp_path / "digits").iterdir()] == ["first"]


def test_the_command_says_what_it_did(tmp_path: Path, capsys: Any) -> None:
    assert command(str(WANDB), "--dir", str(tmp_path), "--json") == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["id"], row["name"], row["outcome"]) == ("abc12345", "first", "new")
    assert (Path(row["folder"]) / "run.json").is_file()


def test_the_command_gives_other_names(tmp_path: Path, capsys: Any) -> None:
    assert command(str(WANDB), "--dir", str(tmp_path), "--project", "p", "--name", "n") == 0
    assert folder_store(tmp_path).run("p/n").info.id == "abc12345"


def test_a_dry_run_lists_and_copies_nothing(tmp_path: Path, capsys: Any) -> None:
    assert command(str(TENSORBOARD), "--dir", str(tmp_path), "-n") == 0
    assert "tensorboard/second/deep" in capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_damage_is_said_and_makes_the_exit_code(tmp_path: Path, capsys: Any) -> None:
    path = write_events(tmp_path / "logs", [scalar("a", i, step=i) for i in range(9)])
    text = bytearray(path.read_bytes())
    text[60] ^= 1
    path.write_bytes(text)
    assert command(str(tmp_path / "logs"), "--dir", str(tmp_path / "runs")) == 2
    assert f"{path} is damaged at byte" in capsys.readouterr().err


def test_one_name_for_several_runs_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(str(TENSORBOARD), "--dir", str(tmp_path), "--name", "n") == 2
    assert "--name" in capsys.readouterr().err


def test_a_source_that_is_none_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(str(tmp_path), "--dir", str(tmp_path)) == 2
    assert "no runs of another tracker to import" in capsys.readouterr().err
