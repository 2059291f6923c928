"""Every public member of a run shows how it is used, and what it shows works."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path

import pytest

import epochal
from epochal.run.run import Run
from tests.conftest import StartRun

MEMBERS = sorted(name for name in dir(Run) if not name.startswith("_"))


def example_of(name: str) -> str:
    text, _, code = (inspect.getdoc(getattr(Run, name)) or "").partition("\nExample:\n")
    assert text, f"{name} has no description"
    assert code, f"{name} has no example"
    return textwrap.dedent(code)


@pytest.mark.parametrize("name", MEMBERS)
def test_the_example_of_a_member_uses_it_and_works(
    name: str, start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = example_of(name)
    assert f"run.{name}" in code
    if name == "serve":
        pytest.skip("starts a server")
    monkeypatch.chdir(tmp_path)
    run = start_run(strict=True)
    exec(code, {"epochal": epochal, "run": run})
