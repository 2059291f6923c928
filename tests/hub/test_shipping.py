"""Runs reach a hub whole: as they are written, later, again, after a crash of either side."""

from __future__ import annotations

import base64
import os
import stat
import time
from pathlib import Path

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import MetricNotFoundError, RunNotFoundError
from epochal.exchange.media.types import Image
from epochal.hub.ledger import Ledger, only_hub
from epochal.journal.blobs import Pixels, encode_pending, encode_png
from epochal.journal.layout import RunFolder
from epochal.journal.segments.seal import seal_part
from epochal.shipping.client import HubError
from epochal.shipping.fetching import fetch_run
from epochal.shipping.protocol import MAX_LINES_BYTES
from epochal.shipping.worker import LONGEST_REST_S, SHORTEST_REST_S, rest_after, ship_now
from tests.hub.hub_process import HubProcess
from tests.journal.segments.parts import column_byte, flip

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow


def record(folder: Path, name: str = "a", *, project: str = "p", steps: int = 50) -> RunFolder:
    run = epochal.init(project, name, dir=folder, companion=False, console=False)
    for step in range(steps):
        run.log({"loss": 1 / (step + 1)}, step=step)
    run.log({"picture": Image(np.zeros((8, 8), np.uint8))}, 1)
    run.finish()
    return RunFolder(run.dir)


def values(root: Path, name: str = "a") -> list[float]:
    try:
        return list(epochal.open(root).run(name).series("loss").values)
    except (RunNotFoundError, MetricNotFoundError):  # it is on the way
        return []


def journal(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.journal.iterdir())}


def test_a_pushed_run_is_the_same_on_the_hub(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder)
    assert values(hub.root) == values(tmp_path / "runs")
    blobs = [path.name for path in folder.blobs.glob("*.png")]  # uncommitted changes are not sent
    assert [path.name for path in (hub.root / "p" / "a" / "blobs").iterdir()] == blobs


def test_a_line_that_hardly_becomes_smaller_is_sent(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    with open(next(folder.journal.glob("loop*")), "ab") as part:
        part.write(b'{"log":"noise","t":1,"text":"%s"}\n' % base64.b64encode(os.urandom(6 << 20)))
    ship_now(folder, hub.client())
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder)


