"""Names, tags and notes that people give to runs: ``tag``, ``note``, ``manage rename|hide``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import click

from epochal.cli import options
from epochal.cli.command import data_command, full_name, local_store, run_of, selected_runs
from epochal.cli.output import answer, form, one_line, remark, say, say_json
from epochal.errors import UsageError
from epochal.store.run import RunView
from epochal.store.store import tag_edit

_Words = tuple[str, ...]


@data_command
@click.argument("words", metavar="[RUN] [TAG]...", nargs=-1, type=options.RUN)
@click.option("-a", "--add", metavar="TAG", multiple=True, help="Add a tag to every RUN.")
@click.option("-r", "--remove", metavar="TAG", multiple=True, help="Remove a tag.")
@options.where
def tag(words: _Words, add: _Words, remove: _Words, where: str | None) -> None:
    """Add tags to a run, or remove them; without TAG, print the tags.

    With --add, every word is a run; with --where, every word is a tag.
    """
    keys, added = _split(words, where, has_option=bool(add))
    added = (*added, *add)
    if "" in added:
        raise UsageError("TAG must not be empty.")
    views = selected_runs(local_store(), keys, where)
    for name in remove if len(views) == 1 else ():
        if name not in views[0].outline().tags:
            raise UsageError(f"{full_name(views[0])} has no tag {name!r} to remove.")
    for view in views if added or remove else ():
        view.relabel(tag_edit(view, add=added, remove=remove))
    if form() == "json":
        _print_json(views, where)
    elif not (added or remove):
        for name in (name for view in views for name in view.outline().tags):
            say(one_line(name))
    elif len(views) == 1:
        tags = views[0].outline().tags
        what = f"the tag{'s' * (len(tags) > 1)} {', '.join(tags)}" if tags else "no tags"
        remark(f"{_subject(views, 'has', 'have')} {what}.")
    else:
        changes = (("added", added), ("removed", remove))
        done = [f"{verb} {', '.join(names)}" for verb, names in changes if names]
        remark(f"{len(views):,} runs: {'; '.join(done)}.")


@data_command
@click.argument("words", metavar="[RUN] [TEXT]...", nargs=-1, type=options.RUN)
@click.option("-t", "--text", help="The new note of every RUN.")
@options.where
def note(words: _Words, text: str | None, where: str | None) -> None:
    """Write the note of a run; '' removes it. Without TEXT, print the note.

    With --text, every word is a run; with --where, every word belongs to the text.
    """
    keys, rest = _split(words, where, has_option=text is not None)
    text = " ".join(rest) if rest else text
    views = selected_runs(local_store(), keys, where)
    for view in views if text is not None else ():
        view.relabel(lambda labels: replace(labels, notes=text))
    if form() == "json":
        _print_json(views, where)
    elif text is not None:
        what = _subject(views, "has", "have")
        remark(f"{what} the note: {text}" if text else f"{what} no note.")
    else:
        for view in views:
            if notes := view.outline().notes:
                say(notes if len(views) == 1 else f"{full_name(view)}: {notes}")


@data_command
@click.argument("run", type=options.RUN)
@click.argument("name")
def rename(run: str, name: str) -> None:
    """Show a run under another name; an empty NAME restores the original one.

    The folder of the run and what was recorded stay as they are.
    """
    view = run_of(local_store(), run)
    old = view.outline().name
    view.relabel(lambda labels: replace(labels, name=name or None))
    answer(view.info, f"{old!r} is now {view.outline().name!r}.")


@data_command
@options.runs
@options.where
@click.option("--undo", is_flag=True, help="Show the runs again.")
def hide(runs: _Words, where: str | None, undo: bool) -> None:
    """Leave runs out of lists, or show them again; the runs themselves do not change."""
    views = selected_runs(local_store(), runs, where)
    for view in views:
        view.relabel(lambda labels: replace(labels, hidden=not undo))
    done = "shown again." if undo else "hidden. 'epochal ls --all' lists hidden runs."
    answer([view.outline() for view in views], f"{_subject(views, 'is', 'are')} {done}")


def _split(words: _Words, where: str | None, *, has_option: bool) -> tuple[_Words, _Words]:
    """The runs that are named, and the other words."""
    if where is not None:
        return (), words
    return (words, ()) if has_option else (words[:1], words[1:])


def _subject(views: Sequence[RunView], verb: str, of_several: str) -> str:
    return (
        f"{full_name(views[0])} {verb}" if len(views) == 1 else f"{len(views):,} runs {of_several}"
    )


def _print_json(views: Sequence[RunView], where: str | None) -> None:
    infos = [view.info for view in views]
    say_json(infos[0] if len(infos) == 1 and where is None else infos)
