"""ClickHouse to test with: its engine in this process (chdb), and two real servers.

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

from epochal.store.clickhouse.connection import Address, parse_address
from tools.clickhouse_shards import Shards, is_fetched

ENGINES = ("chdb", "two shards")
_NUMBERS = itertools.count(1)


def new_database(engine: str) -> Address:
    """Return the address of a database that no test has used; skip if the engine is missing."""
    name = f"test_{os.getpid()}_{next(_NUMBERS)}"
    if engine == "two shards":
        return parse_address(running_shards().address(name))
    if importlib.util.find_spec("chdb") is None:
        pytest.skip("chdb is not installed; 'make test-hub' installs it.")
    return parse_address(f"chdb://{_chdb_folder()}?database={name}")


def running_shards() -> Shards:
    """Return two servers that all tests of this process share; skip if they are not unpacked."""
    if not is_fetched():
        pytest.skip("The ClickHouse servers are not unpacked; 'make test-hub' fetches them.")
    return _started_shards()


@functools.cache
def _started_shards() -> Shards:
    shards = Shards(_temporary_folder("shards"))
    atexit.register(shards.stop)
    shards.start()
    return shards


@functools.cache
def _chdb_folder() -> Path:
    # chdb has one folder at a time in a process, so all databases are in the same one.
    return _temporary_folder("chdb")


def _temporary_folder(name: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix=f"epochal-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
