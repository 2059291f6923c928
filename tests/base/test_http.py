"""The HTTP client: one kept connection, limits, proxies and certificates."""

from __future__ import annotations

import base64
import contextlib
import http.client
import shutil
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from epochal.base.http import HttpClient, HttpError, Response


class Server(ThreadingHTTPServer):
    """A server whose answer depends on the path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Connection)
        self.num_connections = 0
        self.asked: list[tuple[str, str, bytes]] = []
        self.is_over = threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that went away is no news."""


class Connection(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.server.num_connections += 1

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        self.server.asked.append((self.command, self.path, body))
        if self.path == "/hang":
            self.server.is_over.wait()
        elif self.path == "/end":
            self.close_connection = True
        elif self.path == "/half":
            self.answer(200, b"half", length=8)
            self.close_connection = True
        elif self.path == "/moved":
            self.answer(302, b"", location="/elsewhere")
        elif self.path == "/chunks":
            self.answer(200, b"3e8\r\n" + b"x" * 1000 + b"\r\n0\r\n\r\n", chunked=True)
        else:
            self.answer(200, body or b"x" * 1000)
            self.close_connection |= self.path == "/last"  # and the client is not told

    def do_POST(self) -> None:
        self.do_GET()

    def answer(
        self,
        status: int,
        body: bytes,
        *,
        length: int | None = None,
        location: str = "",
        chunked: bool = False,
    ) -> None:
        self.send_response(status)
        if chunked:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(len(body) if length is None else length))
        self.send_header("location", location)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running
        running.is_over.set()
        running.shutdown()


@pytest.fixture
def client(server: Server) -> Iterator[HttpClient]:
    with contextlib.closing(HttpClient(f"{server.url}/", most_bytes=1000)) as connected:
        yield connected


def test_requests_share_a_connection(server: Server, client: HttpClient) -> None:
    for path in ("/", "/chunks", "/"):
        assert client.send("GET", path).body == b"x" * 1000
    assert server.num_connections == 1


def test_a_request_is_sent_again_when_the_kept_connection_was_closed(
    server: Server, client: HttpClient
) -> None:
    client.send("GET", "/last")
    assert client.send("POST", "/", body=b"again").body == b"again"
    assert server.num_connections == 2


def test_a_new_connection_is_not_tried_twice(server: Server, client: HttpClient) -> None:
    with pytest.raises(HttpError, match=f"^{server.url}/: Remote end closed connection"):
        client.send("POST", "/end")
    assert server.asked == [("POST", "/end", b"")]


def test_an_answer_that_ends_early_is_an_error(client: HttpClient) -> None:
    with pytest.raises(HttpError, match="IncompleteRead"):
        client.send("GET", "/half")


@pytest.mark.parametrize("path", ["/", "/chunks"])
def test_an_answer_that_is_too_large_is_asked_for_once(server: Server, path: str) -> None:
    with contextlib.closing(HttpClient(server.url, most_bytes=999)) as client:
        with pytest.raises(HttpError, match="sends more than 999 bytes"):
            client.send("GET", path)
        assert client.send("POST", "/", body=b"next").body == b"next"
    assert len(server.asked) == 2


def test_a_server_that_does_not_answer_is_left(server: Server) -> None:
    with (
        contextlib.closing(HttpClient(server.url, timeout_s=0.2)) as client,
        pytest.raises(HttpError, match="timed out"),
    ):
        client.send("GET", "/hang")


def test_no_redirect_is_followed(server: Server, client: HttpClient) -> None:
    response = client.send("GET", "/moved")
    assert (response.status, response.headers["location"]) == (302, "/elsewhere")
    assert [path for _, path, _ in server.asked] == ["/moved"]


@pytest.mark.parametrize("url", ["http://127.0.0.1:port", "http://127.0.0.1/ä", "http://a b"])
def test_an_address_that_cannot_be_asked_is_an_error(url: str) -> None:
    with pytest.raises(HttpError, match="http://"):
        HttpClient(url).send("GET", "/ä")


