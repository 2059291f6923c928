"""Names, tags and notes that people give to runs: ``tag``, ``note``, ``manage rename|hide``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from epochal.cli.command import (
    RUN,
    cli_command,
    json_option,
    local_store,
    runs_argument,
    selected_runs,
    where_option,
)
from epochal.cli.output import one_line, remark, say, say_json
from epochal.errors import UsageError
from epochal.store.label_edits import tag_edit
from epochal.store.local.run import LocalRun


@cli_command
@click.argument("words", metavar="[RUN] [TAG]...", nargs=-1, type=RUN)
@click.option("-a", "--add", metavar="TAG", multiple=True, help="Add a tag to every RUN.")
@click.option("-r", "--remove", metavar="TAG", multiple=True, help="Remove a tag.")
@where_option
@json_option
def tag(
    words: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    where: str | None,
    as_json: bool,
) -> None:
    """Add tags to a run, or remove them; without TAG, print the tags.

    With --add, every word is a run; with --where, every word is a tag.
    """
    keys, tags = ((), words) if where is not None else (words, ()) if add else _split(words)
    tags = (*tags, *add)
    if "" in tags:
        raise UsageError("TAG must not be empty.")
    with local_store() as store:
        views = selected_runs(store, keys, where)
        for name in remove if len(views) == 1 else ():
            if name not in views[0].outline().tags:
                raise UsageError(f"{views[0].outline().name!r} has no tag {name!r} to remove.")
        for view in views if tags or remove else ():
            view.relabel(tag_edit(view, add=tags, remove=remove))
        if as_json:
            _print_json(views, where)
        elif not tags and not remove:
            for name in (name for view in views for name in view.outline().tags):
                say(one_line(name))
        elif len(views) == 1:
            now = views[0].outline().tags
            word = "the tag" if len(now) == 1 else "the tags" if now else "no tags"
            remark(f"{_name(views[0])} has {word} {', '.join(now)}".rstrip() + ".")
        else:
            changes = (("added", tags), ("removed", remove))
            done = [f"{verb} {', '.join(names)}" for verb, names in changes if names]
            remark(f"{len(views):,} runs: {'; '.join(done)}.")


@cli_command
@click.argument("words", metavar="[RUN] [TEXT]...", nargs=-1, type=RUN)
@click.option("-t", "--text", help="The new note of every RUN.")
@where_option
@json_option
def note(words: tuple[str, ...], text: str | None, where: str | None, as_json: bool) -> None:
    """Write the note of a run; '' removes it. Without TEXT, print the note.

    With --text, every word is a run; with --where, every word belongs to the text.
    """
    keys, rest = (
        ((), words) if where is not None else (words, ()) if text is not None else _split(words)
    )
    text = " ".join(rest) if rest else text
    with local_store() as store:
        views = selected_runs(store, keys, where)
        for view in views if text is not None else ():
            view.relabel(lambda labels: replace(labels, notes=text))
        if as_json:
            _print_json(views, where)
        elif text is not None:
            what = f"{_name(views[0])} has" if len(views) == 1 else f"{len(views):,} runs have"
            remark(f"{what} the note: {text}" if text else f"{what} no note.")
        for view in views if text is None and not as_json else ():
            if notes := view.outline().notes:
                say(notes if len(views) == 1 else f"{_name(view)}: {notes}")


@cli_command
@click.argument("run", type=RUN)
@click.argument("name")
@json_option
def rename(run: str, name: str, as_json: bool) -> None:
    """Show a run under another name; an empty NAME restores the original one.

    The folder of the run and what was recorded stay as they are.
    """
    with local_store() as store:
        view = store.run(run)
        old = view.outline().name
        view.relabel(lambda labels: replace(labels, name=name or None))
        if as_json:
            say_json(view.info)
        else:
            remark(f"{old!r} is now {view.outline().name!r}.")


@cli_command
@runs_argument
@where_option
@click.option("--undo", is_flag=True, help="Show the runs again.")
@json_option
def hide(runs: tuple[str, ...], where: str | None, undo: bool, as_json: bool) -> None:
    """Leave runs out of lists, or show them again; the runs themselves do not change."""
    with local_store() as store:
        views = selected_runs(store, runs, where)
        for view in views:
            view.relabel(lambda labels: replace(labels, hidden=not undo))
        if as_json:
            say_json([view.info for view in views])
            return
        what = f"{_name(views[0])} is" if len(views) == 1 else f"{len(views):,} runs are"
        if undo:
            remark(f"{what} shown again.")
        else:
            remark(f"{what} hidden. 'epochal ls --all' lists hidden runs.")


def _split(words: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The run that is named first, and the words after it."""
    return words[:1], words[1:]


def _name(view: LocalRun) -> str:
    row = view.outline()
    return f"{row.project}/{row.name}"


def _print_json(views: Sequence[LocalRun], where: str | None) -> None:
    infos = [view.info for view in views]
    say_json(infos[0] if len(infos) == 1 and where is None else infos)
