"""The folders of a run's checkpoints: its own, those in its journal, those in its options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from epochal.store.local.run import LocalRun
from epochal.torch.checkpoint.manifest import FOLDER, Manifest, list_manifests, pointed
from epochal.values import flat_items

# Settings by which programs are told where to save.
_SETTING = re.compile(r"((checkpoint|ckpt)s?|save|output|out)_?(dir|directory|folder|path|root)$")


def places_of(view: LocalRun) -> list[Path]:
    """The folders to look in, each once: the run's own, then those that it named itself."""
    own = view.path / FOLDER
    places = {own.absolute(): own}
    for place in (*_recorded(view), *_configured(view)):
        places.setdefault(place, place)
    return list(places.values())


def folders_of(view: LocalRun) -> list[Path]:
    """The folders with checkpoints of this run."""
    return [folder for folder in _candidates(view) if manifests_of(view, folder)]


def manifests_of(view: LocalRun, folder: Path) -> list[Manifest]:
    """The checkpoints in a folder, by step; outside the run's own only those that are of it."""
    manifests = list_manifests(folder)
    if folder == view.path / FOLDER:
        return manifests
    return [manifest for manifest in manifests if manifest.run_id == view.own_id]


def newest_checkpoint(view: LocalRun) -> tuple[Path, Manifest] | None:
    """The one to go on from, of all places; None when there is none that can be read."""
    found = [_latest(view, folder) for folder in folders_of(view)]
    return max(found, key=lambda one: one[1].saved, default=None)


def _latest(view: LocalRun, folder: Path) -> tuple[Path, Manifest]:
    manifests, name = manifests_of(view, folder), pointed(folder, "latest")
    newest = max(manifests, key=lambda manifest: manifest.saved)
    chosen = next((manifest for manifest in manifests if manifest.name == name), newest)
    return folder / chosen.name, chosen


def _candidates(view: LocalRun) -> list[Path]:
    """The places, and the folders in them that a run's checkpoints may be put into."""
    names = (view.path.name, str(view.facts.get("name")), FOLDER)
    inside = [place / name for place in places_of(view) for name in names]
    return list(dict.fromkeys([*places_of(view), *inside]))


def _recorded(view: LocalRun) -> Iterator[Path]:
    """Where each save was, as the journal has it; the newest first."""
    for entry in reversed(view.entries("event", name="checkpoint", rank=None)):
        path = entry.record.get("path")
        if isinstance(path, str) and path:
            yield _absolute(view, path).parent


def _configured(view: LocalRun) -> Iterator[Path]:
    """What settings and arguments say that sound like it."""
    command = view.facts.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    options = [(name, values[0]) for name, values in options_of(words) if values]
    for name, value in (*flat_items(view.config), *options):
        if isinstance(value, str) and value and _SETTING.search(name.lower()):
            yield _absolute(view, value)


def flag_name(word: str) -> str:
    """The name of an option, as a variable would be written."""
    return word.lstrip("-").partition("=")[0].replace("-", "_")


def options_of(words: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Options with the words that follow them, in order; none for a switch."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        if word.startswith("--"):
            _, has_value, value = word.partition("=")
            found.append((flag_name(word), [value] if has_value else []))
        elif found:
            found[-1][1].append(word)
    return found


def _absolute(view: LocalRun, path: str) -> Path:
    """A path as the program meant it, which may have run in another folder."""
    cwd = view.facts.get("cwd")
    return (Path(cwd) if isinstance(cwd, str) else Path.cwd()) / Path(path).expanduser()
