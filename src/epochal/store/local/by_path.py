"""Runs by their paths: for people and programs of this machine, never for a request.

A store shows the runs that it was opened on, and no text that it is given is a path. The command
line and ``epochal.load`` may read any file of their user anyway: they find a run by its path here.
An import contract keeps the server, the hub and the tools for agents away from this module.
"""

from __future__ import annotations

from pathlib import Path

from epochal.errors import RunNotFoundError, UsageError
from epochal.exchange.imports.converting import Conversions
from epochal.health.rule_settings import RuleSettings, reader_rules
from epochal.journal.layout import LAUNCH_FOLDER, SearchBounds, is_run_folder
from epochal.settings import cache_folder
from epochal.store.cache import MemoryBudget
from epochal.store.folder import FolderSource
from epochal.store.listing import asides_below
from epochal.store.local.catalog import FolderCatalog
from epochal.store.run import RunView
from epochal.store.store import Store

_SHOWN = 8


def named_run(store: Store, key: str, *, follow_links: bool = False) -> RunView:
    """The run that a person names: as in ``Store.run``, or by a path of this machine.

    A run of a store on another machine has no path here.
    """
    catalog, path = store.catalog, Path(key).expanduser()
    if not isinstance(catalog, FolderCatalog):
        return store.run(key)
    if not ((len(path.parts) > 1 or key in (".", "..")) and is_run_folder(path)):
        try:
            return store.run(key)
        except RunNotFoundError:
            if not path.exists():
                raise
    # One that the store does not list is read alone.
    listed = catalog.listed_at(path.absolute())
    return listed or load_run(path, follow_links=follow_links, rules=reader_rules())


def load_run(
    folder: str | Path, *, follow_links: bool = False, rules: RuleSettings | None = None
) -> RunView:
    """One run by its folder, or by the file or folder that another tracker left it in.

    Raises ``UsageError`` when there is no run in it, or more than one.
    """
    path = Path(folder).expanduser().absolute()
    held = MemoryBudget(rules=rules or RuleSettings())
    if not is_run_folder(path):
        conversions = Conversions(SearchBounds(path, follow_links=follow_links), cache_folder())
        return _load_converted(path, conversions, held=held)
    runs_root = path.parent.parent
    asides = asides_below(runs_root).get(path, ())
    bounds = SearchBounds(path, runs_root / LAUNCH_FOLDER, follow_links=follow_links)
    source = FolderSource(path, asides=asides, bounds=bounds)
    return RunView(source, held=held)


def _load_converted(path: Path, conversions: Conversions, *, held: MemoryBudget) -> RunView:
    """One run of another tracker; ``UsageError`` unless there is exactly one."""
    if not path.exists():
        raise UsageError(f"there is no file or folder {str(path)!r}.")
    found = conversions.at(path)
    if not found:
        raise UsageError(
            f"{str(path)!r} is not a run folder, nor does it hold runs of another tracker."
        )
    if len(found) > 1:
        names = ", ".join(run.run_json()["name"] for run in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        raise UsageError(
            f"{str(path)!r} holds {len(found)} runs: {names}{more}. Open it as a folder of runs,"
            " and name one of them."
        )
    return RunView(FolderSource(found[0].folder.path, converted=found[0]), held=held)
