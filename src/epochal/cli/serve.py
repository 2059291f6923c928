"""``epochal serve``: the live page over one or many folders of runs."""

from __future__ import annotations

import getpass
import socket
import webbrowser
from collections.abc import Sequence
from pathlib import Path

import click

from epochal.cli.command import cli_command, rules_now, runs_dir, shared
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.serving import ServerAddress, find_address, serve
from epochal.settings import Settings, read_settings
from epochal.shipping.client import first_line
from epochal.store.lookup import is_address


@cli_command
@click.argument("folders", metavar="[DIR]...", nargs=-1)
@click.option("--port", type=int, help="Port (default: the setting server.port, or a free one).")
@click.option(
    "--host", default="127.0.0.1", help="Address (default: 127.0.0.1, this machine only)."
)
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--token-file", metavar="FILE", help="File with the token that clients must send.")
@click.option("--token", help="The token itself; other users see it in the process list.")
@click.option(
    "--allow-host",
    "allow_hosts",
    metavar="NAME",
    multiple=True,
    help="Another name of the server, for example behind a proxy.",
)
def command(
    folders: tuple[str, ...],
    port: int | None,
    host: str,
    opens: bool,
    token_file: str | None,
    token: str | None,
    allow_hosts: tuple[str, ...],
) -> None:
    """Follow runs live in the browser, until Ctrl-C.

    DIR is a folder of runs, of Epochal or of another tracker. Other machines can reach the page
    with --host 0.0.0.0; the printed address then has a token, which the settings or --token-file
    may choose. If a server for the same folders is running already, its address is printed.
    """
    if any(map(is_address, folders)):
        raise UsageError("serve shows folders of this machine, not addresses.")
    settings = read_settings()
    rules_now()  # says what is wrong with a file before a page is up
    places, follow_links = _places(folders), shared().follow_links
    server = find_address(
        places,
        port=settings.server_port if port is None else port,
        host=host,
        token=_token(token, token_file, settings),
        allow_hosts=list(allow_hosts),
        may_move=port is None,
        follow_links=follow_links,
    )

    def print_address() -> None:
        if server.listening is None:
            remark("A server for these runs is already running:")
            say(server.url, flush=True)
        else:
            _say(server, places)
        if opens and not webbrowser.open(server.url):
            remark("Cannot open a browser.")

    if server.listening is None:
        print_address()
        return
    try:
        serve(places, server, on_ready=print_address, follow_links=follow_links)
    except KeyboardInterrupt:
        remark("Stopped.")


def _token(token: str | None, token_file: str | None, settings: Settings) -> str | None:
    if token is not None and token_file is not None:
        raise UsageError("give --token or --token-file, not both.")
    if token_file is not None:
        return first_line(token_file, "--token-file")
    given = token or settings.server_token
    if given is not None or settings.server_token_file is None:
        return given
    return first_line(settings.server_token_file, str(settings.sources["server_token_file"]))


def _places(folders: Sequence[str]) -> list[Path]:
    if not folders:
        folder = runs_dir()
        if not folder.is_dir():
            remark(f"There is no folder {str(folder)!r} yet; its runs will appear when it exists.")
        return [folder]
    from epochal.store.local.load import check_place

    for path in folders:
        check_place(path)
    return [Path(path).expanduser() for path in folders]


def _say(server: ServerAddress, folders: list[Path]) -> None:
    from epochal.server.address import is_loopback, own_addresses, url_of

    if server.moved_from is not None:
        remark(f"Port {server.moved_from} is in use; using {server.port} instead.")
    remark(f"Serving {', '.join(map(str, folders))} (Ctrl-C stops)")
    if is_loopback(server.host):
        say(server.url, flush=True)
        where = f"{getpass.getuser()}@{socket.gethostname()}"
        there = f"[{server.host}]" if ":" in server.host else server.host
        tunnel = f"ssh -N -L {server.port}:{there}:{server.port} {where}"
        remark(f"From another machine: {tunnel}, then the same address there.")
        return
    is_any = server.host in ("0.0.0.0", "::")
    hosts = own_addresses() or ["127.0.0.1"] if is_any else [server.host]
    for address in hosts:
        say(url_of(address, server.port, token=server.token), flush=True)
    remark("This address contains the token: everyone who has it can see every run.")
