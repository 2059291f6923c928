"""Old runs go from a hub by its rules, and never silently."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.hub.ledger import Ledger
from epochal.hub.limits import Budget, FullError, Limits
from epochal.hub.opening import OpenedHub, open_shared_hub
from epochal.hub.retention import RetentionRule, read_rules
from epochal.hub.serving import open_noting
from epochal.journal.layout import RunFolder, write_json
from epochal.shipping.client import HubError
from epochal.shipping.worker import ShippingWorker, ship_now
from epochal.store.local.catalog import folder_store
from tests.doubles.hub_in_process import HubInProcess
from tests.hub.hub_process import HubProcess
from tests.hub.opened_hubs import Open, open_hub
from tests.hub.test_shipping import journal, record, wait_until
from tests.servers.postgres import new_database

__all__ = ["open_hub"]
DAY = 86400.0
Start = Callable[..., HubProcess]


def age(run: Path, *, days: float) -> None:
    """Let everything of a run have arrived so long ago."""
    then = time.time() - days * DAY
    for path in (run, *run.rglob("*")):
        os.utime(path, (then, then))


def trashed(root: Path) -> set[str]:
    return {run.name for run in folder_store(root).trash.runs()}


def audit(root: Path) -> list[tuple[str, str]]:
    ledger = Ledger(root)
    rows = [(row["what"], row["details"]) for row in ledger.audit() if row["who"] == "retention"]
    ledger.close()
    return rows


@pytest.fixture
def with_rules(tmp_path: Path) -> Iterator[Start]:
    started: list[HubProcess] = []

    def start(rules: str, *options: str) -> HubProcess:
        root = tmp_path / "hub"
        root.mkdir(exist_ok=True)
        (root / "epochal.toml").write_text(f'[retention]\nevery = "1s"\n{rules}')
        started.append(HubProcess(root, *options))
        return started[-1]

    yield start
    for hub in started:
        hub.stop()


# -- rules ----------------------------------------------------------------------------------------


def test_a_project_says_only_what_differs(tmp_path: Path) -> None:
    (tmp_path / "epochal.toml").write_text(
        '[retention]\ntrash_after = "90d"\nerase_after = "4w"\nkeep_tags = ["paper"]\n'
        '[retention.projects."My scratch"]\ntrash_after = "12h"\nkeep_tags = []\n'
        '[retention.projects.archive]\ntrash_after = "never"\n'
    )
    rules = read_rules(tmp_path)
    month = 28 * DAY
    assert rules.of("any") == RetentionRule(90 * DAY, month, frozenset({"paper"}))
    assert rules.of("My scratch") == RetentionRule(DAY / 2, month, frozenset())
    assert rules.of("archive").trash_after_s is None
    assert rules.of("any").keeps(("x", "paper"))
    assert not rules.of("My scratch").keeps(("paper",))


def test_without_rules_nothing_goes(tmp_path: Path) -> None:
    assert not read_rules(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[retention]\ntrash_after = "soon"', "trash_after.*not a time such as"),
        ("[retention]\ntrash_after = 90", "trash_after.*not a time"),
        ('[retention]\ntrash_afer = "90d"', "did you mean trash_after"),
        ("[retention]\nkeep_tags = 3", "list of tags"),
        ('[retention]\nevery = "0s"', "at least 1s"),
        ('[retention.project.p]\ntrash_after = "1d"', r"\[retention.projects.NAME\]"),
    ],
)
def test_a_mistake_in_a_rule_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "epochal.toml").write_text(text + "\n")
    with pytest.raises(UsageError, match=said):
        read_rules(tmp_path)


def test_a_hub_with_a_mistake_in_its_rules_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "epochal.toml").write_text('[retention]\ntrash_after = "soon"\n')
    command = [sys.executable, "-m", "epochal", "hub", "serve", str(tmp_path), "--port", "0"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 2
    assert "not a time such as 90s" in ended.stderr


# -- a hub ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_old_runs_go_to_the_trash_and_nothing_goes_silently(
    with_rules: Start, tmp_path: Path
) -> None:
    hub = with_rules('trash_after = "30d"\nkeep_tags = ["paper"]')
    for name in ("old", "tagged", "new"):
        ship_now(record(tmp_path / "runs", name), hub.client())
    write_json(hub.root / "p" / "tagged" / "labels.json", {"tags": ["paper"]})
    age(hub.root / "p" / "old", days=31)
    age(hub.root / "p" / "tagged", days=400)
    wait_until(lambda: trashed(hub.root) == {"old"})
    wait_until(lambda: len(audit(hub.root)) == 1)
    assert audit(hub.root) == [("moved to the trash", "p/old: nothing was received for 31 d")]
    ship_now(record(tmp_path / "runs", "later"), hub.client())
    age(hub.root / "p" / "later", days=31)
    wait_until(lambda: trashed(hub.root) == {"old", "later"})  # the rules were applied once more
    assert {run.info.name for run in epochal.open(hub.root).runs()} == {"tagged", "new"}
    assert trashed(hub.root) == {"old", "later"}  # no rule says that the trash is erased
    hub.stop()
    text = "".join(hub.output)
    assert "for 30 d go to the trash; runs with a tag stay: paper." in text
    assert "Retention: p/old was moved to the trash: nothing was received for 31 d." in text


@pytest.mark.slow
def test_a_hub_says_at_its_start_what_it_would_do(tmp_path: Path) -> None:
    root = tmp_path / "hub"
    root.mkdir()
    (root / "epochal.toml").write_text('[retention]\ntrash_after = "30d"\n')
    hub = HubProcess(root)
    ship_now(record(tmp_path / "runs", "old"), hub.client())
    hub.stop()
    age(hub.root / "p" / "old", days=31)
    hub.start()
    hub.read_until("): p/old.")
    hub.stop()
    text = "".join(hub.output)
    assert "The hub looks every 1 h, and first 1 h after the rules were changed." in text
    assert "would move or erase now: nothing." in text
    assert "would move or erase now: to the trash: 1 run (" in text
    assert "): p/old." in text
    assert trashed(hub.root) == set()


@pytest.mark.slow
def test_the_trash_of_a_project_is_erased_by_its_rule(with_rules: Start, tmp_path: Path) -> None:
    hub = with_rules('[retention.projects.scratch]\ntrash_after = "1d"\nerase_after = "1s"')
    for project in ("p", "scratch"):
        ship_now(record(tmp_path / "runs", f"in {project}", project=project), hub.client())
        age(hub.root / project / f"in-{project}", days=2)
    wait_until(lambda: len(audit(hub.root)) == 2)
    assert [what for what, _ in audit(hub.root)] == ["erased", "moved to the trash"]
    assert trashed(hub.root) == set()
    assert {run.info.name for run in epochal.open(hub.root).runs()} == {"in p"}


# -- in a folder and in a cluster alike -----------------------------------------------------------

RULES = """
[retention]
every = "1s"
trash_after = "1s"
erase_after = "1s"
keep_tags = ["paper"]

