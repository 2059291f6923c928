"""Collects evidence about a process that ended without a last record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from epochal.companion.config import CompanionConfig
from epochal.format import format_bytes, format_reached
from epochal.journal.layout import RunFolder
from epochal.journal.tail import last_epoch_in, last_step_in
from epochal.telemetry.cgroup import Cgroup


@dataclass(slots=True)
class CrashEvidence:
    """Stores the facts that are needed after the end of the process, while it still runs."""

    config: CompanionConfig
    cgroup: Cgroup
    oom_kills_before: int | None

    @classmethod
    def beside(cls, config: CompanionConfig, *, cgroup: Cgroup | None = None) -> CrashEvidence:
        """Start to watch over a process."""
        group = Cgroup.of(config.parent) if cgroup is None else cgroup
        return cls(config, group, group.oom_kills())

    def collect(self, last_seen: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a ``vanished`` event; ``last_seen`` are the newest figures of its memory."""
        step, epoch = reached(self.config.folder, self.config.writer, self.config.attempt)
        oom_kills = self._oom_kills()
        facts: dict[str, Any] = {
            "pid": self.config.parent,
            "exit": "unknown",
            "last_step": step,
            "last_epoch": epoch,
            "oom_kills": oom_kills,
            **last_seen,
        }
        sentence = _sentence(format_reached(step, epoch), oom_kills=oom_kills, last_seen=last_seen)
        known = {name: value for name, value in facts.items() if value is not None}
        return {"sentence": sentence, **known}

    def _oom_kills(self) -> int | None:
        now = self.cgroup.oom_kills()
        if now is None or self.oom_kills_before is None:
            return None
        return max(0, now - self.oom_kills_before)


def reached(folder: RunFolder, writer: str, attempt: int) -> tuple[int | None, int | None]:
    """The last step a writer logged in an attempt, and the last epoch where it logged no step.

    As far as its unsealed parts tell.
    """
    step = _newest(last_step_in, folder, writer, attempt)
    return step, _newest(last_epoch_in, folder, writer, attempt) if step is None else None


def _newest(
    look: Callable[[Path], int | None], folder: RunFolder, writer: str, attempt: int
) -> int | None:
    parts = [part for part in folder.parts() if part[:2] == (writer, attempt)]
    for part in reversed(parts):
        try:
            found = look(folder.part_path(part))
        except OSError:
            continue
        if found is not None:
            return found
    return None


def _sentence(place: str, *, oom_kills: int | None, last_seen: Mapping[str, Any]) -> str:
    when = f"after {place}" if place else "before its first step"
    parts = [f"the training process vanished {when} without a word"]
    if oom_kills:
        times = "a process" if oom_kills == 1 else f"{oom_kills} processes"
        parts.append(f"the kernel has killed {times} of its group for want of memory since")
    rss = last_seen.get("rss")
    if isinstance(rss, (int, float)):
        parts.append(f"it held {format_bytes(rss)} when last seen")
    return "; ".join(parts) + "."
