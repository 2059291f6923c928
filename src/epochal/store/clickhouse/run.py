"""One run of a ClickHouse store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from epochal.store.answers import Cursor, Metric
from epochal.store.local.cache import locked
from epochal.store.local.row import unread_row
from epochal.store.local.run import LocalRun
from epochal.store.local.state import RunState
from epochal.store.metrics import resolve
from epochal.store.row import StoredRow


class ClickHouseRun(LocalRun):
    """A run whose parts answer from the tables.

    What is known of its metrics does not wait for their summaries, as it does in a folder.
    """

    def _partial_row(self, own_id: str) -> StoredRow:
        return unread_row(self.source, own_id=own_id, updated=self.source.newest_s)

    @property
    @locked
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        given = self.source.run_json.get("config")
        given = given if isinstance(given, dict) else {}
        return {**given, **self._ask(lambda state: state.config)}

    @locked
    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self._ask(lambda state: state.metrics))

    @locked
    def set_metrics(self) -> list[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return list(self._ask(lambda state: state.set_metrics))

    @locked
    def metric(self, name: str) -> Metric | None:
        """The metric that a name, a role or the end of a name means; None for none."""
        return self._ask(lambda state: resolve(name, state.metrics, state.set_metrics))

    @locked
    def end(self) -> Cursor:
        """The position of the last record of each writer."""
        return self._ask(RunState.end)
