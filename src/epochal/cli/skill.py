"""``epochal skill``: the page that teaches coding agents to use Epochal."""

from __future__ import annotations

from pathlib import Path

import click

from epochal.cli.command import cli_command
from epochal.cli.output import remark, say

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