def test_a_line_that_is_too_long_for_a_hub_is_told(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    with open(next(folder.journal.glob("loop*")), "ab") as part:
        part.write(b'{"log":"long","t":1,"text":"%s"}\n' % (b"a" * MAX_LINES_BYTES))
    with pytest.raises(
        HubError, match=r"a line of .* is longer than the 16.0 MiB that a hub takes"
    ):
        ship_now(folder, hub.client())
    assert values(hub.root) == values(tmp_path / "runs")


def test_sending_again_changes_nothing(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    assert ship_now(folder, hub.client()).lines > 50
    before = journal(RunFolder(hub.root / "p" / "a"))
    assert not any(ship_now(folder, hub.client()))
    assert journal(RunFolder(hub.root / "p" / "a")) == before


def test_a_hub_that_lost_its_newest_lines_gets_them_again(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    client = hub.client()
    ship_now(folder, client)
    hub.kill()
    part = next((hub.root / "p" / "a" / "journal").iterdir())
    lines = part.read_bytes().splitlines(keepends=True)
    part.write_bytes(b"".join(lines[:20]) + lines[20][:9])  # a backup of yesterday, torn
    hub.start()
    assert ship_now(folder, client).lines == len(lines) - 20
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder)


@pytest.fixture(autouse=True)
def _pack_small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epochal.cli.pack.WORTH_SEALING_BYTES", 0)


def test_a_segment_replaces_its_part(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    assert main(["--dir", str(tmp_path / "runs"), "manage", "pack", "a"]) == 0
    assert folder.sealed_parts()
    ship_now(folder, hub.client())
    there = RunFolder(hub.root / "p" / "a")
    assert there.sealed_parts() == folder.sealed_parts()
    assert there.parts() == folder.parts()
    assert values(hub.root) == values(tmp_path / "runs")


def test_a_hub_that_has_sealed_a_part_gets_all_of_it(
    hub: HubProcess,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    runs = str(tmp_path / "runs")
    run = epochal.init("p", "a", dir=runs, companion=False, console=False)
    for step in range(500):
        run.log({"loss": step}, step=step)
    push = ["--dir", runs, "hub", "push", "a", "--to", hub.url]
    assert main(push) == 0
    out = capsys.readouterr().out
    assert out.startswith("a: 501 records")
    assert out.endswith("sent; the hub has everything.\n")
    for step in range(500, 1000):
        run.log({"loss": step}, step=step)
    there = RunFolder(hub.root / "p" / "a")
    (name,) = there.parts()
    seal_part(there, name, into=there.segments)
    there.part_path(name).unlink()
    # The hub lacks half of the records, and the sender has no segment yet: it says so.
    assert main(push) == 2
    said = capsys.readouterr()
    assert "with 501 records, and this folder has 1,001" in said.err
    assert "has everything" not in said.out
    run.finish()
    assert main(["--dir", runs, "manage", "pack", "a"]) == 0
    capsys.readouterr()
    assert main(push) == 0
    assert "2 files sent; the hub has everything." in capsys.readouterr().out
    assert values(hub.root) == list(range(1000))


def test_a_hub_does_not_seal_what_it_receives(
    hub: HubProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    assert main(["--dir", str(hub.root), "manage", "pack", "--all"]) == 2
    assert "Pack the run where it was recorded" in capsys.readouterr().err
    assert journal(RunFolder(hub.root / "p" / "a")) == journal(folder)


def test_push_finds_a_file_with_other_contents(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    blob = next((hub.root / "p" / "a" / "blobs").iterdir())
    blob.write_bytes(encode_png(Pixels(b"another picture!", 4, 4, 1)))
    with pytest.raises(HubError, match="other contents"):
        ship_now(folder, hub.client())


def test_repair_deletes_unfinished_uploads(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "hub")
    Ledger(tmp_path / "hub").close()
    assert encode_pending(folder)
    partial = folder.blobs / f".other.bin.{'0' * 16}.partial"
    partial.write_bytes(b"half of it")
    repair = ["--dir", str(tmp_path / "hub"), "manage", "repair", "--all"]
    assert main([*repair[:-2], "verify", "--all"]) == 1
    assert f"p/a: blobs/{partial.name}: this is an unfinished upload." in capsys.readouterr().out
    with only_hub(tmp_path / "hub"):
        assert main(repair) == 1
    assert "A hub is running" in capsys.readouterr().out
    assert partial.exists()
    assert main(repair) == 0
    assert not partial.exists()
    assert main(repair) == 0
    assert capsys.readouterr().out.endswith("No damage was found in 1 run.\n")


def test_repair_names_parts_that_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "runs")
    (name,) = folder.parts()
    folder.part_path(name).rename(folder.part_path(name._replace(part=1)))
    assert main(["--dir", str(tmp_path / "runs"), "manage", "repair", "--all"]) == 1
    said = capsys.readouterr().out
    assert (
        "p/a: journal/loop.0001.0000.jsonl: this part is missing, and a later one is there." in said
    )


def test_equal_names_do_not_collide(hub: HubProcess, tmp_path: Path) -> None:
    one, two = record(tmp_path / "one", steps=3), record(tmp_path / "two", steps=5)
    ship_now(one, hub.client())
    ship_now(two, hub.client())
    assert len(values(hub.root, "a")) == 3
    assert len(values(hub.root, "a-2")) == 5


def test_a_fork_is_shipped_with_its_history(hub: HubProcess, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    record(runs, "parent", steps=10)
    run = epochal.init(
        "p", "child", dir=runs, fork_from="parent?step=4", companion=False, console=False
    )
    run.log({"loss": 9.0}, step=5)
    run.finish()
    ship_now(RunFolder(run.dir), hub.client())
    assert values(hub.root, "child") == values(runs, "child")
    assert len(values(hub.root, "child")) == 6


def test_another_folder_with_the_id_of_a_run_is_refused(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    part = folder.part_path(folder.parts()[0])
    part.write_bytes(part.read_bytes().replace(b'"finished"', b'"terminated"'))
    with pytest.raises(epochal.EpochalError, match="other lines than"):
        ship_now(folder, hub.client())


def test_labels_are_merged_both_ways(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    ship_now(folder, hub.client())
    assert main(["--dir", str(tmp_path / "runs"), "tag", "a", "here"]) == 0
    assert main(["--dir", str(hub.root), "tag", "a", "there"]) == 0
    assert main(["--dir", str(hub.root), "note", "a", "seen"]) == 0
    ship_now(folder, hub.client())
    for root in (hub.root, tmp_path / "runs"):
        labels = epochal.open(root).run("a").view.labels
        assert set(labels.tags or ()) == {"here", "there"}
        assert labels.notes == "seen"


def test_labels_that_the_hub_refuses_keep_nothing_else_from_it(
    hub: HubProcess, tmp_path: Path
) -> None:
    folder = record(tmp_path / "runs")
    folder.labels.write_text('{"name":5,"tags":"x"}')
    with pytest.raises(HubError, match=r"the hub refuses labels\.json: .*Expected `str \| null`"):
        ship_now(folder, hub.client())
    assert len(values(hub.root)) == 50
    assert not (hub.root / "p" / "a" / "labels.json").exists()
    folder.labels.unlink()
    ship_now(folder, hub.client())


@pytest.mark.parametrize("is_argument", [False, True])
def test_a_run_is_shipped_while_it_is_recorded(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_argument: bool
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", "http://127.0.0.1:1" if is_argument else hub.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    url = hub.url if is_argument else None
    run = epochal.init("p", "live", dir=tmp_path / "runs", console=False, companion=True, hub=url)
    for step in range(20):
        run.log({"loss": float(step)}, step=step)
    wait_until(lambda: len(values(hub.root, "live")) == 20)
    for step in range(20, 40):
        run.log({"loss": float(step)}, step=step)
    run.finish()
    wait_until(lambda: epochal.open(hub.root).run("live").info.status.state == "finished")
    assert values(hub.root, "live") == [float(step) for step in range(40)]


def test_pull_gives_the_run_back(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = record(tmp_path / "runs")
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    assert main(["--dir", str(tmp_path / "runs"), "hub", "push", "a", "--to", hub.url]) == 0
    for _ in range(2):
        assert main(["--dir", str(tmp_path / "back"), "hub", "pull", "p/a", "--from", hub.url]) == 0
    assert journal(RunFolder(tmp_path / "back" / "p" / "a")) == journal(folder)


def test_uncommitted_changes_are_sent_only_if_a_setting_asks_for_it(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    folder, there = record(tmp_path / "runs"), hub.root / "p" / "a" / "blobs"
    (picture,) = (path.name.removesuffix(".raw") for path in folder.blobs.iterdir())
    patches = ("uncommitted.patch", "uncommitted-0123abcd.patch")
    for name in patches:
        (folder.blobs / name).write_bytes(b"x")
    ship_now(folder, hub.client())
    assert [path.name for path in there.iterdir()] == [picture]
    monkeypatch.setenv("EPOCHAL_HUB_PATCH", "1")
    ship_now(folder, hub.client())
    assert {path.name for path in there.iterdir()} == {*patches, picture}
    back = fetch_run(hub.client(), epochal.load(folder.path).info.id, tmp_path / "back")
    for name in patches:
        modes = {stat.S_IMODE((blobs / name).stat().st_mode) for blobs in (there, back.blobs)}
        assert modes == {0o600}


def wait_until(condition: object, *, limit_s: float = 120.0, every_s: float = 0.2) -> None:
    assert callable(condition)
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(every_s)


def test_a_hub_that_answers_at_once_gets_batches_twice_a_second() -> None:
    rests = [rest_after(0.001) for _ in range(200)]
    assert max(rests) <= SHORTEST_REST_S
    assert min(rests) >= 0.8 * SHORTEST_REST_S
    assert len(set(rests)) > 100  # not all companions in the same moment


def test_a_slow_hub_is_asked_less_often_but_within_a_second() -> None:
    assert max(rest_after(0.2) for _ in range(200)) > SHORTEST_REST_S
    assert max(rest_after(30.0) for _ in range(200)) <= LONGEST_REST_S


def pushed(hub: HubProcess, root: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run that the hub has, and the settings with which commands reach it."""
    folder = record(root, steps=500)
    encode_pending(folder)
    ship_now(folder, hub.client())
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    monkeypatch.setenv("EPOCHAL_HUB", hub.url)
    return folder


@pytest.mark.parametrize("is_sealed_there", [True, False])
def test_a_damaged_segment_is_fetched_from_the_hub(
    hub: HubProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_sealed_there: bool,
) -> None:
    folder = pushed(hub, tmp_path / "runs", monkeypatch)
    expected = values(tmp_path / "runs")
    segment = seal_part(folder, folder.parts()[0]).path
    if is_sealed_there:
        ship_now(folder, hub.client())
    flip(segment, column_byte(segment, "m.loss"))
    manage = ["--dir", str(tmp_path / "runs"), "manage"]
    assert main([*manage, "verify", "a"]) == 1
    assert f"A copy: the hub {hub.url} has this run." in capsys.readouterr().out
    assert main([*manage, "repair", "a"]) == 0
    assert f"fetched from the hub {hub.url}" in capsys.readouterr().out
    assert values(tmp_path / "runs") == expected
    assert main([*manage, "verify", "a"]) == 0


def test_a_damaged_line_and_a_lost_file_are_fetched_from_the_hub(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pushed(hub, tmp_path / "runs", monkeypatch)
    before = journal(folder)
    part = folder.part_path(folder.parts()[0])
    part.write_bytes(part.read_bytes().replace(b'{"log":"metrics"', b'{"lo":"metrics"', 3))
    (picture,) = folder.blobs.glob("*.png")
    content = picture.read_bytes()
    picture.unlink()
    assert main(["--dir", str(tmp_path / "runs"), "manage", "repair", "--all"]) == 0
    assert (journal(folder), picture.read_bytes()) == (before, content)


def test_a_folder_does_not_decide_who_gets_the_token(
    hub: HubProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = pushed(hub, tmp_path / "runs", monkeypatch)
    next(folder.blobs.glob("*.png")).unlink()
    monkeypatch.setenv("EPOCHAL_HUB", "http://127.0.0.1:1")
    assert main(["--dir", str(tmp_path / "runs"), "manage", "repair", "a"]) == 1
    said = capsys.readouterr().out
    assert f"Nothing was fetched: the setting hub.url is not {hub.url}." in said
    assert not list(folder.blobs.glob("*.png"))


def test_a_hub_that_lost_a_file_takes_it_again_and_never_a_damaged_one(
    hub: HubProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = record(tmp_path / "runs", steps=500)
    encode_pending(folder)
    segment = seal_part(folder, folder.parts()[0]).path
    whole = segment.read_bytes()
    ship_now(folder, hub.client())
    there = RunFolder(hub.root / "p" / "a")
    copy = there.sealed_path(there.sealed_parts()[0])
    (picture,) = there.blobs.glob("*.png")
    flip(copy, column_byte(copy, "m.loss"))
    flip(picture, picture.stat().st_size // 2)
    assert main(["--dir", str(hub.root), "manage", "verify", "a"]) == 1
    assert (
        "sent this run as 'machine'; 'epochal hub push' there sends it" in capsys.readouterr().out
    )
    ship_now(folder, hub.client())
    assert main(["--dir", str(hub.root), "manage", "verify", "a"]) == 0
    flip(segment, column_byte(segment, "m.loss"))
    with pytest.raises(HubError, match="is damaged"):
        ship_now(folder, hub.client())
    assert copy.read_bytes() == whole
