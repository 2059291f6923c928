"""Sends a signal to the process that an identity names, and to no other."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

from epochal.errors import EpochalError, UsageError
from epochal.journal.process import liveness


class ProcessOutOfReachError(EpochalError):
    """A process that cannot be signalled from here; the message has the reason."""


def send_signal(identity: Mapping[str, Any], name: str) -> None:
    """Send a signal, by name, to a living process of this machine and user.

    Raises ``ProcessOutOfReachError`` for one that has ended, is on another machine or belongs to
    another user, ``UsageError`` for a signal that this system does not have. If the kernel supports
    it, a descriptor refers to the process during the check, so a reused pid never gets the signal.
    """
    number = getattr(signal, name, None)
    if number is None:
        raise UsageError(f"{name} does not exist on this system.")
    pid = identity.get("pid")
    if not isinstance(pid, int) or pid <= 0:
        raise ProcessOutOfReachError("its record names no process.")
    try:
        held = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    except ProcessLookupError:
        held = None  # gone, which is said below
    except OSError:
        held = None  # an old kernel, or one that forbids it: the check alone must do
    with contextlib.ExitStack() as stack:
        if held is not None:
            stack.callback(os.close, held)
        check_reach(identity)
        try:
            if held is not None and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(held, number)
            else:
                os.kill(pid, number)
        except ProcessLookupError:
            raise ProcessOutOfReachError(f"process {pid} has ended.") from None
        except PermissionError:
            raise ProcessOutOfReachError(
                f"process {pid} belongs to another user: only they, or an administrator, may."
            ) from None


def check_reach(identity: Mapping[str, Any]) -> None:
    """Raise ``ProcessOutOfReachError`` unless the process exists and is visible from here."""
    pid, host = identity.get("pid"), identity.get("host")
    seen = liveness(identity)
    if seen == "dead":
        raise ProcessOutOfReachError(f"process {pid} has ended.")
    if seen == "unknown" and host != socket.gethostname():
        raise ProcessOutOfReachError(
            f"process {pid} is on the machine {host!r}, and this is {socket.gethostname()!r}."
        )
    if seen == "unknown":
        raise ProcessOutOfReachError(f"process {pid} is in another container of this machine.")
