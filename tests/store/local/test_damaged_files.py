"""One run with damaged files never takes the others out of a list."""

from __future__ import annotations

import json
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import epochal
from epochal.cli.main import main
from epochal.journal.layout import RunFolder, read_json, write_json
from epochal.store.local.catalog import folder_store
from tests.server.live import Server, serving
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]
Damage = Callable[[Path], object]

_SAID: dict[str, Any] = {
    "v": 1,
    "id": "id-x",
    "name": "x",
    "project": "p",
    "created": 1000.0,
    "tags": ["a"],
    "notes": "n",
    "config": {"lr": 0.1},
    "totals": {"steps": 10, "epochs": 2},
    "source": {"format": "TensorBoard"},
    "host": "h",
    "boot_id": "b",
    "pid_namespace": "n",
    "pid": 1,
    "pid_start": 1.0,
    "command": ["train.py"],
    "git": {"commit": "c"},
    "packages": {"torch": "2"},
}
_LABELS: dict[str, Any] = {"name": "n", "tags": ["a"], "notes": "t", "hidden": False}
_WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    10**400,
    1.5,
    "",
    "text",
    "\u0000\ud7ff",
    [],
    [[[]]],
    {},
    {"a": {"b": [1]}},
    [None, 1, "a", {}],
)
_DEEP = "[" * 100_000
_DEEP_BUT_VALID = '{"config":' + '{"a":' * 400 + "1" + "}" * 400 + "}"


