"""The runs of a hub, as its page and its API read them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from epochal.health.rule_settings import reader_rules
from epochal.hub.ledger import Ledger
from epochal.settings import cache_folder
from epochal.store.answers import TrashedRun
from epochal.store.local.store import LocalStore
from epochal.store.store import RunView


class HubStore(LocalStore):
    """The runs of a hub; it notes which ones are deleted, so that no sender brings them back."""

    ledger: Ledger

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run to the trash."""
        removed = super().remove(run)
        self.ledger.note_removed(removed.id)
        return removed


def open_hub_store(folders: Sequence[Path], ledger: Ledger) -> HubStore:
    """The runs of some folders of a hub."""
    store = HubStore(*folders, cache=cache_folder(), build=True, rules=reader_rules())
    store.ledger = ledger
    return store
