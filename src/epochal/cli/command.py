"""What a command is, and what all of them share.

A command is a module of this folder with two functions, and a line in ``main.COMMANDS``::

    def configure(parser: argparse.ArgumentParser) -> None:   its own arguments
    def run(args: argparse.Namespace) -> int:                 0 done, 1 a problem was found

``--dir``, ``--follow-links``, ``-v`` and ``--quiet`` are every command's already. Everything is
printed through ``output``. Whatever a person can put right is raised as an ``EpochalError``:
``main`` prints its sentence.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import RunFolder
from epochal.settings import cache_folder, read_settings
from epochal.settings.kinds import read_age, read_size

if TYPE_CHECKING:
    from epochal.health.rule_settings import RuleSettings
    from epochal.store.local.run import LocalRun
    from epochal.store.local.store import LocalStore
    from epochal.store.store import RunView, Store
    from epochal.store.unfinished import Unfinished

# What more RUN may be, for commands that read many runs.
WHOLE_PROJECTS = "; a project or a folder of runs selects all runs in it"


class Command(Protocol):
    """A module that is a command."""

    def configure(self, parser: argparse.ArgumentParser) -> None:
        """Add the command's own arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Do it; the exit code."""


def add_run(
    parser: argparse.ArgumentParser, several: bool = False, optional: bool = False, more: str = ""
) -> None:
    """Add the argument RUN, or RUN… where a command takes several; ``more`` ends the help."""
    what = f"id, start of an id, name, project/name, or folder of a run{more}"
    if several:
        parser.add_argument("runs", metavar="RUN", nargs="*" if optional else "+", help=what)
    else:
        parser.add_argument("run", metavar="RUN", help=what)


def add_where(parser: argparse.ArgumentParser) -> None:
    """Add ``--where``, which selects runs by a query in place of naming them."""
    parser.add_argument(
        "--where",
        metavar="QUERY",
        help="every run that a query selects, such as 'status == \"failed\"'; not with RUN",
    )


def chosen_runs(
    store: LocalStore, keys: Sequence[str], where: str | None, *, usage: str
) -> list[LocalRun]:
    """The runs that RUN… or ``--where`` mean, each once; ``usage`` says what is accepted."""
    if where is None and not keys:
        raise UsageError(f"no run is named: {usage}.")
    if where is not None:
        if keys:
            raise UsageError(f"RUN and --where exclude each other: {usage}.")
        runs = list(store.runs(where))
        if not runs:
            raise UsageError(f"no run matches {where!r}.")
        return runs
    return list({view.place: view for view in map(store.run, keys)}.values())


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add ``--json``."""
    parser.add_argument("--json", action="store_true", help="print JSON for programs")


def runs_dir(args: argparse.Namespace) -> Path:
    """The folder of runs that is meant: ``--dir``, else as the settings say."""
    return Path(getattr(args, "dir", None) or read_settings().dir)


def follows_links(args: argparse.Namespace) -> bool:
    """Whether links that lead out of the folder of runs are followed."""
    return bool(getattr(args, "follow_links", False))


def store_of(args: argparse.Namespace) -> LocalStore:
    """The store over the folder of runs that is meant."""
    return store_at(runs_dir(args), args)


def store_at(folder: Path, args: argparse.Namespace) -> LocalStore:
    """The store over a folder of runs."""
    from epochal.store.local.store import LocalStore

    return LocalStore(
        folder, cache=cache_folder(), follow_links=follows_links(args), rules=rules_now()
    )


def rules_now() -> RuleSettings:
    """What the settings say about rules; a mistake in a file raises ``UsageError``."""
    from epochal.health.rule_settings import rule_settings

    return rule_settings(read_settings())


def add_unfinished(parser: argparse._ActionsContainer) -> None:
    """Add ``--unfinished``."""
    parser.add_argument(
        "--unfinished", action="store_true", help="include runs that have not finished"
    )


def unfinished_text(found: Unfinished) -> str:
    """The sentence about unfinished runs, and how to include them; empty without any."""
    if not found.left_out:
        return found.sentence
    them = "it" if len(found.runs) == 1 else "them"
    return f"{found.sentence} Use --unfinished to include {them}."


def add_hub_reading(parser: argparse.ArgumentParser) -> None:
    """Add ``--hub``, by which a command reads runs of a hub in place of a folder."""
    parser.add_argument(
        "--hub",
        nargs="?",
        const="",
        metavar="URL",
        help="read the runs of a hub or a server (without URL: the setting hub.url)",
    )


def hub_folder(given: str) -> Path:
    """The folder of the hub that ``--hub DIR`` names; there its tokens and its log are."""
    if "://" in given:
        raise UsageError(
            f"--hub: {given!r} is an address: run this where the hub runs, with its folder."
        )
    root = Path(given).expanduser()
    if not root.is_dir():
        raise UsageError(f"--hub: there is no folder {root}.")
    return root


def command_user() -> str:
    """Who changes a hub with a command, as its audit log names them."""
    from epochal.run.provenance import user_name

    return f"{user_name() or 'someone'} (command line)"


@contextlib.contextmanager
def reading_store(args: argparse.Namespace) -> Iterator[Store]:
    """The store that a command reads: ``--hub``, else the folder of runs."""
    if getattr(args, "hub", None) is None:
        with store_of(args) as store:
            yield store
        return
    from epochal.store.remote.store import hub_address, open_remote

    with open_remote(hub_address(args.hub), rules=rules_now()) as remote:
        yield remote


def named_runs(store: Store, args: argparse.Namespace) -> list[RunView]:
    """The runs that RUN… means in the store of ``reading_store``; a project means all in it."""
    if getattr(args, "hub", None) is None:
        return list(runs_of(args))
    found: list[RunView] = []
    for key in args.runs:
        try:
            found.append(store.run(key))
        except EpochalError:
            inside = [run for run in store.known_runs().runs if run.outline().project == key]
            shown = [run for run in inside if not run.outline().hidden]
            if not shown:
                raise
            found += shown
    return found


def run_of(args: argparse.Namespace) -> LocalRun:
    """The run that the argument RUN means."""
    return store_of(args).run(args.run)


def runs_of(args: argparse.Namespace) -> list[LocalRun]:
    """The runs that RUN… means; a project or a folder of runs means all in it but hidden ones."""
    store = store_of(args)
    found: list[LocalRun] = []
    for key in args.runs:
        folder = Path(key).expanduser()
        try:
            found.append(store.run(key))
        except EpochalError:
            inside = [run for run in store.runs() if run.outline().project == key]
            if not inside and folder.is_dir():
                inside = list(store_at(folder, args).runs())
            shown = [run for run in inside if not run.outline().hidden]
            if not shown:
                raise
            found += shown
    return found


def own_folder_of(args: argparse.Namespace) -> RunFolder:
    """The folder of the run that RUN means; refused for runs in other trackers' files."""
    view = run_of(args)
    check_own(view)
    return RunFolder(view.path)


def check_own(view: LocalRun) -> None:
    """Raise ``UsageError`` for a run in another tracker's files."""
    if view.tracker is not None:
        raise UsageError(
            f"{view.outline().name!r} lies in files of {view.tracker}, which are only read:"
            f" 'epochal import {view.path}' makes a run of ours of it."
        )


def age(text: str) -> float:
    """Seconds of an age such as ``30d``, ``12h`` or ``2w``."""
    return _argument(text, read_age)


def size(text: str) -> float:
    """Bytes of a size such as ``50GB`` or ``800MiB``."""
    return _argument(text, read_size)


def _argument(text: str, read: Callable[[str], float]) -> float:
    try:
        return read(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} {error}") from error


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
