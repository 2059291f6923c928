"""The front of a hub: TLS, people whom a proxy signed in, limits, and the audit log."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.types import Message

import epochal
from epochal.cli.main import main
from epochal.hub.audit import AuditMiddleware
from epochal.hub.ledger import Ledger
from epochal.hub.limits import TokenBuckets
from epochal.journal.layout import RunFolder
from epochal.server.responses import error_response
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ship_now
from tests.base.test_http import certificate
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import record


def test_a_hub_serves_over_tls_to_who_trusts_its_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cert, key = certificate(tmp_path)
    hub = HubProcess(tmp_path / "hub", "--tls-cert", cert, "--tls-key", key)
    try:
        with pytest.raises(HubError, match=r"certificate is not trusted .* set SSL_CERT_FILE"):
            hub.client().get_json("/api/runs")
        monkeypatch.setenv("SSL_CERT_FILE", cert)
        ship_now(record(tmp_path / "runs"), hub.client())
        assert hub.client().get_json("/api/runs")["total"] == 1
    finally:
        hub.stop()


def test_a_proxy_names_people_from_its_address_only(tmp_path: Path) -> None:
    said = {"x-user": "alice"}
    hub = HubProcess(tmp_path / "a", "--user-header", "X-User", "--trust", "127.0.0.0/8")
    other = HubProcess(tmp_path / "b", "--user-header", "X-User", "--trust", "10.1.2.3")
    try:
        client = hub.client("")
        assert b'"rows"' in client.request("GET", "/api/runs", headers=said)
        with pytest.raises(HubError) as error:
            client.request("PUT", "/api/hub/runs/x", body=b"{}", headers=said)
        assert error.value.status == 403  # people of the proxy may read
        with pytest.raises(HubError) as error:
            other.client("").request("GET", "/api/runs", headers=said)
        assert error.value.status == 401
        # Neither by a claim of the address, nor by a header that the option does not name.
        for claim in ({**said, "x-forwarded-for": "10.1.2.3"}, {"x-forwarded-user": "alice"}):
            with pytest.raises(HubError) as error:
                other.client("").request("GET", "/api/runs", headers=claim)
            assert error.value.status == 401
        with pytest.raises(HubError) as error:
            client.request("GET", "/api/runs", headers={"x-forwarded-user": "alice"})
        assert error.value.status == 401
    finally:
        hub.stop()
        other.stop()


def test_guessing_tokens_is_slowed_down(hub: HubProcess) -> None:
    statuses = []
    for guess in range(25):
        with pytest.raises(HubError) as error:
            hub.client(f"ep_{guess}").request("GET", "/api/runs")
        statuses.append(error.value.status)
    assert statuses[:15] == [401] * 15
    assert statuses[-1] == 429
    assert error.value.retry_after_s >= 1


def test_a_valid_token_is_answered_whatever_others_send_from_its_address(
    hub: HubProcess, tmp_path: Path
) -> None:
    stranger, statuses = hub.client(""), set()
    for _ in range(60):  # more than a person's page may ask at once
        with pytest.raises(HubError) as error:
            stranger.request("GET", "/api/runs")
        statuses.add(error.value.status)
    assert statuses == {401, 429}
    ship_now(record(tmp_path / "runs"), hub.client())
    assert hub.client().get_json("/api/runs")["total"] == 1
    cookie = {"cookie": f"epochal-{hub.port}={hub.token}"}
    assert b'"rows"' in hub.client("").request("GET", "/api/runs", headers=cookie)


def test_guesses_behind_a_proxy_count_for_the_guesser(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path / "hub", "--trust", "127.0.0.0/8")
    other = HubProcess(tmp_path / "other")
    try:
        for guess in range(25):
            # What a client claims stands left of what the proxy adds.
            said = {"x-forwarded-for": f"10.0.0.{guess}, 203.0.113.9"}
            for one in (hub, other):
                with pytest.raises(HubError) as error:
                    one.client(f"ep_{guess}").request("GET", "/api/runs", headers=said)
        assert error.value.status == 429  # without a trusted proxy, the header is a claim
        for address, status in (("203.0.113.10", 401), ("203.0.113.9", 429)):
            with pytest.raises(HubError) as error:
                hub.client("ep_x").request("GET", "/", headers={"x-forwarded-for": address})
            assert error.value.status == status
    finally:
        hub.stop()
        other.stop()


def test_changes_are_in_the_audit_log(
    hub: HubProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    client = hub.client()
    ship_now(record(tmp_path / "runs"), client)
    run = client.get_json("/api/runs")["rows"][0]["id"]
    sent = {"content-type": "application/json"}
    client.request("PATCH", f"/api/runs/{run}/labels", body=b'{"notes":"seen"}', headers=sent)
    ledger = Ledger(hub.root)
    noted = [(row["who"], row["what"], row["run"]) for row in ledger.audit()]
    ledger.close()
    assert ("machine", f"PATCH /api/runs/{run}/labels", run) in noted
    assert ("machine", "register", run) in noted
    assert main(["hub", "audit", "--hub", str(hub.root)]) == 0
    assert "PATCH" in capsys.readouterr().out


def test_refused_requests_are_in_the_audit_log_without_their_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.closing(Ledger(tmp_path / "hub")) as ledger:
        reader = ledger.add_token("reader", "read")
    hub = HubProcess(tmp_path / "hub", "--trust", "127.0.0.0/8")
    try:
        guesser, other = {"x-forwarded-for": "203.0.113.9"}, {"x-forwarded-for": "203.0.113.10"}
        for guess in range(30):
            for path in ("/api/runs", f"/?token=ep_guess{guess}"):
                with pytest.raises(HubError):
                    hub.client(f"ep_guess{guess}").request("GET", path, headers=guesser)
        for path in ("/api/hub/runs/x", "/api/trash", quote("/\x1b[2J" + "x" * 1000)):
            with pytest.raises(HubError) as error:
                hub.client(reader).request("PUT", path, headers=other)
            assert error.value.status == 403
    finally:
        hub.stop()
    with contextlib.closing(Ledger(hub.root)) as ledger:
        rows = ledger.audit()
    assert "guess" not in "".join(map(str, rows))
    assert all(len(row["what"]) < 220 and row["what"].isprintable() for row in rows)
    unknown = [row for row in rows if row["details"] == "answered 401 to 203.0.113.9"]
    assert [(row["who"], row["what"]) for row in unknown[-2:]] == [
        ("unknown", "GET /"),
        ("unknown", "GET /api/runs"),
    ]
    assert len(unknown) == 10  # of 60
    named = [row for row in rows if row["who"] == "reader"]
    assert [row["what"][:12] for row in named] == ["PUT /%1B%5B2", "PUT /api/tra", "PUT /api/hub"]
    assert "203.0.113.10, after 50 refused requests that are not listed" in named[-1]["details"]
    assert main(["hub", "audit", "--hub", str(hub.root)]) == 0
    assert "answered 403 to 203.0.113.10" in capsys.readouterr().out


def test_refused_requests_from_many_addresses_do_not_fill_the_audit_log(tmp_path: Path) -> None:
    async def ask_all() -> None:
        for number in range(300):
            scope = {"type": "http", "method": "GET", "path": "/", "client": (f"a{number}", 1)}
            await audited(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        pass

    with contextlib.closing(Ledger(tmp_path)) as ledger:
        audited = AuditMiddleware(error_response(401, "no."), ledger)
        asyncio.run(ask_all())
        assert 100 <= len(ledger.audit()) < 200


def test_a_link_shows_a_group_in_a_view(
    hub: HubProcess, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, group in (("a", "sweep"), ("b", "sweep"), ("c", "other")):
        run = epochal.init("p", name, group=group, dir=tmp_path, companion=False, console=False)
        run.finish()
        ship_now(RunFolder(run.dir), hub.client())
    view = "https://hub.example.org/#q=loss+%3C+1"
    root = ("--hub", str(hub.root))
    assert main(["hub", "share", "--where", 'group == "sweep"', *root, "--url", view]) == 0
    link = capsys.readouterr().out.split()[-1]
    assert link.startswith("https://hub.example.org/?token=share_")
    token, _, shown = link.partition("=")[2].partition("#")
    assert shown == "q=loss+%3C+1"
    rows = hub.client(token).get_json("/api/runs")["rows"]
    assert sorted(row["name"] for row in rows) == ["a", "b"]
    assert main(["hub", "share", "--where", 'group == "none"', *root]) == 2
    assert "no run matches" in capsys.readouterr().err


def test_a_bucket_refills() -> None:
    now = 0.0
    buckets = TokenBuckets(2.0, 3, clock=lambda: now)
    for _ in range(3):
        assert buckets.wait_s("a") == 0
        buckets.spend("a")
    assert buckets.wait_s("a") == pytest.approx(0.5)
    assert buckets.wait_s("b") == 0
    now = 0.5
    assert buckets.wait_s("a") == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--tls-cert", __file__], "--tls-cert and --tls-key belong together"),
        (["--tls-cert", "x", "--tls-key", "y"], "'--tls-cert': File 'x' does not exist"),
        (["--tls-cert", __file__, "--tls-key", __file__], "they are no pair of PEM files"),
        (["--user-header", "X-User"], "--user-header needs --trust"),
        (["--user-header", "X-User", "--trust", "nonsense"], "--trust: 'nonsense'"),
    ],
)
def test_mistakes_are_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert main(["hub", "serve", str(tmp_path / "hub"), *options]) == 2
    assert sentence in capsys.readouterr().err


def test_an_address_with_a_password_is_refused() -> None:
    with pytest.raises(ValueError, match="EPOCHAL_HUB_TOKEN"):
        HubClient("https://user:password@host")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "name the folder DIR of the hub, or --catalog with --bucket"),
        (["hub", "--catalog", "postgresql://db/x"], "name the folder DIR of the hub, or"),
        (["--bucket", "s3://b"], "name the folder DIR of the hub, or"),
        (["--catalog", "mysql://db/x", "--bucket", "b"], "such as postgresql://db/epochal"),
    ],
)
def test_a_hub_keeps_its_runs_in_a_folder_or_in_a_catalog_with_a_bucket(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hub", "serve", *options]) == 2
    assert said in capsys.readouterr().err