@pytest.mark.parametrize(
    ("body", "text"),
    [(b'{"error": "no."}', "no."), (b"[" * 100_000, ""), (b"[]", ""), (b"{}", ""), (b"\xff", "")],
)
def test_an_error_says_why_or_nothing(body: bytes, text: str) -> None:
    assert Response(400, "", http.client.HTTPMessage(), body).text("error") == text


def certificate(tmp_path: Path) -> tuple[str, str]:
    """The files of a certificate for 127.0.0.1 and of its key."""
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl to make a certificate")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(cert)),
        ],
        check=True,
        capture_output=True,
    )
    return str(cert), str(key)


def with_tls(server: Server, files: tuple[str, str]) -> str:
    """The address of a server that has a certificate from now on."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*files)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    return server.url.replace("http:", "https:")


def test_a_certificate_must_be_trusted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificate(tmp_path)
    url = with_tls(server, files)
    with contextlib.closing(HttpClient(url)) as client:
        with pytest.raises(HttpError, match=r"certificate is not trusted .* set SSL_CERT_FILE"):
            client.send("GET", "/")
        monkeypatch.setenv("SSL_CERT_FILE", files[0])
        assert client.send("GET", "/").status == 200
    monkeypatch.delenv("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=files[0])
    with contextlib.closing(HttpClient(url, context=context)) as client:
        assert client.send("GET", "/").status == 200
    assert len(server.asked) == 2


class Proxy(socketserver.ThreadingTCPServer):
    """A proxy as companies have it: with a password, tunnels for TLS and whole addresses."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), ProxyConnection)
        self.asked: list[tuple[str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://me:se%20cret@127.0.0.1:{self.server_address[1]}"


class ProxyConnection(socketserver.StreamRequestHandler):
    server: Proxy

    def handle(self) -> None:
        method, target, _ = self.rfile.readline().decode().split()
        headers = http.client.parse_headers(self.rfile)
        self.server.asked.append((method, target))
        if headers["proxy-authorization"] != "Basic " + base64.b64encode(b"me:se cret").decode():
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            return
        place = target if method == "CONNECT" else urlsplit(target).netloc
        host, _, port = place.rpartition(":")
        with socket.create_connection((host, int(port))) as there:
            if method == "CONNECT":
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                path = target.partition(place)[2]
                del headers["proxy-authorization"]
                headers["connection"] = "close"
                lines = [f"{method} {path} HTTP/1.1", *map(": ".join, headers.items()), "", ""]
                there.sendall("\r\n".join(lines).encode())
            back = threading.Thread(target=self._copy, args=(there, self.connection), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while data := self.rfile.read1(65536):
                    there.sendall(data)
            with contextlib.suppress(OSError):
                there.shutdown(socket.SHUT_WR)
            back.join()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_request_goes_through_the_proxy_of_the_network(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    url = server.url
    if scheme == "https":
        files = certificate(tmp_path)
        monkeypatch.setenv("SSL_CERT_FILE", files[0])
        url = with_tls(server, files)
    with Proxy() as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        with contextlib.closing(HttpClient(url)) as client:
            assert client.send("POST", "/a", body=b"sent").body == b"sent"
            assert client.send("GET", "/b").status == 200
        if scheme == "https":
            assert proxy.asked == [("CONNECT", f"127.0.0.1:{server.server_port}")]
        else:
            assert proxy.asked == [("POST", f"{url}/a"), ("GET", f"{url}/b")]
        proxy.asked.clear()
        for bypass in ("127.0.0.1", f"127.0.0.1:{server.server_port}"):
            monkeypatch.setenv("no_proxy", bypass)
            with contextlib.closing(HttpClient(url)) as client:
                assert client.send("GET", "/").status == 200
        monkeypatch.setenv("no_proxy", "")
        with contextlib.closing(HttpClient(url, is_direct=True)) as client:
            assert client.send("GET", "/").status == 200
        assert not proxy.asked
        proxy.shutdown()


def test_a_proxy_that_is_away_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("https_proxy", f"http://me:secret@127.0.0.1:{port}")
    monkeypatch.setenv("no_proxy", "")
    sentence = f"hub.example.org through the proxy 127.0.0.1:{port}: "
    with pytest.raises(HttpError, match=sentence) as error:
        HttpClient("https://hub.example.org").send("GET", "/")
    assert "secret" not in str(error.value)
