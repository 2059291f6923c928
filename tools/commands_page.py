"""Writes docs/reference/commands.md from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from epochal.cli.command import Command, Group
from epochal.cli.main import program

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"
INTRODUCTION = """# Commands

This page is printed by the program (`make docs`); `epochal COMMAND --help` prints the
same. `RUN` is a name, `project/name`, an id or its beginning, a folder, `latest` or
`latest:PROJECT`. Without it, commands about one run take the newest one, and say which. Every
command also has the options of the first list: `--dir`, `--follow-links`, `--verbose`, `--quiet`.

| exit code | meaning |
|---|---|
| 0 | everything is fine, or the run has ended |
| 1 | there are findings: an error or an open warning |
| 2 | the command was called wrongly, or something else failed |
| 3 | a timeout |
| 4 | the condition of `wait --until` is met |
| 130 | interrupted |
"""


def help_of(command: click.Command, path: str, *, is_whole: bool = False) -> str:
    """The help of a command; only the first has the options of all commands."""
    shared = {"help", *(parameter.name for parameter in Command("any").params)}
    params, command.params = command.params, []
    command.params = [one for one in params if is_whole or one.name not in shared]
    command.add_help_option = is_whole
    try:
        context = command.make_context(
            path, [], resilient_parsing=True, terminal_width=100, max_content_width=100
        )
        return command.get_help(context).rstrip()
    finally:
        command.params, command.add_help_option = params, True


def sections(group: Group, path: str) -> Iterator[str]:
    """A section for each command; the commands of a group follow it."""
    with click.Context(group, info_name=path) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield f"## {path} {name}\n\n```\n{help_of(command, f'{path} {name}')}\n```"
            if isinstance(command, Group):
                yield from sections(command, f"{path} {name}")


def page() -> str:
    first = f"```\n{help_of(program, 'epochal', is_whole=True)}\n```"
    return "\n".join(f"{part}\n" for part in (INTRODUCTION, first, *sections(program, "epochal")))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
