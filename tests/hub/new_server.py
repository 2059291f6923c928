"""A ClickHouse server of today, as far as HTTP goes: the engine of chdb behind a small front.

No package has a newer server than 18.16. This one has a real engine and Distributed tables, whose
two shards are this process: each row is read twice. It takes what a server takes, a statement and
settings in the address, and refuses what the engine refuses. What it does not have: a second
server, replicas, asynchronous inserts.

    python -m tests.hub.new_server FOLDER      prints its port
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

CLUSTER = "two"
_SHARD = "<shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard>"
_CONFIG = f"""<clickhouse><tcp_port>9000</tcp_port>
<remote_servers><{CLUSTER}>{_SHARD}{_SHARD}</{CLUSTER}></remote_servers></clickhouse>
"""
# What is no setting in the address of a request.
_PARAMETERS = ("query", "wait_end_of_query")
_ACCOUNTS = {"default:", "guarded:right"}
_PLAIN = re.compile(r"(INSERT INTO \S+ \([^()]*\)) FORMAT RowBinary")
_INPUT = re.compile(r"input\('(.*?)'\)(.*) FORMAT RowBinary", re.DOTALL)


class Front(http.server.BaseHTTPRequestHandler):
    """Answers one connection; statements are executed one after the other."""

    protocol_version = "HTTP/1.1"
    session: Any = None
    lock = threading.Lock()

    def do_POST(self) -> None:
        """Execute a statement, with its rows in the body or itself."""
        body = self.rfile.read(int(self.headers["content-length"]))
        params = dict(parse_qsl(urlsplit(self.path).query))
        account = base64.b64decode(self.headers["authorization"].partition(" ")[2]).decode()
        if account not in _ACCOUNTS:
            self._answer(403, b"Code: 516. DB::Exception: Authentication failed.")
            return
        settings = {name: text for name, text in params.items() if name not in _PARAMETERS}
        try:
            with self.lock:
                self._answer(200, self._executed(params.get("query"), body, settings))
        except RuntimeError as error:
            self._answer(500, str(error).encode())

    def _executed(self, query: str | None, body: bytes, settings: dict[str, str]) -> bytes:
        for name, text in settings.items():
            self._ask(f"SET {name} = '{text}'")
        with contextlib.ExitStack() as stack:
            for name in settings:
                stack.callback(self._ask, f"SET {name} = DEFAULT")
            if query is None:
                return self._ask(body.decode())
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(body)
            file.flush()
            # The engine has no request that rows come with: it reads them from a file.
            plain, through = _PLAIN.fullmatch(query), _INPUT.search(query)
            if plain is not None:
                return self._ask(f"{plain[1]} FROM INFILE '{file.name}' FORMAT RowBinary")
            assert through is not None, query
            rows = f"file('{file.name}', 'RowBinary', '{through[1]}')"
            return self._ask(query[: through.start()] + rows + through[2])

    def _ask(self, statement: str) -> bytes:
        answer: bytes = self.session.query(statement, "TabSeparated").bytes()
        return answer or b""

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Nothing."""


class NewServer:
    """The front in a process of its own, over a new folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hub.new_server", str(folder)], stdout=subprocess.PIPE
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())

    def address(self, database: str) -> str:
        """The address of a store."""
        return f"clickhouse://default@127.0.0.1:{self.port}/{database}?cluster={CLUSTER}"

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Answer requests until the process is ended."""
    from chdb import session

    folder = Path(sys.argv[1])
    config = folder / "config.xml"
    config.write_text(_CONFIG)
    sessions: Any = session
    Front.session = sessions.Session(f"{folder / 'data'}?config-file={config}")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Front) as server:
        print(server.server_port, flush=True)  # noqa: T201
        server.serve_forever()


if __name__ == "__main__":
    main()
