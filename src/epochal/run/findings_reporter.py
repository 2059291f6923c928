"""Prints the findings of the companion while the training runs: each once, with its advice.

The file of findings is read at most once a second, between two records of the training. At the
end one line prints how many there were and which command shows them. A run so short that the
companion has not read all of it runs the rules over its own records then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.errors import FormatError
from epochal.journal.layout import FINDINGS, LOOP, PartName
from epochal.records import Record
from epochal.run.recorder import Recorder

if TYPE_CHECKING:
    from epochal.health.diagnosis import Diagnosis
    from epochal.health.finding import Finding
    from epochal.journal.reader import PartReader

_SHOWN = ("error", "warning")
# The companion reads the last records of a run about so long after them.
_WAIT_S = 0.3
_PAUSE_S = 0.02
# Some thousand records. With more, reading some would cost and tell little: the companion has all.
_DIAGNOSE_BYTES = 1 << 20
_DIAGNOSE_FOR_S = 0.3
# A rule that has not come back by then hangs: finish() does not wait for it.
_HANGS_S = 3.0
_LEAST_HANGS_S = 0.5


class FindingsReporter:
    """Prints the findings of one attempt of a run."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._pid = os.getpid()
        self._part = 0
        self._reader: PartReader | None = None
        self._shown: dict[str, str] = {}  # severities by id
        self._has_ended = False

    def begin(self) -> None:
        """Start looking; only rank 0 prints."""
        if self._recorder.rank == 0:
            self._recorder.on_tick.add(self.look)
            self._recorder.ending.after_finish.add(self.print_summary)

    def look(self) -> None:
        """Print the findings since the last look."""
        if os.getpid() != self._pid:
            return
        self._show(self._news())

    def print_summary(self, status: str) -> None:
        """Look once more after the end, and print how many findings there were."""
        if os.getpid() != self._pid:
            return
        deadline = self._recorder.ending.deadline
        keep_s = max(0.0, deadline.left_s() - _WAIT_S)
        self.look()
        while self._reader is not None and not self._has_ended and deadline.left_s() > keep_s:
            deadline.sleep(_PAUSE_S)
            self.look()
        if deadline.left_s() and not self._has_ended and self._is_short():
            self._diagnose_here()
        severities = list(self._shown.values())
        counts = [(word, severities.count(word)) for word in _SHOWN]
        said = [f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts if count]
        if said:
            import shlex

            from epochal.invocation import invocation

            were = "was" if len(severities) == 1 else "were"
            command = f"{invocation()} doctor {shlex.quote(str(self._recorder.folder.path))}"
            self._recorder.console.line(f"epochal: {' and '.join(said)} {were} found: {command}")

    def _is_short(self) -> bool:
        """Whether this process has written so little that the rules can read all of it at once."""
        try:
            sizes = [path.stat().st_size for path in self._own_parts()]
        except OSError:
            return False
        return sum(sizes) <= _DIAGNOSE_BYTES

    def _diagnose_here(self) -> None:
        """Run the rules over the records of this process, for a bounded time.

        They run in a thread. What a rule that hangs would find, the companion and readers find.
        """
        from epochal.health.diagnosis import Diagnosis
        from epochal.health.rule_settings import rules_of

        guard, left_s, found = (
            self._recorder.guard,
            self._recorder.ending.deadline.left_s(),
            list["Finding"](),
        )
        rules = rules_of(self._recorder.folder)
        diagnosis = Diagnosis(
            config=self._recorder.config,
            silenced=rules.silenced,
            thresholds=rules.thresholds,
            rules=rules.chosen,
            guard=guard,
        )
        budget_s = max(_LEAST_HANGS_S, min(_HANGS_S, left_s))
        guard.bounded("diagnosis", self._diagnose, diagnosis, found, budget_s=budget_s)
        self._show(list(found))

    def _diagnose(self, diagnosis: Diagnosis, found: list[Finding]) -> None:
        deadline = self._recorder.ending.deadline
        keep_s = max(0.0, deadline.left_s() - _DIAGNOSE_FOR_S)
        for record in self._own_records():
            found.extend(diagnosis.feed(record))
            if deadline.left_s() <= keep_s:
                return
        found.extend(diagnosis.close())

    def _own_records(self) -> Iterator[Record]:
        from epochal.journal.reader import read_part

        for path, part in self._own_parts().items():
            try:
                for _, record in read_part(path, part):
                    yield record
            except (OSError, FormatError):
                return  # sealed, or the folder has gone: the journal says so itself

    def _own_parts(self) -> dict[Path, PartName]:
        folder, attempt = self._recorder.folder, self._recorder.attempt
        return {folder.part_path(p): p for p in folder.parts() if p[:2] == (LOOP, attempt)}

    def _news(self) -> list[Finding]:
        name = PartName(FINDINGS, self._recorder.attempt, self._part)
        if self._reader is None or self._reader.name != name:
            path = self._recorder.folder.part_path(name)
            if not path.exists():
                return []
            from epochal.journal.reader import PartReader

            self._reader = PartReader(path, name)
        try:
            records = [record for _, record in self._reader.read()]
        except (OSError, FormatError):
            self._has_ended = True
            return []  # sealed, or the folder has gone: the journal says so itself
        self._has_ended |= any(record.get("log") == "finish" for record in records)
        from epochal.health.finding import Finding

        found = [Finding.from_record(record) for record in records]
        if self._recorder.folder.part_path(name._replace(part=self._part + 1)).exists():
            self._part += 1
        return [finding for finding in found if finding is not None]

    def _show(self, findings: list[Finding]) -> None:
        for finding in findings:
            if finding.severity in _SHOWN and finding.state == "open":
                self._print(finding)

    def _print(self, finding: Finding) -> None:
        was_shown = finding.id in self._shown
        self._shown[finding.id] = finding.severity
        if was_shown:
            return
        console = self._recorder.console
        words = f"{finding.severity}: {finding.sentence} {finding.advice}".rstrip()
        console.finding(words, is_error=finding.severity == "error")
