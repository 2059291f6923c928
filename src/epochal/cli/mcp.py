"""``epochal mcp``: answer questions of coding agents over the Model Context Protocol."""

from __future__ import annotations

from epochal.cli import options
from epochal.cli.command import cli_command, reading_store
from epochal.errors import MissingPackageError


@cli_command
@options.hub
def command() -> None:
    """Answer questions of coding agents over the Model Context Protocol.

    Agents start this command themselves and talk to it over stdin and stdout. The tools only read.

    \b
    claude mcp add epochal -- epochal mcp --dir /path/to/runs
    """
    try:
        from epochal.mcp.server import make_server
    except ModuleNotFoundError as error:
        raise MissingPackageError("epochal mcp", error, extra="mcp") from error
    with reading_store() as store:
        make_server(store).run("stdio")
