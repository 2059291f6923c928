"""What is worth knowing about where a run came from: command, machine, code, packages."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

_GIT_TIMEOUT_S = 5.0
_MAX_PATCH_BYTES = 1024 * 1024


def describe_process() -> dict[str, Any]:
    """Command line, folder, user-visible machine facts and Python."""
    try:
        cwd = os.getcwd()
    except OSError:  # it was deleted
        cwd = None
    return {
        "command": _command(),
        "cwd": cwd,
        "python": platform.python_version(),
        "platform": _platform(),
        "cpu_count": os.cpu_count(),
    }


def _platform() -> str:
    """What ``platform.platform()`` returns; on Linux that starts a process to ask for the CPU."""
    if sys.platform != "linux":
        return platform.platform()
    system, (library, version) = os.uname(), platform.libc_ver()
    words = (system.sysname, system.release, system.machine, "with", f"{library}{version}")
    return "-".join(filter(None, words))


def user_name() -> str | None:
    """The user of the operating system; None where it has no name."""
    import getpass  # only at the start of a run

    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a line for this user
        return None


def _command() -> list[str]:
    """What would start this process again; ``sys.argv`` hides ``-m``, ``-c`` and ``-X``."""
    words = [*(sys.orig_argv[1:] or sys.argv)]
    # Under `python -m epochal.wandb` the script finds our package `wandb` on this path.
    if any(Path(entry).parts[-3:] == ("epochal", "wandb", "stand_in") for entry in sys.path):
        words = ["-m", "epochal.wandb", "python", *words]
    return [sys.executable, *words]


def describe_packages() -> dict[str, str]:
    """Installed packages and versions, from folder names: reading metadata costs 100 ms."""
    found: dict[str, str] = {}
    for entry in sys.path:
        try:
            names = os.listdir(entry or ".")
        except OSError:
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                package, _, version = name.rsplit(".", 1)[0].partition("-")
                if version:
                    found.setdefault(package.lower().replace("_", "-"), version.split("-py")[0])
    return dict(sorted(found.items()))


def describe_git(folder: Path) -> tuple[dict[str, Any] | None, bytes]:
    """Commit, branch, remote and whether there are uncommitted changes, and those as a patch."""
    head = _git(folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    if head is None:
        return None, b""
    commit, _, branch = head.decode("utf-8", "replace").strip().partition("\n")
    patch = _git(folder, "diff", "HEAD", "--no-ext-diff", "--no-color") or b""
    # As it is configured: what ``insteadOf`` makes of it may hold a token.
    remote = _git(folder, "config", "--get", "remote.origin.url")
    facts: dict[str, Any] = {"commit": commit, "branch": branch.strip(), "dirty": bool(patch)}
    if remote is not None:
        facts["remote"] = remote.decode("utf-8", "replace").strip()
    if len(patch) > _MAX_PATCH_BYTES:
        facts["patch_bytes_dropped"] = len(patch) - _MAX_PATCH_BYTES
        patch = patch[:_MAX_PATCH_BYTES]
    return facts, patch


def _git(folder: Path, *arguments: str) -> bytes | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            timeout=_GIT_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # no git here, or a repository too large to wait for
    return done.stdout if done.returncode == 0 else None
