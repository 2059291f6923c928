"""Whatever a run's files say, no command hands their control characters to the terminal."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from epochal.cli.main import main, program
from tests.store.journals import Journal

# A colour, the clipboard (OSC 52), the bell, NUL, a one-byte CSI, DEL, and text written backwards.
CODES = "\x1b[31m\x1b]52;c;ZXZpbA==\x07\x00\x9b2J\x7f\u202e\u2066\u200f\r"
EVIL = f"evil{CODES}end"
OWN_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """A stream that says it is a terminal with colours."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def hostile(root: Path, name: str = "x") -> Journal:
    """A run whose every text is hostile; it failed, so that all of it is told."""
    facts: dict[str, Any] = {"tags": [EVIL], "notes": EVIL, "config": {EVIL: EVIL, "a": {EVIL: 1}}}
    facts |= {"command": ["python", "train.py", EVIL], "cwd": f"/nowhere/{EVIL}", "host": EVIL}
    journal = Journal(root, name, **facts)
    for step in range(3):
        journal.add({"log": "metrics", "step": step, "m": {EVIL: float(step), "loss": 1.0}})
        journal.add({"log": "epoch", "epoch": step + 1, "m": {EVIL: 1.0}})
    journal.add({"log": "message", "level": EVIL, "text": EVIL})
    journal.add({"log": "text", "step": 2, "name": EVIL, "text": EVIL})
    journal.add({"log": "event", "name": EVIL, "fact": EVIL, "traceback": EVIL})
    journal.add({"log": "event", "name": "hardware", "text": EVIL}, writer="telemetry-n")
    journal.add({"log": "event", "name": "vanished", "sentence": EVIL}, writer="telemetry-n")
    finding: dict[str, Any] = {
        "id": "f",
        "rule": EVIL,
        "severity": "error",
        "sentence": EVIL,
        "advice": EVIL,
    }
    finding |= {"series": EVIL, "steps": [1, 2], "evidence": {EVIL: EVIL}}
    journal.add({"log": "finding", **finding}, writer="findings")
    journal.add({"log": "finish", "status": "failed", "reason": EVIL})
    journal.folder.labels.write_text(json.dumps({"name": f"{name}{EVIL}", "tags": [EVIL]}))
    (journal.folder.path / "checkpoints" / EVIL.replace("\x00", "")).mkdir(parents=True)
    return journal


