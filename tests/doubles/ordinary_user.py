"""A process of an ordinary user, where the tests themselves run as root."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

NOBODY = 65534


def as_ordinary_user() -> list[str]:
    """The words before a command that take away the right to write anywhere.

    The user may still read everything, so that Python is found where only root may look.
    """
    if os.geteuid():
        return []
    program = shutil.which("setpriv")
    if program is None:
        pytest.skip("this is root, and there is no setpriv to become somebody else with")
    reading = ["--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search"]
    return [program, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups", *reading]


def make_folder(path: Path) -> None:
    """A folder that the ordinary user can write to."""
    path.mkdir()
    if not os.geteuid():
        os.chown(path, NOBODY, NOBODY)