def _noise(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def _socket(path: Path) -> None:
    folder = os.open(path.parent, os.O_RDONLY)  # the path itself is too long for an address
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{folder}/{path.name}")
    finally:
        os.close(folder)


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


_DAMAGES: dict[str, Damage] = {
    "deep": lambda path: path.write_text(_DEEP),
    "deep object": lambda path: path.write_text(_DEEP_BUT_VALID),
    "empty": lambda path: path.write_bytes(b""),
    "cut": lambda path: path.write_text('{"name": "x", "tags": ["a'),
    "noise": lambda path: path.write_bytes(_noise(5000)),
    "zeros": lambda path: path.write_bytes(bytes(5000)),
    "list": lambda path: path.write_text("[1]"),
    "huge": lambda path: path.write_bytes(b'{"notes":"' + b"a" * (17 << 20) + b'"}'),
    "sparse": _sparse,
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link to itself": lambda path: path.symlink_to(path.name),
    "not readable": lambda path: os.close(os.open(path, os.O_CREAT, 0)),
}


def _damaged_runs(root: Path) -> list[RunFolder]:
    """A folder of runs, each with another damage, and one whole run among them."""
    Journal(root, "whole").metrics(1, loss=0.5).finish()
    folders = []
    for number, damage in enumerate(_DAMAGES.values()):
        for file in ("run.json", "labels.json"):
            folder = Journal(root, f"{file[:3]}-{number}").metrics(1, loss=1.0).folder
            (folder.path / file).unlink(missing_ok=True)
            damage(folder.path / file)
            folders.append(folder)
    for file, fields in (("run.json", _SAID), ("labels.json", _LABELS)):
        for key in fields:
            for number, wrong in enumerate(_WRONG):
                folder = Journal(root, f"{file[:3]}-{key}-{number}").metrics(1, loss=1.0).folder
                (folder.path / file).write_text(json.dumps({**fields, key: wrong}))
                folders.append(folder)
    return folders


def test_every_run_is_listed_whatever_its_files_hold(tmp_path: Path) -> None:
    folders = _damaged_runs(tmp_path)
    with epochal.open(tmp_path) as runs:
        found = runs.runs(order="-summary.loss.last,name")
        infos = [run.info for run in found]
        assert len(infos) == len(folders) + 1
        assert len({info.id for info in infos}) == len(infos)
        (whole,) = [info for info in infos if info.name == "whole"]
        assert (whole.problem, whole.status.state) == (None, "finished")
        assert runs.runs("config.lr < 1 and name == 'whole'") == []
        for run in found:
            assert isinstance(run.config, dict)


def test_every_run_with_a_damaged_file_says_so(tmp_path: Path) -> None:
    for number, (name, damage) in enumerate(_DAMAGES.items()):
        if name == "not readable" and os.geteuid() == 0:
            continue
        for file in ("run.json", "labels.json"):
            folder = Journal(tmp_path, f"{file[:3]}-{number}").metrics(1, loss=1.0).folder
            (folder.path / file).unlink(missing_ok=True)
            damage(folder.path / file)
    with folder_store(tmp_path) as store:
        for run in store.runs():
            file = "run.json" if run.path.name.startswith("run") else "labels.json"
            assert run.info.problem is not None, run.path
            assert run.info.problem.startswith(file)
            assert run.info.step == 1


def test_the_sentence_names_the_file_the_line_and_what_to_do(
    tmp_path: Path, capsys: Capture
) -> None:
    Journal(tmp_path, "bad").folder.labels.write_text('{"name":\n"x", "tags":\n' + _DEEP)
    Journal(tmp_path, "good").metrics(1, loss=1.0)
    assert main(["ls", "--dir", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert "good" in captured.out
    assert (
        "labels.json is nested too deeply. The run is listed without labels;"
        " fix or delete that file." in captured.err
    )


def test_ls_and_show_answer_for_damaged_runs(tmp_path: Path, capsys: Capture) -> None:
    folders = _damaged_runs(tmp_path)
    assert main(["ls", "--all", "--json", "--dir", str(tmp_path)]) == 0
    assert len(json.loads(capsys.readouterr().out)) == len(folders) + 1
    assert main(["ls", "--all", "--dir", str(tmp_path)]) == 0
    for folder in folders[:: len(folders) // 25]:
        assert main(["show", str(folder.path), "--dir", str(tmp_path)]) in (0, 2), folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving(tmp_path) as server:
        yield server


def test_the_server_lists_damaged_runs(tmp_path: Path, server: Server) -> None:
    folders = _damaged_runs(tmp_path)
    while True:  # hundreds of runs may come in several steps
        answer = server.ask("/api/runs", config=1, summary=["role:loss"], limit=10_000)
        assert answer.status == 200
        if not answer.json["unsummarised"]:
            break
    assert answer.json["total"] == len(folders) + 1
    for row in answer.json["rows"]:
        assert server.ask(f"/api/runs/{quote(row['id'])}").status == 200, row


def test_a_journal_with_a_deep_configuration_is_listed(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path, "deep", identity=False)
    deep = '{"a":' * 400 + "1" + "}" * 400
    line = '{"log":"run","t":1.0,"v":1,"id":"d","name":"deep","config":' + deep + "}\n"
    journal.path().write_text(line)
    answer = server.ask("/api/runs", config=1).json
    assert [(row["name"], row["config"], row["damaged"]) for row in answer["rows"]] == [
        ("deep", {}, 1)
    ]


def test_a_fault_in_reading_one_run_leaves_the_others_listed(tmp_path: Path) -> None:
    Journal(tmp_path, "good").metrics(1, loss=1.0)
    journal = Journal(tmp_path, "bad").metrics(1, loss=1.0)

    class Faulty:
        """Stands in for files that make our own code fail."""

        def __get__(self, instance: object, owner: type) -> object:
            raise MemoryError("no room")

    store = folder_store(tmp_path)
    bad = next(run for run in store.runs() if run.path.name == "bad")
    source = type(bad.source)
    bad.source.__class__ = type("FaultySource", (source,), {"parts": Faulty()})
    journal.metrics(2, loss=1.0)
    store.refresh()
    infos = {info.name: info for info in (run.info for run in store.runs())}
    assert infos["good"].step == 1
    assert infos["bad"].status.state == "unreadable"
    assert "MemoryError: no room" in str(infos["bad"].problem)


def test_labels_that_cannot_be_read_are_kept_when_new_ones_are_written(tmp_path: Path) -> None:
    folder = Journal(tmp_path).metrics(1, loss=1.0).folder
    folder.labels.write_text('{"notes": "a week of work",}')
    with folder_store(tmp_path) as store:
        run = store.run("x")
        run.relabel(lambda labels: labels)
        assert run.info.problem is None
    assert (folder.path / "labels.json.damaged").read_text() == '{"notes": "a week of work",}'


def test_a_run_json_of_any_size_we_write_is_read(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"config": {f"key{n}": "v" * 100 for n in range(50_000)}})
    assert len(read_json(path)["config"]) == 50_000
