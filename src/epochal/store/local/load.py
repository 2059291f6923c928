"""Opens one run by its folder, or by what another tracker left."""

from __future__ import annotations

from pathlib import Path

from epochal.errors import UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.imports.converting import Conversions
from epochal.journal.layout import LAUNCH_FOLDER, is_run_folder
from epochal.journal.search_bounds import SearchBounds
from epochal.settings import cache_folder
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.folder import FolderSource
from epochal.store.local.listing import asides_below
from epochal.store.local.run import LocalRun

_SHOWN = 8


def load_run(
    folder: str | Path,
    *,
    held: MemoryBudget | None = None,
    bounds: SearchBounds | None = None,
    follow_links: bool = False,
    rules: RuleSettings | None = None,
) -> LocalRun:
    """One run by its folder, or by the file or folder that another tracker left it in.

    Raises ``UsageError`` when there is no run in it, or more than one.
    """
    path = Path(folder).expanduser().absolute()
    if held is None:
        held = MemoryBudget(rules=rules or RuleSettings())
    if not is_run_folder(path):
        conversions = Conversions(SearchBounds(path, follow_links=follow_links), cache_folder())
        return load_converted(path, conversions, held=held)
    runs_root = path.parent.parent
    asides = asides_below(runs_root).get(path, ())
    if bounds is None:
        bounds = SearchBounds(path, runs_root / LAUNCH_FOLDER, follow_links=follow_links)
    source = FolderSource(path, asides=asides, bounds=bounds)
    return LocalRun(source, held=held)


def load_converted(path: Path, conversions: Conversions, *, held: MemoryBudget) -> LocalRun:
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
    return LocalRun(FolderSource(found[0].folder.path, converted=found[0]), held=held)


def check_place(path: str | Path) -> None:
    """Raise ``UsageError`` unless a path is a folder, or a file with runs of another tracker."""
    place = Path(path).expanduser()
    if place.is_dir():
        return
    if not place.exists():
        raise UsageError(f"there is no folder {str(path)!r}.")
    place = place.absolute()
    if not Conversions(SearchBounds(place), cache_folder()).at(place):
        raise UsageError(f"{str(path)!r} is not a folder, nor a file with runs of any tracker.")
