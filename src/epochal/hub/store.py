"""The runs of a hub, as its page and its API read them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from epochal.health.rule_settings import reader_rules
from epochal.hub.ledger import Ledger
from epochal.settings import cache_folder
from epochal.store.answers import TrashedRun
from epochal.store.local.run import LocalRun
from epochal.store.local.store import LocalStore
from epochal.store.local.trash import check_removable
from epochal.store.store import RunView


class HubStore(LocalStore):
    """The runs of a hub; it notes which ones are deleted, so that no sender brings them back."""

    ledger: Ledger

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run to the trash."""
        check_removable(run.info)
        # Before the move, so that its sender cannot bring it back even if this process is killed
        # in between. For a run that is still here the note has no effect.
        self.ledger.note_removed(run.info.id)
        return super().remove(run)

    def received(self, run: LocalRun) -> float:
        """When anything of a run was received last, by the hub's own clock: not what it says.

        A run of last year that is sent today is new to the hub.
        """
        newest, folder = 0.0, run.path
        for place in (folder, folder / "journal", folder / "segments"):
            with contextlib.suppress(OSError), os.scandir(place) as entries:
                for entry in entries:
                    with contextlib.suppress(OSError):
                        if entry.is_file(follow_symlinks=False):
                            newest = max(newest, entry.stat(follow_symlinks=False).st_mtime)
        return newest


def open_hub_store(folders: Sequence[Path], ledger: Ledger) -> HubStore:
    """The runs of some folders of a hub."""
    store = HubStore(*folders, cache=cache_folder(), build=True, rules=reader_rules())
    store.ledger = ledger
    return store
