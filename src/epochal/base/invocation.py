"""What a person types to start our commands from where they are."""

from __future__ import annotations

import os
import shlex
import shutil
import sys

_NAME = "epochal"
# In uv's cache: the environments that `uvx` makes for a command.
_UVX_FOLDER = "archive-v0"


def invocation() -> str:
    """``epochal`` where a shell finds the one of this environment, else its path or module.

    A printed command begins with this, so that it works as it is printed: under ``make``, under
    ``uvx``, in a script started by its interpreter's path, and in an activated environment.
    """
    if _UVX_FOLDER in sys.prefix.split(os.sep):  # on PATH for this process only
        return f"uvx {_NAME}"
    beside = os.path.join(os.path.dirname(sys.executable), _NAME)
    if os.path.exists(beside):
        return _shortest(beside)
    return f"{_shortest(sys.executable)} -m {_NAME}"


def _shortest(program: str) -> str:
    """A program's name if the shell finds it by that, else its path, relative where that is short.

    Links are not followed: two environments may share one Python.
    """
    name = os.path.basename(program)
    if shutil.which(name) == program:
        return shlex.quote(name)
    relative = os.path.relpath(program)
    return shlex.quote(program if relative.startswith(os.pardir) else relative)
