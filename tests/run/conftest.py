"""Runs that several tests of this folder use."""

import pytest

from epochal.run.run import Run
from tests.conftest import StartRun


@pytest.fixture
def run(start_run: StartRun) -> Run:
    return start_run()


@pytest.fixture
def strict_run(start_run: StartRun) -> Run:
    return start_run("strict", strict=True)
