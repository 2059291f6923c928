"""``epochal serve`` and ``epochal hub serve``: runs live in the browser."""

from __future__ import annotations

import getpass
import ipaddress
import socket
import ssl
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epochal.api import serving
from epochal.cli import options
from epochal.cli.command import cli_command, rules_now, runs_dir, shared
from epochal.cli.hub_access import ROLES
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.settings import Settings, read_settings
from epochal.shipping.client import first_line
from epochal.store.lookup import is_address
from epochal.store.opening import is_bucket

if TYPE_CHECKING:
    from epochal.server.access import Role, TrustedProxy
    from epochal.server.process import TlsFiles

_FILE = click.Path(exists=True, dir_okay=False)
_NO_PAIR = "they are no pair of PEM files, or the key has a password"


def _address_options(function: Any) -> Any:
    for option in (
        click.option("--allow-host", metavar="NAME", multiple=True, help="Another host name."),
        click.option("--host", default="127.0.0.1", help="Address (127.0.0.1, this machine only)."),
        click.option("--port", type=int, help="Port (default: the setting server.port)."),
    ):
        function = option(function)
    return function


@cli_command
@click.argument("folders", metavar="[DIR]...", nargs=-1)
@_address_options
@click.option("--open", "opens", is_flag=True, help="Open the page in a browser.")
@click.option("--token-file", metavar="FILE", help="File with the token that clients must send.")
@click.option("--token", help="The token itself; other users see it in the process list.")
def command(
    folders: tuple[str, ...],
    port: int | None,
    host: str,
    allow_host: tuple[str, ...],
    opens: bool,
    token_file: str | None,
    token: str | None,
) -> None:
    """Follow runs live in the browser, until Ctrl-C.

    DIR is a folder of runs, of Epochal or of another tracker, or a bucket of a hub. Other machines
    can reach the page with --host 0.0.0.0; the printed address then has a token, which the settings
    or --token-file may choose. If a server for the same folders is running already, its address is
    printed.
    """
    if any(is_address(path) and not is_bucket(path) for path in folders):
        raise UsageError("serve shows folders of this machine or a bucket, not other addresses.")
    settings = read_settings()
    rules_now()  # says what is wrong with a file before a page is up
    places, follow_links = _places(folders), shared().follow_links
    server = serving.find_address(
        places,
        port=settings.server_port if port is None else port,
        host=host,
        token=_token(token, token_file, settings),
        allow_hosts=allow_host,
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
        serving.serve(places, server, on_ready=print_address, follow_links=follow_links)
    except KeyboardInterrupt:
        remark("Stopped.")


def _token(token: str | None, token_file: str | None, settings: Settings) -> str | None:
    if token_file is not None:
        return first_line(token_file, "--token-file")
    given = token or settings.server_token
    if given is not None or settings.server_token_file is None:
        return given
    return first_line(settings.server_token_file, str(settings.sources["server_token_file"]))


def _places(folders: tuple[str, ...]) -> list[str | Path]:
    given = folders or tuple(filter(None, [shared().dir]))
    if any(map(is_bucket, given)):
        return [*given]
    if not folders:
        folder = runs_dir()
        if not folder.is_dir():
            remark(f"There is no folder {str(folder)!r} yet; its runs will appear when it exists.")
        return [folder]
    from epochal.store.local.catalog import check_place

    for path in folders:
        check_place(path)
    return [Path(path).expanduser() for path in folders]


def _say(server: serving.ServerAddress, folders: Sequence[str | Path]) -> None:
    from epochal.server.address import is_loopback

    if server.moved_from is not None:
        remark(f"Port {server.moved_from} is in use; using {server.port} instead.")
    remark(f"Serving {', '.join(map(str, folders))} (Ctrl-C stops)")
    for url in _urls(server):
        say(url, flush=True)
    if is_loopback(server.host):
        where = f"{getpass.getuser()}@{socket.gethostname()}"
        there = f"[{server.host}]" if ":" in server.host else server.host
        tunnel = f"ssh -N -L {server.port}:{there}:{server.port} {where}"
        remark(f"From another machine: {tunnel}, then the same address there.")
    else:
        remark("This address contains the token: everyone who has it can see every run.")


def _urls(server: serving.ServerAddress) -> list[str]:
    """Where a server is found: at each address of this machine if it listens at all of them."""
    from epochal.server.address import own_addresses, url_of

    if server.host not in ("0.0.0.0", "::"):
        return [server.url]
    hosts = own_addresses() or ["127.0.0.1"]
    return [url_of(host, server.port, token=server.token) for host in hosts]


# -- hub serve ------------------------------------------------------------------------------------


@cli_command
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@_address_options
@click.option("--catalog", metavar="ADDRESS", help="PostgreSQL database, shared by several hubs.")
@click.option("--bucket", metavar="ADDRESS", help="Its bucket (s3://, gs://, abfs://) or folder.")
@click.option("--max-size", type=options.SIZE, help="Store at most so much, such as 500GB.")
@click.option("--quota", type=options.SIZE, help="Store at most so much of each token's runs.")
@click.option("--tls-cert", type=_FILE, help="Serve over TLS with this certificate.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate.")
@click.option("--user-header", help="Header in which a proxy names the person it signed in.")
@click.option("--trust", metavar="ADDRESS", multiple=True, help="Address or network of that proxy.")
@click.option("--user-role", type=ROLES, default="read", help="What its people may do (read).")
@click.option("--allow-control", is_flag=True, help="Let the role write stop trainings from here.")
def serve(
    folder: Path | None,
    catalog: str | None,
    bucket: str | None,
    port: int | None,
    host: str,
    allow_host: tuple[str, ...],
    max_size: float | None,
    quota: float | None,
    tls_cert: str | None,
    tls_key: str | None,
    user_header: str | None,
    trust: tuple[str, ...],
    user_role: Role,
    allow_control: bool,
) -> None:
    """Receive runs from other machines and show them live, until Ctrl-C.

    A hub keeps the runs in the folder DIR. Several hubs share a database and a bucket instead:
    --catalog postgresql://USER@HOST/NAME --bucket s3://BUCKET/PREFIX. [retention] in
    DIR/epochal.toml decides which runs go to the trash; for several hubs see 'hub retention'.
    """
    from epochal.hub.limits import Limits
    from epochal.hub.opening import open_folder_hub, open_shared_hub
    from epochal.hub.serving import serve_hub

    limits = Limits(max_size, quota)
    tls, proxy = _tls(tls_cert, tls_key), _proxy(user_header, trust, user_role)
    if (catalog is None) == (folder is None) or (catalog is None and bucket is not None):
        raise UsageError("name the folder DIR of the hub, or --catalog with --bucket.")
    if catalog is not None:
        hub = open_shared_hub(catalog, bucket, limits=limits, tell=_tell)
    else:
        assert folder is not None
        root = folder.expanduser()
        hub = open_folder_hub(root, limits=limits, tell=_tell)
    with hub as opened:
        server = serving.find_address(
            [opened.place],
            port=read_settings().server_port if port is None else port,
            host=host,
            allow_hosts=allow_host,
            may_move=False,
        )
        if server.listening is None:
            raise UsageError(f"a server of these runs is already running at {server.url}.")
        ledger = opened.ledger
        first = None if ledger.tokens() else ledger.add_token("admin", "admin")
        try:
            serve_hub(
                opened.runs,
                ledger,
                server,
                proxy=proxy,
                tls=tls,
                allow_control=allow_control,
                tasks=opened.tasks,
                on_ready=lambda: _greet(opened.place, server, first, is_tls=tls is not None),
            )
        except KeyboardInterrupt:
            remark("Stopped.")


def _tell(line: str) -> None:
    say(line, flush=True)


def _greet(
    place: str, server: serving.ServerAddress, first_token: str | None, *, is_tls: bool
) -> None:
    urls = [url.partition("?")[0] for url in _urls(server)]
    urls = [url.replace("http://", "https://", 1) if is_tls else url for url in urls]
    remark(f"The hub keeps runs in {place} (Ctrl-C stops)")
    for url in urls:
        say(url, flush=True)
    if first_token is not None:
        remark("Its first token, for the role admin, is shown only now:")
        say(first_token, flush=True)
        remark(f"Its page: {urls[0]}?token={first_token}")
    remark(f"A token for a machine: epochal hub token add NAME --role write --hub {place}")


def _tls(certificate: str | None, key: str | None) -> TlsFiles | None:
    from epochal.server.process import TlsFiles

    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise UsageError("--tls-cert and --tls-key belong together.")
    try:
        # A key with a password would be asked for at a terminal that a service does not have.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        raise UsageError(f"--tls-cert {certificate}, --tls-key {key}: {_NO_PAIR}.") from error
    return TlsFiles(certificate, key)


def _proxy(header: str | None, trusted: tuple[str, ...], role: Role) -> TrustedProxy | None:
    from epochal.server.access import TrustedProxy

    if header is None and not trusted:
        return None
    if not trusted:
        raise UsageError("--user-header needs --trust: the address of the proxy that sets it.")
    try:
        networks = tuple(ipaddress.ip_network(address, strict=False) for address in trusted)
    except ValueError as error:
        raise UsageError(f"--trust: {error}.") from error
    return TrustedProxy(header, networks, role)