[retention.projects.archive]
trash_after = "never"
"""


def names(hub: OpenedHub) -> set[str]:
    with contextlib.closing(open_noting(hub.runs, hub.ledger, hub.runs.whole)) as store:
        return {run.outline().name for run in store.runs()}


def notes(hub: OpenedHub) -> list[tuple[str, str]]:
    lines = [line for line in reversed(hub.ledger.audit()) if line["who"] == "retention"]
    return [(line["what"], line["details"].partition(":")[0]) for line in lines]


def test_hubs_take_turns_to_apply_their_rules(open_hub: Open, tmp_path: Path) -> None:
    told: list[str] = []
    hubs = [open_hub(told=told, rules=RULES)]
    with contextlib.suppress(UsageError):  # a folder has one hub
        hubs.append(open_hub(told=told, rules=RULES))
    client = HubInProcess(tmp_path, inbox=hubs[0].runs.inbox, ledger=hubs[0].ledger)
    for name, project in (("old", "p"), ("tagged", "p"), ("kept", "archive")):
        folder = record(tmp_path / "runs", name, project=project)
        if name == "tagged":
            write_json(folder.labels, {"tags": ["paper"]})
        ship_now(folder, client)

    def look() -> bool:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda hub: hub.retention.look(), hubs * 2))
        return len(notes(hubs[0])) == 2

    wait_until(look)
    assert notes(hubs[0]) == [("moved to the trash", "p/old"), ("erased", "p/old")]
    assert names(hubs[0]) == {"tagged", "kept"}
    assert any("They would move or erase now: " in line for line in told)


def test_rules_that_nobody_looked_at_wait_an_interval(open_hub: Open, tmp_path: Path) -> None:
    hub = open_hub(rules=RULES.replace("1s", "2s", 1))
    client = HubInProcess(tmp_path, inbox=hub.runs.inbox, ledger=hub.ledger)
    ship_now(record(tmp_path / "runs", "old"), client)
    wait_until(lambda: hub.retention.preview().startswith("to the trash: 1 run ("))
    documents = hub.ledger.documents
    for rules in (str(hub.retention.rules), "others"):  # no hub was running, or they were changed
        due = {"rules": rules, "t": time.time() - (5000.0 if rules != "others" else 1.0)}
        documents.put("retention", "due", due)
        hub.retention.look()
        assert notes(hub) == []
    documents.put("retention", "due", {"rules": str(hub.retention.rules), "t": time.time() - 1.0})
    hub.retention.look()
    assert notes(hub) == [("moved to the trash", "p/old")]


def test_a_run_in_the_trash_comes_back_when_it_is_sent_again(
    open_hub: Open, tmp_path: Path
) -> None:
    hub = open_hub()
    client = HubInProcess(tmp_path, inbox=hub.runs.inbox, ledger=hub.ledger)
    folder = record(tmp_path / "runs")
    ship_now(folder, client)
    with contextlib.closing(open_noting(hub.runs, hub.ledger, hub.runs.whole)) as store:
        store.remove(store.run("a"))
    with pytest.raises(HubError, match="was deleted on this hub"):
        ship_now(folder, client, unless_removed=True)
    assert names(hub) == set()
    ship_now(folder, client)
    assert names(hub) == {"a"}


def test_a_command_shows_and_sets_the_rules_of_all_hubs(
    postgres: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address, file = new_database(postgres), tmp_path / "epochal.toml"
    with open_shared_hub(address, str(tmp_path / "bucket")) as hub:
        assert main(["hub", "retention", "--hub", address]) == 0
        assert "nothing is deleted by itself" in capsys.readouterr().out
        file.write_text('[retention]\ntrash_after = "soon"\n')
        assert main(["hub", "retention", "--hub", address, "--set", str(file)]) == 2
        assert "not a time such as" in capsys.readouterr().err
        file.write_text(RULES)
        assert main(["hub", "retention", "--hub", address, "--set", str(file)]) == 0
        assert hub.retention.rules == read_rules(tmp_path)
        assert hub.ledger.audit()[0]["what"] == "retention rules"
    assert main(["hub", "retention", "--hub", str(tmp_path)]) == 0
    assert "They would move or erase now: nothing." in capsys.readouterr().out
    assert main(["hub", "retention", "--hub", str(tmp_path), "--set", str(file)]) == 2


# -- what was deleted -----------------------------------------------------------------------------


@pytest.mark.slow
def test_what_was_deleted_comes_back_only_if_it_is_wanted(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs")
    client = hub.client()
    ship_now(folder, client)
    run_id, there = epochal.load(folder.path).info.id, hub.root / "p" / "a"
    body = b'{"runs": ["%s"]}' % run_id.encode()
    change = {"content-type": "application/json"}
    client.request("POST", "/api/trash", body=body, headers=change)
    assert not there.exists()
    with pytest.raises(HubError, match="was deleted on this hub") as refused:
        ship_now(folder, client, unless_removed=True)
    assert refused.value.status == 410
    # Restored: it is the run that it was, and no second one.
    store = folder_store(hub.root)
    store.trash.restore(store.trash.find(run_id))
    ship_now(folder, client, unless_removed=True)
    assert [path.name for path in (hub.root / "p").iterdir() if path.name[0] != "."] == ["a"]
    # A person sends it again after it was deleted again.
    client.request("POST", "/api/trash", body=body, headers=change)
    ship_now(folder, client)
    assert journal(RunFolder(there)) == journal(folder)
    ship_now(folder, client, unless_removed=True)


@pytest.mark.slow
def test_a_run_that_goes_on_after_it_was_deleted_comes_back_whole(
    hub: HubProcess, tmp_path: Path
) -> None:
    """A laptop slept while the hub's rules took its run for an old one."""
    run = epochal.init("p", "a", dir=tmp_path / "runs", companion=False, console=False)
    run.log({"loss": 0.0}, step=0)
    folder, there = RunFolder(run.dir), hub.root / "p" / "a"
    worker = ShippingWorker(folder, hub.client())
    worker.start()
    wait_until(lambda: worker.is_complete)
    # As the hub deletes; on this machine, the process of the run says that it is alive.
    trash = hub.root / "p" / ".trash" / "20260101T000000Z"
    trash.mkdir(parents=True)
    there.rename(trash / "a")
    ledger = Ledger(hub.root)
    ledger.note_removed(run.id, "p")
    ledger.close()
    assert not there.exists()
    run.log({"loss": 1.0}, step=1)
    run.finish()
    worker.finish()
    assert worker.join(120)
    assert worker.is_complete
    assert journal(RunFolder(there)) == journal(folder)


