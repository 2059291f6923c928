"""What every test starts from: no current run, and nothing of the outer environment."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from hypothesis import settings

from epochal.console.verbosity import Verbosity, set_verbosity
from epochal.run.current import OPEN_RUNS
from epochal.run.run import Run
from epochal.run.start import init

_LAUNCHERS = ("SLURM_", "OMPI_", "PMI_", "TORCHELASTIC_", "MASTER_", "EPOCHAL_")
_RANKS = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "GROUP_RANK", "NODE_RANK"}


# No test depends on how fast the machine is; a failing example is the same on every machine.
settings.register_profile("house", deadline=None, derandomize=True)
settings.load_profile("house")


# A shell that starts the tests in the background has them ignore Ctrl-C, and so every process they
# start; what tests say of Ctrl-C is about processes that do not.
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    and threading.current_thread() is threading.main_thread()
):
    signal.signal(signal.SIGINT, signal.default_int_handler)


class StartRun(Protocol):
    def __call__(self, name: str = ..., **arguments: Any) -> Run: ...


@pytest.fixture(autouse=True, scope="session")
def no_companions() -> Iterator[None]:
    """For what is made once for many tests, before any of them has an environment of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EPOCHAL_COMPANION", "0")
        yield


@pytest.fixture(autouse=True)
def own_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in list(os.environ):
        if name.startswith(_LAUNCHERS) or name in _RANKS:
            monkeypatch.delenv(name)
    monkeypatch.setenv("EPOCHAL_COMPANION", "0")
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(autouse=True)
def normal_verbosity() -> None:
    """A command that was told to be quiet is so for the whole process."""
    set_verbosity(Verbosity.NORMAL)


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
