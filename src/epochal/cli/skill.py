"""What coding agents use: ``epochal skill``, the page that teaches them, and ``epochal mcp``."""

from __future__ import annotations

from pathlib import Path

import click

from epochal.cli import options
from epochal.cli.command import cli_command, reading_store
from epochal.cli.output import remark, say
from epochal.errors import MissingPackageError

PAGE = Path(__file__).with_name("SKILL.md")
_PLACES = "Claude Code reads .claude/skills and ~/.claude/skills, other agents .agents/skills."


@cli_command
@click.option("--install", metavar="DIR", help=f"Write DIR/epochal/SKILL.md instead. {_PLACES}")
def command(install: str | None) -> None:
    """Print the page that teaches coding agents to train with Epochal.

    \b
    epochal skill --install .claude/skills
    """
    text = PAGE.read_text(encoding="utf-8")
    if install is None:
        say(text.rstrip("\n"))
        return
    page = Path(install).expanduser() / "epochal" / PAGE.name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")
    remark(f"Wrote {page}. {_PLACES}")


@cli_command
@options.hub
def mcp() -> None:
    """Answer questions of coding agents over the Model Context Protocol.

    Agents start this command themselves and talk to it over stdin and stdout. The tools only read.

    \b
    claude mcp add epochal -- epochal mcp --dir /path/to/runs
    """
    try:
        from epochal.server.mcp import make_server
    except ModuleNotFoundError as error:
        raise MissingPackageError("epochal mcp", error, extra="mcp") from error
    with reading_store() as store:
        make_server(store).run("stdio")
