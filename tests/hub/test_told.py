"""What people are told: by a hub's commands, its page for people without a token, a training."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.hub.documents import FolderDocuments
from epochal.hub.ledger import Ledger, Links
from epochal.hub.limits import Budget, FullError, Limits
from epochal.journal.layout import write_json
from epochal.shipping.client import HubClient
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import record

_PEOPLE = {"accept": "text/html,*/*", "sec-fetch-mode": "navigate", "sec-fetch-site": "none"}


def test_a_new_token_is_all_that_a_script_gets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "token", "add", "cluster", "--hub", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert len(said.out.split()) == 1
    assert "shown only now" in said.err


def test_the_name_of_a_revoked_token_is_used_again(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        old = ledger.add_token("cluster", "write")
        with pytest.raises(UsageError, match="revoke it first"):
            ledger.add_token("cluster", "write")
        ledger.revoke_token("cluster")
        new = ledger.add_token("cluster", "read", ["p"])
        assert ledger.principal(old) is None
        found = ledger.principal(new)
        assert found is not None
        assert (found.name, found.role, found.projects) == ("cluster", "read", frozenset({"p"}))


def test_tokens_and_links_are_in_the_audit_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub = ("--hub", str(tmp_path))
    record(tmp_path, "a", steps=2)
    assert main(["hub", "audit", *hub]) == 0
    assert "Nobody has changed anything" in capsys.readouterr().out
    assert main(["hub", "token", "add", "cluster", "--role", "read", "--project", "p", *hub]) == 0
    assert main(["hub", "token", "revoke", "cluster", *hub]) == 0
    assert main(["hub", "share", "a", *hub]) == 0
    assert main(["hub", "share", "--revoke-all", *hub]) == 0
    capsys.readouterr()
    assert main(["hub", "audit", *hub]) == 0
    log = capsys.readouterr().out
    assert "cluster: read, p" in log
    for what in ("token add", "token revoke", "share", "share --revoke-all"):
        assert what in log
    assert "…" not in log  # nothing is cut off in a pipe


def test_labels_that_a_machine_sends_are_in_the_audit_log(hub: HubProcess, tmp_path: Path) -> None:
    folder = record(tmp_path / "runs", "a", steps=2)
    ship_now(folder, hub.client())
    write_json(folder.labels, {"notes": "seen", "tags": ["best"]})
    for _ in range(2):  # the second time nothing changes
        ship_now(folder, hub.client())
    with contextlib.closing(Ledger(hub.root)) as ledger:
        noted = [(row["who"], row["details"]) for row in ledger.audit() if row["what"] == "labels"]
    assert noted == [("machine", "notes, tags")]


def test_an_address_in_place_of_the_folder_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", "audit", "--hub", "https://hub.example.org"]) == 2
    assert (
        "such as postgresql://db/epochal, not 'https://hub.example.org'" in capsys.readouterr().err
    )


@pytest.mark.parametrize("token", ["ep_…", "ep_a b", "Token:\nep_secret", "ep_\x7f"])
def test_what_is_no_token_is_a_sentence_that_does_not_show_it(token: str) -> None:
    with pytest.raises(UsageError, match="set EPOCHAL_HUB_TOKEN") as error:
        HubClient("https://hub.example.org", token)
    assert "ep_" not in str(error.value)


def test_spaces_around_a_token_do_not_count(hub: HubProcess) -> None:
    assert hub.client(f" {hub.token}\r\n").get_json("/api/runs")["rows"] == []


def test_what_does_not_fit_says_how_much_it_is(tmp_path: Path) -> None:
    with contextlib.closing(Ledger(tmp_path)) as ledger:
        ledger.claim("a", "p", "cluster")
        quota = Budget(tmp_path, ledger, Limits(most_per_writer=1000))
        with pytest.raises(FullError, match=r"1\.\d KiB more do not fit: 'cluster' has stored 0 B"):
            quota.charge("a", 1500)
        whole = Budget(tmp_path, ledger, Limits(most=100))
        with pytest.raises(FullError, match=r"more do not fit: the hub stores .* at most 100 B"):
            whole.charge("a", 1500)


def test_a_folder_has_one_hub(hub: HubProcess, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["hub", "serve", str(hub.root), "--port", "0"]) == 2
    assert f"another hub is running over {hub.root}" in capsys.readouterr().err
    hub.kill()
    hub.start()


@pytest.mark.slow
def test_a_training_says_where_it_is_sent_and_why_it_is_not(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    script = f"""
import sys, time, epochal
hub = "http://127.0.0.1:{port}/?token=share_x"
run = epochal.init("p", "a", dir={str(tmp_path)!r}, hub=hub, companion=True)
for step in range(2_000):
    run.log({{"loss": 1.0}}, step=step)
    time.sleep(0.05)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = ""
        try:
            for line in process.stderr:
                said += line
                if "is not sent to its hub" in line:
                    break
        finally:
            process.terminate()
            said += process.stderr.read()
    assert f"the run is sent to the hub http://127.0.0.1:{port}" in said
    assert "Connection refused" in said
    assert f"'epochal hub push {tmp_path / 'p' / 'a'}' sends later" in said
    assert "share_x" not in said


def test_a_person_without_a_token_gets_a_page_that_asks_for_it(hub: HubProcess) -> None:
    status, kind, body = opened(hub.url, _PEOPLE)
    assert (status, kind) == (401, "text/html; charset=utf-8")
    assert "This hub needs a token" in body
    assert 'name="token"' in body
    assert "epochal serve" not in body
    status, kind, body = opened(f"{hub.url}/?token=ep_wrong", _PEOPLE)
    assert "This token is not known here, or was revoked." in body
    status, kind, body = opened(f"{hub.url}/api/runs", {"authorization": "Bearer ep_wrong"})
    assert (status, kind) == (401, "application/json")
    assert "was revoked" in body


def test_a_link_that_ended_says_when(hub: HubProcess, tmp_path: Path) -> None:
    links = Links(FolderDocuments(hub.root), clock=lambda: 1.7e9)
    ended = links.make(["a"], until=1.7e9 + 60)
    status, _, body = opened(f"{hub.url}/?token={ended}", _PEOPLE)
    day = time.strftime("%Y-%m-%d", time.localtime(1.7e9 + 60))
    assert status == 401
    assert f"This link ended on {day}" in body
    with pytest.raises(epochal.EpochalError, match=f"this link ended on {day}"):
        hub.client(ended).get_json("/api/runs")
    _, _, body = opened(f"{hub.url}/?token={ended[:-3]}xyz", _PEOPLE)
    assert "is not whole, or was revoked" in body


def opened(url: str, headers: dict[str, str]) -> tuple[int, str, str]:
    """Status, kind and text of an answer."""
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.headers["content-type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers["content-type"], error.read().decode()
