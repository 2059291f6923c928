"""``docs/explanation/limits.md``: every test it names exists; some of them stand here."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "explanation" / "limits.md").read_text(encoding="utf-8")

# Python looks for it in every process that it starts, the companion's too.
_SITE = """
import sys
def _note(event, arguments):
    if event == "socket.connect":
        with open({file!r}, "a") as file:
            file.write(repr(arguments[1]) + "\\n")
sys.addaudithook(_note)
"""


def python(code: str, *, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/[^`]+)`", PAGE))))
def test_every_test_that_is_named_exists(named: str) -> None:
    file, _, name = named.partition("::")
    source = ROOT / file
    assert source.exists()
    defined = {
        node.name
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
    }
    assert not name or name in defined


def test_every_promise_names_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "---" not in line]
    promises = [row for row in rows if not row.rstrip(" |").endswith("| test")]
    assert len(promises) >= 15
    for row in promises:
        assert "`tests/" in row, row


def test_logging_starts_no_thread_and_patches_nothing(tmp_path: Path) -> None:
    code = """
import builtins, signal, sys, threading
def patched():
    streams = [s for s in (sys.stdout, sys.stderr) if "write" in vars(s) or "flush" in vars(s)]
    return [sys.stdout, sys.stderr, streams, sys.gettrace(), builtins.print, builtins.open,
            threading.excepthook, sys.displayhook, signal.getsignal(signal.SIGINT)]
before = patched()
import epochal
run = epochal.init("p", "a")
for step in range(100):
    run.log({"loss": 1.0}, step=step)
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert patched() == before
run.finish()
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert patched() == before
"""
    python(code, cwd=tmp_path)


def test_a_run_opens_no_connection(tmp_path: Path) -> None:
    seen = tmp_path / "connections"
    (tmp_path / "sitecustomize.py").write_text(_SITE.format(file=str(seen)))
    code = """
import epochal
run = epochal.init("p", "a")
for step in range(100):
    run.log({"loss": 1.0}, step=step)
run.finish()
"""
    python(code, cwd=tmp_path, PYTHONPATH=str(tmp_path), EPOCHAL_COMPANION="1")
    connections = seen.read_text().splitlines() if seen.exists() else []
    assert [one for one in connections if not one.startswith(("'", "b'"))] == []  # Unix sockets


def test_no_module_imports_pickle() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
            assert not {"pickle", "cloudpickle", "dill", "shelve"}.intersection(names), path
