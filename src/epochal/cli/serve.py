"""``epochal serve``: the live page over one or many folders of runs."""

from __future__ import annotations

import argparse
import getpass
import importlib
import io
import socket
import sys
import webbrowser
from pathlib import Path
from typing import Any

from epochal.cli.command import follows_links, rules_now, runs_dir
from epochal.cli.output import remark, say
from epochal.console.messages import msg
from epochal.errors import UsageError
from epochal.serving import ServerAddress, find_address, serve
from epochal.settings import Settings, read_settings
from epochal.shipping.client import first_line
from epochal.store.lookup import is_address


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``serve``."""
    parser.add_argument(
        "folders",
        metavar="DIR",
        nargs="*",
        help="folders of runs, of Epochal or other trackers (default: --dir)",
    )
    parser.add_argument(
        "--port",
        type=int,
        help="port to listen on (default: the setting server.port, or the next free one)",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen on (default: 127.0.0.1, this machine only; others need a token)",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    token = parser.add_mutually_exclusive_group()
    token.add_argument(
        "--token-file",
        metavar="FILE",
        help="file whose first line is the token that clients must send"
        " (default: as the settings say, else made up)",
    )
    token.add_argument(
        "--token", help="the token itself; other users of this machine see it in the process list"
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name of the server, for example behind a proxy",
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C; 0 at once when a server of ours serves these folders already."""
    if any(map(is_address, args.folders)):
        raise UsageError("serve shows folders of this machine, not addresses.")
    settings = read_settings()
    rules_now()  # says what is wrong with a file before a page is up
    folders = _folders(args)
    server = find_address(
        folders,
        port=settings.server_port if args.port is None else args.port,
        host=args.host,
        token=_token(args, settings),
        allow_hosts=args.allow_host,
        may_move=args.port is None,
        follow_links=follows_links(args),
    )
    if server.listening is None:
        remark("A server for these runs is already running:")
        say(server.url, flush=True)
        _open(args, server)
        return 0

    def print_address() -> None:
        _say(server, folders)
        _open(args, server)

    try:
        serve(folders, server, on_ready=print_address, follow_links=follows_links(args))
    except KeyboardInterrupt:
        remark("Stopped.")
    return 0


def _token(args: argparse.Namespace, settings: Settings) -> str | None:
    if args.token_file is not None:
        return first_line(args.token_file, "--token-file")
    given = args.token or settings.server_token
    if given is not None or settings.server_token_file is None:
        return given
    return first_line(settings.server_token_file, str(settings.sources["server_token_file"]))


def _folders(args: argparse.Namespace) -> list[Path]:
    if not args.folders:
        folder = runs_dir(args)
        if not folder.is_dir():
            remark(f"There is no folder {str(folder)!r} yet; its runs will appear when it exists.")
        return [folder]
    from epochal.store.local.load import check_place

    for folder in args.folders:
        check_place(folder)
    return [Path(folder).expanduser() for folder in args.folders]


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
    urls = [url_of(host, server.port, token=server.token) for host in hosts]
    for url in urls:
        say(url, flush=True)
    remark("This address contains the token: everyone who has it can see every run.")
    _show_qr_code(urls[0])


def _show_qr_code(url: str) -> None:
    if not sys.stdout.isatty():
        return
    try:
        segno: Any = importlib.import_module("segno")
    except ModuleNotFoundError:
        remark("For a QR code: pip install segno.")
        return
    drawing = io.StringIO()
    segno.make(url, error="l").terminal(out=drawing, compact=True)
    msg("%s", drawing.getvalue())  # our own control codes


def _open(args: argparse.Namespace, server: ServerAddress) -> None:
    if args.open and not webbrowser.open(server.url):
        remark("Cannot open a browser.")