@pytest.mark.slow
def test_push_that_watches_brings_no_deleted_run_back(hub: HubProcess, tmp_path: Path) -> None:
    record(tmp_path / "runs")
    command = [
        *(sys.executable, "-m", "epochal", "hub", "push", "--to", hub.url, "--watch"),
        *("--dir", str(tmp_path / "runs"), "a"),
    ]
    environ = {**os.environ, "EPOCHAL_HUB_TOKEN": hub.token, "PYTHONUNBUFFERED": "1"}
    printed = tmp_path / "printed"
    with printed.open("w") as stderr:
        pushing = subprocess.Popen(command, env=environ, stderr=stderr)
    try:
        there = hub.root / "p" / "a"
        wait_until(there.is_dir)
        wait_until(lambda: len(epochal.open(hub.root).runs()) == 1)
        time.sleep(1.0)
        run_id = epochal.load(there).info.id
        body = b'{"runs": ["%s"]}' % run_id.encode()
        change = {"content-type": "application/json"}
        hub.client().request("POST", "/api/trash", body=body, headers=change)
        wait_until(lambda: "was deleted on this hub" in printed.read_text())
        time.sleep(3.0)  # it looks again
        assert not there.exists()
    finally:
        pushing.send_signal(signal.SIGINT)
        pushing.wait(120)
    assert printed.read_text().count("was deleted on this hub") == 1


def test_a_writer_gets_its_quota_back_for_what_was_erased(tmp_path: Path) -> None:
    kept = tmp_path / "p" / ".trash" / "1" / "one"
    kept.mkdir(parents=True)
    write_json(kept / "run.json", {"id": "one", "padding": "x" * 90})
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        budget = Budget(tmp_path, ledger, Limits(most_per_writer=120.0), reserve=0)
        for run_id in ("one", "two"):
            ledger.claim(run_id, "p", "machine")
        with pytest.raises(FullError, match="of its quota of 120 B"):
            budget.charge("two", 20)
        shutil.rmtree(kept)
        budget.measure_again()
        budget.charge("two", 20)
