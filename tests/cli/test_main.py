from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from epochal.cli.main import COMMANDS, main, program
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


def epochal(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "epochal", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_help_names_every_command_under_its_section(capsys: Capture) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    for section, commands in COMMANDS.items():
        assert f"\n{section}:\n" in out
        assert all(f"\n  {name} " in out for name in commands)


def test_there_are_at_most_26_commands() -> None:
    assert sum(map(len, COMMANDS.values())) <= 26


def every_command(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    with click.Context(group, info_name="epochal") as context:
        for name in group.list_commands(context):
            found = group.get_command(context, name)
            yield (*path, name)
            if isinstance(found, click.Group):
                yield from every_command(found, *path, name)


@pytest.mark.parametrize("path", list(every_command(program)), ids=" ".join)
def test_every_command_explains_itself(path: tuple[str, ...], capsys: Capture) -> None:
    assert main([*path, "--help"]) == 0
    usage, explanation, *_ = capsys.readouterr().out.split("\n\n")
    assert usage.startswith(f"Usage: epochal {' '.join(path)} ")
    assert explanation.strip().endswith((".", ":"))


def test_no_command_prints_the_help_and_is_a_mistake(capsys: Capture) -> None:
    assert main([]) == 2
    assert "Look at runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "args", [["fly"], ["ls", "--nope"], ["manage", "rename"], ["manage", "prune", "--older", "y"]]
)
def test_mistakes_are_one_sentence_and_2(args: list[str], capsys: Capture) -> None:
    assert main(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("epochal: ")
    assert err.count("\n") == 1


def test_a_misspelt_command_gets_a_suggestion(capsys: Capture) -> None:
    assert main(["docter"]) == 2
    assert "did you mean doctor?" in capsys.readouterr().err


def test_a_misspelt_run_gets_a_suggestion(tmp_path: Path, capsys: Capture) -> None:
    Journal(tmp_path, "resnet")
    assert main(["show", "resnt", "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "epochal: there is no run 'resnt'. Did you mean 'resnet'?\n"


def test_without_a_run_commands_take_the_newest_and_name_it(
    tmp_path: Path, capsys: Capture
) -> None:
    Journal(tmp_path, "old", created=1000.0)
    Journal(tmp_path, "new", created=2000.0)
    assert main(["show", "--dir", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("p/new")
    assert err == "The newest run is p/new.\n"


# How each shell completes the words of its first line; it prints one completion per line.
SHELLS = {
    "bash": 'eval "$(epochal --completion bash)"; COMP_WORDS=({words} ""); COMP_CWORD={last};'
    ' _epochal_completion epochal; printf "%s\\n" "${{COMPREPLY[@]}}"',
    "fish": 'epochal --completion fish | source; complete -C "{words} "',
    "zsh": "autoload -Uz compinit; compinit -D; compadd() {{ print -l -- ${{(P)@[-1]}} }};"
    ' _describe() {{ print -l -- ${{(P)3}} }}; eval "$(epochal --completion zsh)";'
    ' words=({words} ""); CURRENT=${{#words}}; _epochal_completion',
}


@pytest.mark.parametrize("shell", SHELLS)
def test_shells_complete_commands_and_runs(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    Journal(tmp_path, "resnet")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "EPOCHAL_DIR": str(tmp_path), "HOME": str(tmp_path)}

    def completions(words: str) -> str:
        script = SHELLS[shell].format(words=words, last=len(words.split()))
        command = [shell, "-f", "-c", script] if shell == "zsh" else [shell, "-c", script]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "doctor" in completions("epochal")
    assert "resnet" in completions("epochal show")


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