def ways(root: Path) -> dict[str, list[list[str]]]:
    """Every command, in every form that prints what runs say."""
    one, other = str(root / "p/x"), str(root / "p/y")
    both = [[], ["--json"]]
    plain = {
        name: [[name, one, *more] for more in both] for name in ("show", "doctor", "note", "wait")
    }
    manage = [
        ["du"],
        ["trash", "list"],
        ["trash", "restore", EVIL],
        ["trash", "empty", one],
        ["prune", "--older", "1d"],
        ["pack", one],
        ["verify", one],
        ["repair", one],
        ["rename", one, f"new {EVIL}"],
        ["hide", one],
        ["checkpoints", one],
    ]
    hub = [
        ["push", one, "--to", "http://127.0.0.1:9"],
        ["push", one, "--to", EVIL],
        ["pull", EVIL, "--from", "http://127.0.0.1:9"],
        ["token", "add", EVIL, "--hub", str(root)],
        ["token", "revoke", EVIL, "--hub", str(root)],
        ["share", one, "--hub", str(root), "--url", EVIL],
        ["share", one, "--hub", str(root), "--url", "http://[" + EVIL],
        ["share", "--where", EVIL, "--hub", str(root)],
        ["share", "--hub", EVIL.replace("\x00", "")],
        ["audit", "--hub", EVIL.replace("\x00", "")],
        ["serve", str(root), "--trust", EVIL, "--user-header", "x"],
    ]
    return {
        **plain,
        "ls": [
            ["ls"],
            ["ls", "--json"],
            ["ls", "--csv", "--columns", f"notes,tags,{EVIL}"],
            ["ls", "--columns", "notes,tags,config.a"],
            ["ls", EVIL],
            ["ls", f"config.a {EVIL}"],
        ],
        "series": [["series", one, EVIL], ["series", one, "loss"]],
        "tail": [["tail", one, "-a", "-n", "99", *more] for more in both],
        "compare": [["compare", one, other, "-a", *more] for more in both],
        "export": [["export", one, "--format", f] for f in "csv jsonl".split()],
        "figure": [
            ["figure", one, other, "-m", "loss", "-o", str(root / "a.svg")],
            ["figure", one, "-m", EVIL, "-o", str(root / "b.svg")],
        ],
        "why": [["why", one, other, *more] for more in both],
        "sync": [["sync", one], ["sync", one, "--status"], ["sync", one, "--to", EVIL]],
        "import": [["import", f"{one}/{EVIL.replace(chr(0), '')}"]],
        "resume": [["resume", one, *more] for more in both],
        "stop": [["stop", one]],
        "watch": [["watch", one, "--once"], ["watch", str(root), "--once"]],
        "tag": [["tag", one, EVIL, *more] for more in both] + [["tag", one, "-r", f"{EVIL}?"]],
        "run": [["run", "--", EVIL.replace("\x00", "")]],
        "manage": [["manage", *words] for words in manage],
        "hub": [["hub", *words] for words in hub],
        "rm": [["rm", one], ["rm", one, "--yes"], ["rm", other, "--yes", "--json"]],
        # These print no words of runs; what they refuse they quote.
        "demo": [["demo", "--seed", EVIL]],
        "serve": [["serve", EVIL.replace("\x00", "")]],
        "config": [["config"], ["config", EVIL]],
        "skill": [["skill", EVIL]],
        "mcp": [["mcp", EVIL]],
    }


def test_every_command_is_tried() -> None:
    assert set(ways(Path())) == set(program.summaries)


@pytest.mark.parametrize("command", program.summaries)
def test_control_characters_of_a_run_do_not_reach_the_terminal(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile(tmp_path, "x")
    hostile(tmp_path, "y")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    if command == "manage":
        main(["rm", str(tmp_path / "p/y"), "--yes", "--dir", str(tmp_path)])
    for words in ways(tmp_path)[command]:
        terminal = Terminal()
        with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
            main(["--dir", str(tmp_path), *words])
        shown = terminal.getvalue()
        assert shown, words
        assert "evil\x1b" not in shown
        rest = OWN_COLOURS.sub("", shown)
        assert [c for c in rest if not c.isprintable() and c not in "\n\t"] == [], words


def test_a_line_of_a_name_cannot_pass_for_a_line_of_ours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal(tmp_path, config={"a": "1\nb  2"}, tags=["t\n  status        finished"])
    main(["show", "x", "--dir", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("  status ") for line in lines) == 1
    assert "  a  1\\nb  2" in lines


def test_a_note_keeps_its_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(tmp_path, notes="one\ntwo ünïcode 👩‍🔬")
    main(["note", "x", "--dir", str(tmp_path)])
    assert capsys.readouterr().out == "one\ntwo ünïcode 👩‍🔬\n"


def test_json_holds_what_the_file_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile(tmp_path)
    main(["show", "x", "--json", "--dir", str(tmp_path)])
    assert json.loads(capsys.readouterr().out)["notes"] == EVIL


def test_an_export_to_a_file_is_exact(tmp_path: Path) -> None:
    hostile(tmp_path)
    out = tmp_path / "out.jsonl"
    main(["export", "x", "-o", str(out), "--dir", str(tmp_path)])
    texts = [json.loads(line).get("text") for line in out.read_text().splitlines()]
    assert EVIL in texts


def test_the_command_to_resume_is_safe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Journal(tmp_path, command=["echo", "a b", EVIL], cwd=str(tmp_path)).finish("failed")
    main(["resume", "x", "--quiet", "--dir", str(tmp_path)])
    line = capsys.readouterr().out.rstrip("\n")
    assert line.replace("\n", "").isprintable()
    assert shlex.quote("a b") in line
