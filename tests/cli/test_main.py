from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from epochal.cli.main import COMMANDS, main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


def epochal(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epochal", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_help_names_every_command(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"    {name} " in out for name in COMMANDS)


def test_no_command_prints_the_help_and_is_a_mistake(capsys: Capture) -> None:
    assert main([]) == 2
    assert "commands" in capsys.readouterr().out


@pytest.mark.parametrize(
    "args", [["fly"], ["ls", "--nope"], ["show"], ["export", "x", "--rows", "y"]]
)
def test_mistakes_are_one_sentence_and_2(args: list[str], capsys: Capture) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("epochal: ")
    assert err.count("\n") == 1


def test_an_unknown_run_is_one_sentence_and_1(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "resnet")
    assert main(["show", "resnt", "--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "epochal: there is no run 'resnt'. Did you mean 'resnet'?\n"


def test_the_folder_may_be_named_before_the_command(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path)
    assert main(["--dir", str(tmp_path), "show", "x"]) == 0
    assert "p/x" in capsys.readouterr().out


def test_the_environment_names_the_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(tmp_path)
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path))
    assert main(["ls"]) == 0
    assert "x" in capsys.readouterr().out


def test_the_module_is_the_command(tmp_path: Path) -> None:
    result = epochal("ls", "--dir", str(tmp_path))
    assert result.returncode == 0
    assert result.stdout.startswith("No runs in")


def test_quiet_silences_remarks(tmp_path: Path) -> None:
    assert epochal("ls", "--quiet", "--dir", str(tmp_path)).stdout == ""


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(*({"log": "message", "text": "x" * 200} for _ in range(5000)))
    command = [sys.executable, "-m", "epochal", "export", "x", "--format", "jsonl"]
    with subprocess.Popen(
        [*command, "--dir", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        process.wait(timeout=120)
    assert process.returncode == 141


def test_help_loads_no_command() -> None:
    code = (
        "import sys; from epochal.cli.main import main; main(['--help']);"
        "sys.exit(any(m in sys.modules for m in ('numpy', 'epochal.cli.ls')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
