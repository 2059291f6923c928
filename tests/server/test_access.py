"""Attacks: each of these must fail, and the plain use beside it must not."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.datastructures import Headers
from starlette.types import Message

from epochal.server import responses, series, stream
from epochal.server.access import (
    Access,
    AccessMiddleware,
    content_security_policy,
    host_name,
    is_same_origin,
)
from epochal.server.address import listen
from epochal.server.changes import MAX_BODY_BYTES
from epochal.server.page import Page, load_page
from tests.server.live import Server, serving, until
from tests.store.journals import Journal

TOKEN = "a-token-of-some-length"


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Server]:
    Journal(tmp_path).metrics(1, loss=1.0)
    with serving(tmp_path, token=TOKEN) as running:
        yield running


def test_a_foreign_host_name_is_refused(server: Server) -> None:
    for host in ("evil.example", f"evil.example:{server.port}", "localhost.evil.example", ""):
        assert server.ask("/api/runs", headers={"Host": host}).status == 421


def test_own_names_are_accepted_with_any_port(server: Server) -> None:
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:6060", "[::1]:6060", "localhost."):
        assert server.ask("/api/runs", headers={"Host": host}).status == 200


def test_a_name_that_was_allowed_is_accepted(tmp_path: Path) -> None:
    with serving(tmp_path, hosts=frozenset({"lab.example"})) as server:
        assert server.ask("/", headers={"Host": "lab.example"}).status == 200
        assert server.ask("/", headers={"Host": "localhost"}).status == 421


def test_tricks_in_a_host_header_give_no_name() -> None:
    for host in ("localhost@evil", "evil/localhost", "localhost evil", "[", "[::1", "a\\b", "#"):
        assert host_name(host) not in ("localhost", "127.0.0.1", "::1")


def test_without_the_token_nothing_is_told(guarded: Server) -> None:
    for path in ("/", "/api/runs", "/api/events", "/metrics", "/api/runs/id-x", "/graph.svg"):
        answer = guarded.ask(path)
        assert answer.status == 401
        assert b"id-x" not in answer.body
        assert TOKEN.encode() not in answer.body


def test_health_needs_no_token_and_tells_nothing(guarded: Server) -> None:
    answer = guarded.ask("/healthz")
    assert answer.status == 200
    assert TOKEN.encode() not in answer.body


def test_the_token_becomes_a_cookie_and_leaves_the_address(guarded: Server) -> None:
    answer = guarded.ask("/", token=TOKEN, view="a b")
    assert (answer.status, answer.headers["location"]) == (303, "./?view=a+b")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"epochal-{guarded.port}={TOKEN};")
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert "secure" not in cookie.lower()  # it is spoken to without TLS
    assert guarded.ask("/", headers={"Cookie": cookie.partition(";")[0]}).status == 200


@pytest.mark.parametrize(("scheme", "is_secure"), [("http", False), ("https", True)])
def test_the_cookie_of_a_server_with_tls_is_never_sent_without(
    scheme: str, is_secure: bool
) -> None:
    async def ask() -> bytes:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.disconnect"}

        middleware = AccessMiddleware(receive, access=Access(token=TOKEN), page=load_page())  # type: ignore[arg-type]
        scope = {
            "type": "http",
            "method": "GET",
            "scheme": scheme,
            "path": "/",
            "query_string": f"token={TOKEN}".encode(),
            "headers": [(b"host", b"127.0.0.1:8000")],
        }
        await middleware(scope, receive, send)
        return bytes(dict(sent[0]["headers"])[b"set-cookie"])

    assert (b"secure" in asyncio.run(ask()).lower()) is is_secure


def test_the_redirect_stays_here(guarded: Server) -> None:
    for path in ("//evil.example/", "/\\evil.example", "/api//evil.example"):
        location = guarded.ask(path, token=TOKEN).headers.get("location", "./")
        assert location.startswith("./")


def test_programs_send_the_token_as_bearer(guarded: Server) -> None:
    assert guarded.ask("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status == 200


def test_wrong_tokens_are_refused(guarded: Server) -> None:
    assert guarded.ask("/", token="wrong").status == 401
    assert guarded.ask("/", token="").status == 401
    assert guarded.ask("/", headers={"Authorization": "Bearer wrong"}).status == 401
    assert guarded.ask("/", headers={"Cookie": f"epochal-{guarded.port}=wrong"}).status == 401
    assert guarded.ask("/", headers={"Cookie": f"epochal-1={TOKEN}"}).status == 401
    assert guarded.ask("/", headers={"Cookie": '"; ='}).status == 401
    # No header has a control character: such a request is refused before it is read.
    assert guarded.ask("/", headers={"Cookie": '"; =\x01'}).status == 400


def test_a_link_elsewhere_loads_once_more_from_here(guarded: Server) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    answer = guarded.ask("/", headers=headers)
    assert answer.status == 200
    assert b"refresh" in answer.body
    assert b"script" not in answer.body


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:1"},
        {"Sec-Fetch-Site": "same-origin", "Origin": "http://evil.example"},
    ],
)
def test_a_change_from_another_page_is_refused(
    tmp_path: Path, server: Server, headers: dict[str, str]
) -> None:
    journal = Journal(tmp_path).metrics(1, loss=1.0)
    answer = server.patch("/api/runs/id-x/labels", {"name": "hacked"}, **headers)
    assert answer.status == 403
    assert not journal.folder.labels.exists()


def test_a_change_from_the_page_itself_is_accepted(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    own = {"Sec-Fetch-Site": "same-origin", "Origin": f"http://127.0.0.1:{server.port}"}
    assert server.patch("/api/runs/id-x/labels", {"name": "mine"}, **own).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense"])
@pytest.mark.parametrize("mode", ["no-cors", "cors", "same-origin", None])
@pytest.mark.parametrize("path", ["/api/runs", "/events", "/api/events", "/metrics", "/graph.svg"])
def test_a_page_elsewhere_cannot_ask(
    server: Server, path: str, mode: str | None, site: str
) -> None:
    headers = {"Sec-Fetch-Site": site, **({"Sec-Fetch-Mode": mode} if mode else {})}
    answer = server.ask(path, headers=headers)
    assert (answer.status, b"another origin" in answer.body) == (403, True)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
    ],
)
@pytest.mark.parametrize("path", ["/", "/api/runs"])
def test_the_page_programs_and_links_may_ask(
    server: Server, path: str, headers: dict[str, str]
) -> None:
    assert server.ask(path, headers=headers).status == 200


def test_a_form_cannot_change_anything(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    headers = {"Content-Type": "text/plain"}
    path = "/api/runs/id-x/labels"
    assert server.ask(path, method="PATCH", body=b"{}", headers=headers).status == 415
    assert server.ask(path, method="POST", body=b"name=x").status == 405


def test_origins_are_compared_with_the_host_asked_for() -> None:
    assert is_same_origin(Headers({"host": "localhost:1", "origin": "http://localhost:1"}))
    assert not is_same_origin(Headers({"origin": "http://localhost:1"}))
    assert not is_same_origin(Headers({"host": "localhost:1", "origin": "http://["}))


def test_no_answer_is_shared_with_other_origins(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    origin = {"Origin": "http://evil.example"}
    for path in ("/", "/api/runs", "/nowhere", "/api/runs/id-x"):
        headers = server.ask(path, headers=origin).headers
        assert not [name for name in headers if name.startswith("access-control")]
    preflight = server.ask("/api/runs/id-x/labels", method="OPTIONS", headers=origin)
    assert preflight.status == 405


@pytest.mark.parametrize("path", ["/", "/api/runs", "/nowhere", "/healthz"])
def test_browsers_are_told_to_be_strict(server: Server, path: str) -> None:
    headers = server.ask(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "base-uri 'none'" in policy
    scripts = next(rule for rule in policy.split("; ") if rule.startswith("script-src"))
    assert "unsafe" not in scripts


def test_the_policy_names_the_page_s_own_scripts() -> None:
    page = Page(b"<script type=module>let a = 1\r\n</script><style>b{}</style>", is_built=True)
    policy = content_security_policy(page)
    # What a browser computes of the same page, whose line ends it has made newlines.
    digest = hashlib.sha256(b"let a = 1\n").digest()
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    assert len(page.style_hashes) == 1


def test_no_other_site_may_frame_the_page() -> None:
    policy = content_security_policy(Page(b"", is_built=True))
    assert policy.endswith("; frame-ancestors 'self'")


@pytest.mark.parametrize(
    "run_id",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fetc",
        "%2Fetc",
        "~root",
        "x%00y",
        "p%2Fx",
        "%5c..%5c",
        "x",
        "id-",
        "id-x%2F..%2F..%2Fsecret",
    ],
)
def test_ids_are_never_paths(tmp_path: Path, run_id: str) -> None:
    (tmp_path / "secret").mkdir()
    Journal(tmp_path / "secret").metrics(1, loss=7.0)
    Journal(tmp_path / "runs", "x").metrics(1, loss=1.0)
    with serving(tmp_path / "runs") as server:
        for rest in ("", "/config", "/records", "/labels", "/texts"):
            assert server.ask(f"/api/runs/{run_id}{rest}").status in (404, 405)


@pytest.mark.parametrize(
    "file", ["..%2frun.json", "%2Fetc%2Fpasswd", "..", "run.json", "%2e%2e%2frun.json", ""]
)
def test_blobs_are_only_what_records_name(tmp_path: Path, server: Server, file: str) -> None:
    journal = Journal(tmp_path)
    journal.add({"log": "blob", "step": 1, "name": "a", "file": "../run.json", "bytes": 1})
    assert server.ask(f"/api/runs/id-x/blob/{file}").status in (400, 404)


def test_a_large_body_is_refused(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    answer = server.patch("/api/runs/id-x/labels", {"notes": "x" * MAX_BODY_BYTES})
    assert answer.status == 413


def test_a_large_head_is_refused(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 300_000)
        client.settimeout(20)
        try:
            answer = client.recv(4096)
        except ConnectionError:
            answer = b""
    assert not answer.startswith(b"HTTP/1.1 200")
    assert server.ask("/healthz").status == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ("Host: localhost", 200),
        # A proxy could check the one and forward the other.
        ("Host: localhost\r\nHost: evil.example", 400),
        ("Host: localhost\r\nHost: localhost", 400),
        ("Host: localhost\r\n" + "\r\n".join(f"X-{n}: 1" for n in range(200)), 431),
        ("Host: localhost\r\nX: " + "x" * 40_000, 431),
    ],
)
def test_the_head_of_a_request_is_bounded(server: Server, lines: str, status: int) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as client:
        client.sendall(f"GET /healthz HTTP/1.1\r\n{lines}\r\n\r\n".encode())
        assert int(client.recv(4096).split()[1]) == status


def test_a_fault_of_ours_is_not_told(
    tmp_path: Path,
    server: Server,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from epochal.server import rows

    def fail(*args: object, **kwargs: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr(rows, "chosen_metrics", fail)
    Journal(tmp_path).metrics(1, loss=1.0)
    answer = server.ask("/api/runs/id-x")
    assert answer.status == 500
    assert b"secret" not in answer.body
    assert b"Traceback" not in answer.body
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "secret detail" in capfd.readouterr().err
    assert server.ask("/healthz").json["faults"] == 1


def test_an_answer_that_would_be_too_large_is_refused(
    tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(tmp_path)
    for step in range(50):
        journal.metrics(step, loss=1.0)
    monkeypatch.setattr(series, "MAX_POINTS", 40)
    answer = server.ask("/api/series", run="id-x", name="loss", pixels=0)
    assert (answer.status, b"40 points" in answer.body) == (400, True)
    monkeypatch.setattr(responses, "MAX_JSON_BYTES", 100)
    assert server.ask("/api/runs/id-x").status == 413


def test_streams_are_limited(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "MAX_STREAMS", 1)
    with server.listen() as events:
        until(events, "ready")
        answer = server.ask("/api/events")
    assert (answer.status, answer.headers["retry-after"]) == (503, "10")


@pytest.mark.parametrize("pattern", [".*.*.*.*.*.*.*.*Z", "(a+)+$", "(a|aa)+$", "(.*a){20}b"])
def test_no_pattern_holds_the_server_up(tmp_path: Path, server: Server, pattern: str) -> None:
    """An engine that goes back would take years over this name."""
    Journal(tmp_path, tags=["a" * 4000 + "!"]).metrics(1, loss=1.0)
    answer = server.ask("/api/runs", query=f'tags ~ "{pattern}" or name ~ "{pattern}"')
    assert (answer.status, answer.json["total"]) == (200, 0)
    assert server.ask("/healthz").status == 200


def test_what_no_pattern_can_be_is_a_sentence(server: Server) -> None:
    answer = server.ask("/api/runs", query='name ~ "a(?!b)"')
    assert answer.status == 400
    assert "!~" in answer.json["error"]


def test_an_answer_does_not_wait_for_its_head_to_be_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        connection, _ = listening.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
