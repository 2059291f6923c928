"""Prints the findings of the companion while the training runs: each once, with its advice.

The file of findings is read at most once a second, between two records of the training. At the
end one line prints how many there were and which command shows them. A run so short that the
companion has not read all of it runs the rules over its own records then.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from epochal.errors import FormatError
from epochal.format import plural
from epochal.invocation import invocation
from epochal.journal.layout import FINDINGS, LOOP
from epochal.run.own_records import OwnRecords
from epochal.run.recorder import Recorder
from epochal.settings.toml_file import shown_path

if TYPE_CHECKING:
    from epochal.health.finding import Finding

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
        self._records = OwnRecords(writer=FINDINGS)
        self._shown: dict[str, str] = {}  # severities by id
        self._has_companion = False
        self._has_ended = False

    def begin(self) -> None:
        """Start looking; only rank 0 prints."""
        if self._recorder.rank == 0:
            self._recorder.on_tick.add(self.refresh)
            self._recorder.ending.after_finish.add(self.print_summary)

    def refresh(self) -> None:
        """Print the findings that the companion has written since the last time."""
        recorder = self._recorder
        try:
            for _, records in self._records.read(recorder, attempt=recorder.attempt):
                from epochal.health.finding import Finding

                self._has_companion = True
                self._has_ended |= any(record["log"] == "finish" for record in records)
                self._show([Finding.from_record(record) for record in records])
        except (OSError, FormatError):
            self._has_ended = True  # the folder has gone: the journal reports that itself

    def print_summary(self, status: str) -> None:
        """Look once more after the end, and print how many findings there were."""
        deadline = self._recorder.ending.deadline
        keep_s = max(0.0, deadline.left_s() - _WAIT_S)
        self.refresh()
        while self._has_companion and not self._has_ended and deadline.left_s() > keep_s:
            deadline.sleep(_PAUSE_S)
            self.refresh()
        if deadline.left_s() and not self._has_ended and self._is_short():
            self._diagnose_here()
        severities = list(self._shown.values())
        counts = [(severities.count(word), word) for word in _SHOWN]
        found = " and ".join(plural(count, word) for count, word in counts if count)
        if found:
            were = "was" if len(severities) == 1 else "were"
            command = f"{invocation()} doctor {shlex.quote(shown_path(self._recorder.folder.path))}"
            self._recorder.console.line(f"epochal: {found} {were} found: {command}")

    def _is_short(self) -> bool:
        """Whether this process has written so little that the rules can read all of it at once."""
        folder, own = self._recorder.folder, (LOOP, self._recorder.attempt)
        try:
            sizes = [folder.part_path(p).stat().st_size for p in folder.parts() if p[:2] == own]
        except OSError:
            return False
        return sum(sizes) <= _DIAGNOSE_BYTES

    def _diagnose_here(self) -> None:
        """Run the rules over the records of this process, for a bounded time.

        They run in a thread. What a rule that hangs would find, the companion and readers find.
        """
        from epochal.health.rule_settings import rules_of

        recorder, found = self._recorder, list["Finding"]()
        deadline = recorder.ending.deadline
        rules = rules_of(recorder.folder)
        diagnosis = rules.diagnosis(config=recorder.config, guard=recorder.guard)

        def diagnose() -> None:
            keep_s = max(0.0, deadline.left_s() - _DIAGNOSE_FOR_S)  # loading the rules is over
            for _, records in OwnRecords().read(recorder, attempt=recorder.attempt):
                for record in records:
                    found.extend(diagnosis.feed(record))
                    if deadline.left_s() <= keep_s:
                        return
            found.extend(diagnosis.close())

        budget_s = max(_LEAST_HANGS_S, min(_HANGS_S, deadline.left_s()))
        recorder.guard.bounded("diagnosis", diagnose, budget_s=budget_s)
        self._show(found)

    def _show(self, findings: Iterable[Finding | None]) -> None:
        """Print each error and warning when it is found, once."""
        for finding in list(findings):
            if finding is None or finding.severity not in _SHOWN or finding.state != "open":
                continue
            is_new = finding.id not in self._shown
            self._shown[finding.id] = finding.severity
            if is_new:
                words = f"{finding.severity}: {finding.sentence} {finding.advice}".rstrip()
                self._recorder.console.finding(words, is_error=finding.severity == "error")
