"""Serves the live page, for a command and as a separate process beside a training.

``python -m epochal.api.serving FOLDER… --port N [--parent PID] [--linger S]`` is the separate
process. It writes one JSON line to stdout when it is ready, ``{"url": …}`` or ``{"error": …}``, and
ends some time after its parent process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from epochal.errors import EpochalError, UsageError
from epochal.run.pages import LINGER_S
from epochal.settings import Settings, read_settings

if TYPE_CHECKING:
    import socket

    from epochal.journal.boards import StoredBoard
    from epochal.store.run import RunView

_MIN_TOKEN = 8


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """The address of a server: one that listens here, or one already running (no ``listening``)."""

    url: str
    host: str
    port: int
    listening: socket.socket | None
    token: str | None = None
    moved_from: int | None = None
    names: frozenset[str] = field(default_factory=frozenset)


def find_address(
    folders: Sequence[str | Path],
    *,
    port: int | None = None,
    host: str = "127.0.0.1",
    token: str | None = None,
    allow_hosts: Sequence[str] = (),
    may_move: bool = True,
    follow_links: bool = False,
) -> ServerAddress:
    """Listen on a port, or find our own server of the same folders there.

    A host other than loopback needs a token; one is generated where none is given. Raises
    ``UsageError`` for invalid values, and ``PortTakenError`` unless another port may be used.
    """
    from epochal.server import address

    if token is not None and (len(token) < _MIN_TOKEN or not token.isascii() or " " in token):
        raise UsageError(f"token must be {_MIN_TOKEN} or more ASCII characters without spaces.")
    if token is None and not address.is_loopback(host):
        token = secrets.token_urlsafe(24)
    wanted = Settings().server_port if port is None else port
    try:
        listening, moved_from = address.listen(host, wanted), None
    except address.PortTakenError:
        digest = address.folders_digest(folders, follow_links=follow_links)
        if address.find_own(host, wanted, folders=digest):
            return ServerAddress(address.url_of(host, wanted), host, wanted, None)
        if not may_move:
            raise
        listening, moved_from = address.listen_near(host, wanted + 1), wanted
    number = int(listening.getsockname()[1])
    return ServerAddress(
        url=address.url_of(host, number, token=token),
        host=host,
        port=number,
        listening=listening,
        token=token,
        moved_from=moved_from,
        names=address.names_of(host, more=allow_hosts),
    )


def serve(
    folders: Sequence[str | Path],
    server: ServerAddress,
    *,
    on_ready: Callable[[], None],
    parent: int | None = None,
    linger_s: float = LINGER_S,
    follow_links: bool = False,
) -> None:
    """Serve folders of runs, or a bucket, from this process until it is stopped.

    Links that lead out of these folders are followed only with ``follow_links``.
    """
    from epochal.health.rule_settings import reader_rules
    from epochal.server.access import Access
    from epochal.server.address import folders_digest
    from epochal.server.app import create_app
    from epochal.server.process import run_server
    from epochal.settings import cache_folder
    from epochal.store.opening import store_over

    assert server.listening is not None
    rules = reader_rules()
    app = create_app(
        lambda: store_over(*folders, cache=cache_folder(), follow_links=follow_links, rules=rules),
        access=Access(hosts=server.names, token=server.token, port=server.port),
        write_archive=write_archive,
        folders=folders_digest(folders, follow_links=follow_links),
    )
    with server.listening:
        run_server(app, server.listening, on_ready=on_ready, parent=parent, linger_s=linger_s)


def write_archive(
    runs: Sequence[RunView], out: TextIO, boards: Sequence[StoredBoard], opens_board: bool
) -> None:
    """Write runs and boards as one HTML file; the exporter is loaded when it is needed."""
    from epochal.exports.archive import write

    write(runs, out, boards=boards, opens_board=opens_board)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the separate process beside a training."""
    parser = argparse.ArgumentParser(prog="python -m epochal.api.serving")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--port", type=int)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--linger", type=float, default=LINGER_S)
    args = parser.parse_args(argv)
    try:
        port = read_settings().server_port if args.port is None else args.port
        server = find_address(args.folders, port=port)
    except (EpochalError, OSError) as failure:
        _print({"error": str(failure)})
        return 1
    ready = {"url": server.url, "pid": str(os.getpid())}
    if server.moved_from is not None:
        ready["note"] = f"Port {server.moved_from} is in use; {server.port} is taken instead."
    if server.listening is None:
        _print(ready)
        return 0
    serve(
        args.folders,
        server,
        on_ready=lambda: _print(ready),
        parent=args.parent,
        linger_s=args.linger,
    )
    return 0


def _print(message: Mapping[str, str]) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    gc.disable()  # until all is loaded: a tenth of the start
    sys.exit(main())
