"""The ClickHouse engines that are here to test with: chdb in this process, its engine behind HTTP,
and two real servers.

What is not installed is skipped with the reason. ``make test-hub`` installs both.
"""

from __future__ import annotations

import atexit
import functools
import importlib.util
import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from epochal.store.clickhouse.connection import Address, ChdbServer, parse_address
from tests.hub.new_server import NewServer
from tools.clickhouse_shards import Shards, is_fetched

_NUMBERS = itertools.count(1)
ENGINES = ("chdb", "new server", "two shards")


def new_database(engine: str) -> Address:
    """The address of a database that nobody has used; skips where the engine is not there."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    if engine == "chdb":
        if importlib.util.find_spec("chdb") is None:
            pytest.skip("chdb is not installed: 'make test-hub' installs it")
        return parse_address(f"chdb://{_chdb_folder()}?database={name}")
    if engine == "new server":
        return parse_address(running_new_server().address(name))
    return parse_address(running_shards().address(name))


@functools.cache
def _chdb_folder() -> Path:
    # One folder per process: the engine takes no other while it runs.
    folder = _temporary("chdb")
    ChdbServer.at(str(folder))
    return folder


def running_new_server() -> NewServer:
    """The newest engine behind HTTP, for all tests of this process; skips where it is not there."""
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("chdb is not installed: 'make test-hub' installs it")
    return _new_server()


@functools.cache
def _new_server() -> NewServer:
    server = NewServer(_temporary("new-server"))
    atexit.register(server.stop)
    return server


def running_shards() -> Shards:
    """Two servers for all tests of this process; skips where the packages are not unpacked."""
    if not is_fetched():
        pytest.skip("ClickHouse's servers are not unpacked: 'make test-hub' fetches them")
    return _started()


@functools.cache
def _started() -> Shards:
    shards = Shards(_temporary("shards"))
    atexit.register(shards.stop)
    shards.start()
    return shards


def _temporary(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"epochal-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
