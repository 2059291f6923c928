"""Runs and kernels that several tests of this folder use."""

from collections.abc import Iterator

import pytest

from epochal.run.run import Run
from tests.conftest import StartRun
from tests.doubles.kernels import Kernel


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run()


@pytest.fixture
def strict_run(start_run: StartRun) -> Run:
    return start_run("strict", strict=True)


@pytest.fixture(scope="module")
def shared_kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    kernel.run("import epochal, epochal.run.current")
    yield kernel
    kernel.close()


@pytest.fixture
def kernel(shared_kernel: Kernel) -> Iterator[Kernel]:
    yield shared_kernel
    shared_kernel.run("for run in epochal.run.current.OPEN_RUNS: run.finish()")
