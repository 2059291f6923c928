"""What can still be said of a process that vanished without a word."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from epochal.companion.charge import Charge
from epochal.format import format_bytes
from epochal.journal.layout import RunFolder
from epochal.journal.tail import last_step_in
from epochal.telemetry.cgroup import Cgroup


@dataclass(slots=True)
class Witness:
    """Remembers what will be asked when the process is gone: made while it still lives."""

    charge: Charge
    cgroup: Cgroup
    oom_kills_before: int | None

    @classmethod
    def beside(cls, charge: Charge, *, cgroup: Cgroup | None = None) -> Witness:
        """Start to watch over a process."""
        group = Cgroup.of(charge.parent) if cgroup is None else cgroup
        return cls(charge, group, group.oom_kills())

    def testify(self, last_seen: Mapping[str, Any]) -> dict[str, Any]:
        """The facts of a ``vanished`` event; ``last_seen`` are the newest figures of its memory."""
        step = last_step(self.charge.folder, self.charge.writer, self.charge.attempt)
        oom_kills = self._oom_kills()
        facts: dict[str, Any] = {
            "pid": self.charge.parent,
            "exit": "unknown",
            "last_step": step,
            "oom_kills": oom_kills,
            **last_seen,
        }
        sentence = _sentence(step=step, oom_kills=oom_kills, last_seen=last_seen)
        known = {name: value for name, value in facts.items() if value is not None}
        return {"sentence": sentence, **known}

    def _oom_kills(self) -> int | None:
        now = self.cgroup.oom_kills()
        if now is None or self.oom_kills_before is None:
            return None
        return max(0, now - self.oom_kills_before)


def last_step(folder: RunFolder, writer: str, attempt: int) -> int | None:
    """The last step a writer logged in an attempt, as far as its unsealed parts tell."""
    parts = [part for part in folder.parts() if part[:2] == (writer, attempt)]
    for part in reversed(parts):
        try:
            step = last_step_in(folder.part_path(part))
        except OSError:
            continue
        if step is not None:
            return step
    return None


def _sentence(*, step: int | None, oom_kills: int | None, last_seen: Mapping[str, Any]) -> str:
    when = "before its first step" if step is None else f"after step {step}"
    parts = [f"the training process vanished {when} without a word"]
    if oom_kills:
        times = "a process" if oom_kills == 1 else f"{oom_kills} processes"
        parts.append(f"the kernel has killed {times} of its group for want of memory since")
    rss = last_seen.get("rss")
    if isinstance(rss, (int, float)):
        parts.append(f"it held {format_bytes(rss)} when last seen")
    return "; ".join(parts) + "."
