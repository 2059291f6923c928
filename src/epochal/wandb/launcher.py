"""``python -m epochal.wandb COMMAND``: runs a script that has ``import wandb`` unchanged.

A folder with a package ``wandb`` and its metadata is put in front of ``PYTHONPATH``. Children,
``torchrun``, ``accelerate launch`` and spawned processes inherit it. Nothing is installed, and no
file outside this package is changed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from epochal.errors import EpochalError, UsageError

STAND_IN = Path(__file__).parent / "stand_in"
USAGE = """\
usage: python -m epochal.wandb [python | torchrun | accelerate launch] script.py [ARGS ...]
       python -m epochal.wandb -m MODULE [ARGS ...]
       python -m epochal.wandb agent SWEEP_ID [--count N]

Runs a script whose 'import wandb' finds Epochal: runs are recorded on this machine.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Replace this process by the command, in an environment where ``wandb`` is Epochal."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
        return 0 if given else 2
    try:
        if given[0] == "agent":
            from epochal.wandb.sweeps import agent_command

            os.environ.update(stand_in_environment(os.environ))
            agent_command(given[1:])
            return 0
        command = command_of(given)
    except EpochalError as error:
        sys.stderr.write(f"epochal.wandb: {error}\n")
        return 2
    sys.stdout.flush()
    sys.stderr.flush()
    return os.execve(command[0], command, stand_in_environment(os.environ))


def command_of(given: Sequence[str]) -> list[str]:
    """The command to run: a script and ``-m`` with this Python, or a program that is there."""
    first = given[0]
    if first in ("-m", "-c") or first.endswith(".py"):
        return [sys.executable, *given]
    if first in ("python", "python3", os.path.basename(sys.executable)):
        return [sys.executable, *given[1:]]
    beside = str(Path(sys.executable).parent)
    program = shutil.which(first, path=beside) or shutil.which(first)
    if program is not None:
        return [program, *given[1:]]
    raise UsageError(f"{first!r} is neither a script nor a program that can be found.")


def stand_in_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment with the stand-in in front of ``PYTHONPATH``."""
    before = [part for part in environ.get("PYTHONPATH", "").split(os.pathsep) if part]
    paths = [str(STAND_IN), *(part for part in before if part != str(STAND_IN))]
    return {**environ, "PYTHONPATH": os.pathsep.join(paths)}
