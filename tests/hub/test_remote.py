"""Runs of a hub are read from another machine as if they were here."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import epochal
from epochal.cli.main import main
from epochal.cli.tui.state import AppState
from epochal.errors import RunNotFoundError
from epochal.hub.documents import FolderDocuments
from epochal.hub.ledger import Links
from epochal.journal.layout import RunFolder
from epochal.shipping.client import HubError
from epochal.shipping.protocol import CHUNK_BYTES
from epochal.shipping.worker import ship_now
from epochal.store.remote.catalog import http_store, open_remote
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import record
from tests.server.live import serving
from tests.store.journals import Journal

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path / "cache"))


def test_a_hub_is_opened_like_a_folder(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(hub.root, "a", steps=30)
    record(hub.root, "b", project="q", steps=5)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    with epochal.open(hub.url) as there, epochal.open(hub.root) as here:
        for run in here:
            same = there.run(run.info.id)
            assert same.info == run.info
            assert same.config == run.config
            assert same.metrics() == run.metrics()
            one, other = same.summary("loss"), run.summary("loss")
            assert replace(one, mean=other.mean) == other
            assert one.mean == pytest.approx(other.mean)  # folded there, summed here
            series = same.series("loss")
            assert np.array_equal(series.values, run.series("loss").values)
            records = [record for _, record in same.view.records()]
            assert records == [record for _, record in run.view.records()]
            assert same.samples()[0].read() == run.samples()[0].read()
            assert same.view.facts == run.view.facts
        assert [run.name for run in there.runs('project == "q"')] == ["b"]


def test_the_id_of_a_run_is_no_path_of_the_reader(tmp_path: Path) -> None:
    Journal(tmp_path / "runs", id="..").metrics(1, loss=0.5)
    with (
        serving(tmp_path / "runs") as server,
        epochal.open(f"http://127.0.0.1:{server.port}") as there,
    ):
        assert there.run("..").series("loss").values.tolist() == [0.5]
        cache = tmp_path / "cache"
        (copy,) = (path.parent for path in cache.rglob("journal"))
        assert len(copy.relative_to(cache).parts) == 4, copy


def test_samples_and_files_of_a_hub_are_read_and_saved(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    run = epochal.init("p", "a", dir=tmp_path / "runs", companion=False, console=False)
    picture = epochal.Image(np.zeros((4, 4)), masks={"cells": np.ones((4, 4), int)})
    run.log({"picture": picture, "table": [{"cell": picture}]}, step=1)
    large = tmp_path / "large.bin"
    large.write_bytes(os.urandom(3 * CHUNK_BYTES + 1))
    run.log_file(large)
    run.finish()
    ship_now(RunFolder(run.dir), hub.client())
    with epochal.open(hub.url) as there:
        same = there.run("a")
        assert same.files()[0].path.read_bytes() == large.read_bytes()
        pixels, table = same.samples()
        assert pixels.read() == table.data[0]["cell"].read()
        (mask,) = pixels.record["masks"]
        assert same.view.blob(mask["file"]).startswith(b"\x89PNG")
    saved = ["--format", "files", "-o", str(tmp_path / "saved")]
    assert main(["export", "a", *saved, "--hub", hub.url]) == 0
    assert (tmp_path / "saved" / "large.bin").read_bytes() == large.read_bytes()
    assert (tmp_path / "saved" / "picture" / "step-000001.png").exists()


def test_refresh_fetches_only_what_is_new(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = epochal.init("p", "live", dir=hub.root, companion=False, console=False)
    run.log({"loss": 1.0}, step=0)
    with http_store(hub.url, token=hub.token, cache=tmp_path / "cache") as store:
        view = store.run("live")
        assert view.series("loss").values.tolist() == [1.0]
        copy = next((tmp_path / "cache").rglob("loop.*.jsonl"))
        inode = copy.stat().st_ino
        run.log({"loss": 2.0}, step=1)
        assert view.series("loss").values.tolist() == [1.0]
        assert view.refresh()
        assert view.series("loss").values.tolist() == [1.0, 2.0]
        assert copy.stat().st_ino == inode
        assert not view.refresh()
    run.finish()


def test_a_copy_that_is_torn_or_differs_is_made_whole(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(hub.root)
    cache = tmp_path / "cache"
    with http_store(hub.url, token=hub.token, cache=cache) as store:
        expected = store.run("a").series("loss").values.tolist()
    copy = next(cache.rglob("loop.*.jsonl"))
    whole = copy.read_bytes()
    assert whole == folder.part_path(folder.parts()[0]).read_bytes()
    for damaged in (whole[:-7], b"", whole[:3], whole.replace(b'"finished"', b'"failed"')):
        copy.write_bytes(damaged)
        with http_store(hub.url, token=hub.token, cache=cache) as store:
            assert store.run("a").series("loss").values.tolist() == expected
        assert copy.read_bytes() == whole


def test_copies_that_nobody_reads_are_erased(hub: HubProcess, tmp_path: Path) -> None:
    for name in ("old", "new"):
        record(hub.root, name, steps=2)
    cache = tmp_path / "cache"
    with http_store(hub.url, token=hub.token, cache=cache) as store:
        for name in ("old", "new"):
            assert len(store.run(name).series("loss")) == 2
        old = store.run("old").path.parent
        month_ago = time.time() - 31 * 86_400
        os.utime(old, (month_ago, month_ago))
    assert not old.exists()
    assert len(list(cache.rglob("run.json"))) == 1


def test_a_long_list_comes_whole(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        record(hub.root, f"r{number}", steps=1)
    monkeypatch.setattr("epochal.store.remote.server._PAGE", 3)
    with http_store(hub.url, token=hub.token, cache=tmp_path / "cache") as store:
        names = [run.info.name for run in store.runs(order="name")]
        assert names == [f"r{number}" for number in range(7)]
        assert [run.info.name for run in store.runs(order="name", limit=4)] == names[:4]


def test_a_shared_link_opens_its_run_and_no_other(hub: HubProcess) -> None:
    shown = epochal.load(record(hub.root, "a", steps=3).path).info.id
    other = epochal.load(record(hub.root, "b", steps=3).path).info.id
    link = Links(FolderDocuments(hub.root)).make([shown], until=time.time() + 600)
    with epochal.open(f"{hub.url}/?token={link}") as runs:
        assert [run.name for run in runs] == ["a"]
        assert len(runs.run("a").series("loss")) == 3
        with pytest.raises(RunNotFoundError):
            runs.run(other)


def test_a_fork_comes_with_the_history_of_its_parent(tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    record(folder, "parent", steps=10)
    fork = epochal.init(
        "p", "child", dir=folder, fork_from="parent?step=4", companion=False, console=False
    )
    fork.log({"loss": 9.0}, step=5)
    fork.finish()
    with (
        serving(folder) as server,
        epochal.open(folder) as here,
        epochal.open(f"http://127.0.0.1:{server.port}") as there,
    ):
        for name in ("child", "parent"):
            series = there.run(name).series("loss")
            assert series.values.tolist() == here.run(name).series("loss").values.tolist()
        assert len(there.run("child").series("loss")) == 6
        assert there.run("child").info == here.run("child").info


def test_following_a_run_prints_what_comes(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = epochal.init("p", "live", dir=hub.root, companion=False, console=False)
    run.log({"loss": 1.0}, step=0)
    command = [sys.executable, "-m", "epochal", "tail", "live", "-f", "--hub", hub.url]
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "step 0" in next(process.stdout)
        run.log({"loss": 0.5}, step=1)
        run.finish()
        rest = process.stdout.read()
    assert "step 1" in rest
    assert "finish" in rest


def test_the_token_of_one_hub_is_not_sent_to_another(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", "https://hub.example.org")
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    with epochal.open(hub.url) as runs, pytest.raises(HubError, match="it needs a token"):
        runs.runs()
    with epochal.open(hub.url, token=hub.token) as runs:
        assert runs.runs() == []
    with epochal.open(f"{hub.url}/?token={hub.token}") as runs:
        assert runs.runs() == []


def test_commands_read_a_hub(
    hub: HubProcess,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    record(hub.root, "a", steps=4)
    record(hub.root, "b", steps=6)
    monkeypatch.setenv("EPOCHAL_HUB", hub.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    out = str(tmp_path / "out.csv")
    for words, expected in (
        (["ls", "--hub"], "finished"),
        (["ls", "name == 'a'", "--hub", hub.url, "--json"], '"name":"a"'),
        (["show", "a", "--hub"], "loss"),
        (["tail", "b", "--hub", hub.url], "finish"),
        (["compare", "a", "b", "--hub"], "METRIC"),
        (["watch", "--hub", "--once"], "loss"),
        (["export", "a", "--hub", "-o", out], ""),
    ):
        assert main(words) == 0, words
        assert expected in capsys.readouterr().out, words
    assert "loss" in Path(out).read_text()


def test_an_empty_hub_is_not_taken_for_a_folder(
    hub: HubProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ls", "--hub", f"{hub.url}/?token={hub.token}"]) == 0
    said = capsys.readouterr().out
    assert "yet, or none that you may see" in said
    assert "--dir" not in said


def test_failures_are_one_sentence(
    hub: HubProcess, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("EPOCHAL_HUB_TOKEN", raising=False)
    for words, expected in (
        (["ls", "--hub"], "no hub is known"),
        (["ls", "--hub", hub.url], "answered 401: it needs a token; set EPOCHAL_HUB_TOKEN"),
        (["ls", "--hub", "http://127.0.0.1:9"], "cannot reach the hub http://127.0.0.1:9"),
        (["ls", "--hub", "nowhere"], "is not the address of a hub"),
    ):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert expected in said
        assert len(said.splitlines()) == 1


def test_watching_goes_on_while_the_hub_is_away(hub: HubProcess, tmp_path: Path) -> None:
    for name in ("a", "b"):
        ship_now(record(tmp_path / "runs", name, steps=2), hub.client())
    now = 100.0
    with open_remote(hub.url, token=hub.token) as store:
        state = AppState(store, clock=lambda: now)
        state.choose(1)
        shown = state.run
        hub.kill()
        now += 60
        assert state.refresh()  # something to draw: the sentence
        assert "cannot reach the hub" in state.trouble
        state.choose(0)
        assert state.run is shown
        hub.start()
        now += 60
        assert state.refresh()
        assert state.lost == ""
        assert len(state.runs) == 2
