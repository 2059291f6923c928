"""What a coding agent does with Epochal: start, diagnose, change a value, and try again.

    python examples/agent.py

This script plays the agent. It starts `loop.py` with a learning rate that is far too high, reads
the diagnosis as JSON, and lowers the rate until the training is healthy. Afterwards the notes tell
what was tried:

    epochal ls examples --columns config.lr,eval/accuracy,notes

A real agent learns these commands from `epochal skill --install .claude/skills`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

EPOCHAL = [sys.executable, "-m", "epochal"]  # in a shell, simply `epochal`
LOOP = str(Path(__file__).parent / "loop.py")
STEPS = os.environ.get("STEPS", "400")


def diagnose(name: str) -> list[dict[str, Any]]:
    """Return what is wrong with a run, the most likely cause first."""
    command = [*EPOCHAL, "doctor", f"examples/{name}", "--json"]
    answer = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout)["causes"]


lr = 30.0
for attempt in range(1, 6):
    name = f"agent-{attempt}"
    # Exit codes: that of the training, 1 if a finding stopped it, 3 after the timeout.
    command = ["run", "--stop-on", "error", "--timeout", "10m", "--name", name]
    training = [sys.executable, LOOP, "--lr", str(lr), "--steps", STEPS]
    code = subprocess.run([*EPOCHAL, *command, "--", *training], check=False).returncode
    causes = diagnose(name)
    if code == 0 and not causes:
        note = "healthy"
    else:
        note = causes[0]["sentence"] if causes else f"exit code {code}"
    subprocess.run([*EPOCHAL, "note", f"examples/{name}", note], check=True)
    print(f"agent: lr {lr:g}: {note}\n")
    if note == "healthy":
        break
    lr /= 10
