"""What the conformance test must know of a sink: ``MEMBER`` of its own test."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import pytest

from epochal.run.run import Run
from tests.exchange.sinks.trackers import ask, python_with, send


def _nothing(_folder: Path) -> dict[str, str]:
    return {}


def _no_server(_folder: Path) -> AbstractContextManager[Mapping[str, str]]:
    return nullcontext({})


def _the_folder(folder: Path, _run: Run) -> str:
    return str(folder)


@dataclass(frozen=True, kw_only=True)
class Member:
    """Where a sink writes, and how a test reads that back. ``folder`` is an empty one of the test.

    ``reader`` is a script that prints ``{series name: [[step, value], …]}`` as JSON; its
    ``sys.argv[1]`` is what ``argument`` returns. It runs where ``package`` can be imported.
    ``server`` runs from before the first record until after the reader. It yields further options,
    such as its address, and leaves what it received in the folder.
    ``loss`` is the name of the training loss. Without ``keeps_steps`` the test compares values
    only, and a batch that is sent again after a crash may arrive twice.
    """

    reader: str
    options: Callable[[Path], Mapping[str, str]] = _nothing
    environment: Callable[[Path], Mapping[str, str]] = _nothing
    argument: Callable[[Path, Run], str] = _the_folder
    server: Callable[[Path], AbstractContextManager[Mapping[str, str]]] = _no_server
    package: str = "epochal"
    loss: str = "train/loss"
    keeps_steps: bool = True


def member_of(sink: str) -> Member:
    """The declaration in the test file of a sink."""
    module = importlib.import_module(f"tests.exchange.sinks.test_{sink}")
    member = getattr(module, "MEMBER", None)
    assert isinstance(member, Member), (
        f"tests/exchange/sinks/test_{sink}.py needs MEMBER = Member(…)"
    )
    return member


def check_records_arrive_once(name: str, member: Member, run: Run, folder: Path) -> None:
    """Send a run with a stop and a crash in between; every step arrives once and in order."""
    python = python_with(member.package)
    with member.server(folder) as address:
        options = {**member.options(folder), **address}
        _log_steps(run, range(10))
        send(python, run.dir, name, options=options)
        _log_steps(run, range(10, 20))
        send(python, run.dir, name, crash=True, options=options)
        _log_steps(run, range(20, 30))
        run.finish()
        progress = send(python, run.dir, name, options=options)
        found = ask(python, member.reader, member.argument(folder, run))[member.loss]
    assert progress["phase"] == "closed"
    expected = [[step, pytest.approx(1 / (step + 1))] for step in range(30)]
    if member.keeps_steps:
        assert found == expected
    else:
        values = dict.fromkeys(value for _, value in found)
        assert list(values) == [value for _, value in expected]


def _log_steps(run: Run, steps: range) -> None:
    for step in steps:
        run.log_step(step, step / 10, 1024, 100, 0.5, 1 / (step + 1), 1e-3)
