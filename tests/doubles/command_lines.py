"""Reads command lines as ``epochal`` does, without running them."""

from __future__ import annotations

from collections.abc import Sequence

import click

from epochal.cli.command import Shared
from epochal.cli.main import program


def understood(words: Sequence[str]) -> str:
    """The command that the words after ``epochal`` mean; raises ``click.UsageError``."""
    command: click.Command | None = program
    path, rest = "epochal", list(words)
    context: click.Context | None = None
    while command is not None:
        try:
            context = command.make_context(path, rest, parent=context, obj=Shared())
        except click.BadParameter as error:
            if "does not exist" not in str(error):  # a file or folder of the reader
                raise
            break
        if not isinstance(command, click.Group):
            break
        name, command, rest = command.resolve_command(
            context, [*context._protected_args, *context.args]
        )
        path = name or ""
    return path
