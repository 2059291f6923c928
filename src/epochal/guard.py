"""The fault boundary: a fault in one member never reaches another member, the loop or another user.

A member is anything Epochal calls that could fail without the rest having to: a rule, a companion
task, a sink, a telemetry source, an importer, an observer or callback, a console line, one run in a
list, one request. ``Guard.run`` calls it; any ``Exception`` is counted, reported once per member
with its traceback, and replaced by a default. ``KeyboardInterrupt`` and ``SystemExit`` pass.

This file holds the only broad handlers of the package. Elsewhere a handler names what it expects.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
D = TypeVar("D")

# After so many faults a member that is disabled by faults is not called any more.
DISABLE_AFTER = 3


@dataclass(slots=True)
class Fault:
    """What one member raised first, and how often it has raised since."""

    member: str
    error: str
    traceback: str
    count: int = 1

    def fields(self) -> dict[str, Any]:
        """The fields of its ``internal-error`` event."""
        from epochal import __version__  # late: the package is still loading

        return {
            "member": self.member,
            "reason": self.error,
            "traceback": self.traceback,
            "version": __version__,
        }


class BudgetExceeded(Exception):  # noqa: N818 (it is a fault of a member, not an error of ours)
    """A member took longer than it may."""


class Guard:
    """Calls members and keeps their faults; one per process, run or server.

    ``report`` is told of each member's first fault, typically to write an ``internal-error`` event.
    A reporter that raises is ignored: there is nobody left to tell.
    """

    def __init__(self, report: Callable[[Fault], object] | None = None) -> None:
        self._report = report
        self.faults: dict[str, Fault] = {}

    def run(
        self, member: str, call: Callable[..., T], *args: Any, default: D | None = None
    ) -> T | D | None:
        """What ``call(*args)`` returns; ``default``, and a counted fault, where it raises."""
        try:
            return call(*args)
        except Exception as error:  # noqa: BLE001 (the boundary)
            self.note(member, error)
            return default

    def timed(self, member: str, call: Callable[..., T], *args: Any, budget_s: float) -> T | None:
        """Like :meth:`run`; a call that took longer than its budget also counts as a fault."""
        began_s = time.monotonic()
        result = self.run(member, call, *args)
        took_s = time.monotonic() - began_s
        if took_s > budget_s:
            self.note(member, BudgetExceeded(f"took {took_s:.1f} s; its budget is {budget_s:g} s"))
        return result

    def wrap(self, member: str, call: Callable[..., T]) -> Callable[..., T | None]:
        """A function that calls the member through this guard."""

        def guarded(*args: Any) -> T | None:
            return self.run(member, call, *args)

        return guarded

    @contextmanager
    def member(self, name: str) -> Iterator[None]:
        """A ``with`` block whose ``Exception`` is a fault of this member."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (the boundary)
            self.note(name, error)

    def note(self, member: str, error: BaseException) -> Fault:
        """Count a fault of a member; the first one is reported."""
        known = self.faults.get(member)
        if known is not None:
            known.count += 1
            return known
        fault = self.faults[member] = Fault(member, describe(error), describe_traceback(error))
        if self._report is not None:
            with suppress(Exception):  # a fault in reporting a fault ends here
                self._report(fault)
        return fault

    def count(self, member: str) -> int:
        """How often a member has raised."""
        known = self.faults.get(member)
        return 0 if known is None else known.count

    def is_disabled(self, member: str) -> bool:
        """Whether a member has used up its faults; its caller then leaves it out."""
        return self.count(member) >= DISABLE_AFTER


def settle(future: Future[T], call: Callable[[], T]) -> None:
    """Hand what a call returns or raises to whoever waits for the future, from any thread."""
    try:
        future.set_result(call())
    except BaseException as error:  # noqa: BLE001 (raised again where the future is waited for)
        future.set_exception(error)


def describe(error: BaseException) -> str:
    """An error in one line: its type and its words, even where its words cannot be had."""
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 (an error whose __str__ raises)
        words = "(no text)"
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def describe_traceback(error: BaseException) -> str:
    """The traceback as text; of a recursion only its ends."""
    try:
        return "".join(
            traceback.format_exception(type(error), error, error.__traceback__, limit=-25)
        )
    except Exception:  # noqa: BLE001 (an error that cannot be formatted)
        return describe(error)
