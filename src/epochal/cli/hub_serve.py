"""``epochal hub serve``: receive runs from other machines and show them live."""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochal.cli.command import SIZE, cli_command
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.settings import read_settings

if TYPE_CHECKING:
    from epochal.server.access import Role, TrustedProxy
    from epochal.server.process import TlsFiles
    from epochal.serving import ServerAddress

_FILE = click.Path(exists=True, dir_okay=False)


@cli_command
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--port", type=int, help="Port to listen on (default: the setting server.port).")
@click.option("--host", default="127.0.0.1", help="Address to listen on (127.0.0.1).")
@click.option("--max-size", type=SIZE, help="Store at most so much, such as 500GB.")
@click.option("--quota", type=SIZE, help="Store at most so much of each token's runs.")
@click.option("--tls-cert", type=_FILE, help="Serve over TLS with this certificate.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate.")
@click.option("--user-header", help="Header in which a proxy names the person it signed in.")
@click.option("--trust", metavar="ADDRESS", multiple=True, help="Address or network of that proxy.")
@click.option(
    "--user-role",
    type=click.Choice(("read", "write", "admin")),
    default="read",
    help="What people of that proxy may do (read).",
)
@click.option("--allow-control", is_flag=True, help="Let the role write stop trainings from here.")
@click.option("--allow-host", metavar="NAME", multiple=True, help="Another host name of the hub.")
def serve(
    folder: Path,
    port: int | None,
    host: str,
    max_size: float | None,
    quota: float | None,
    tls_cert: str | None,
    tls_key: str | None,
    user_header: str | None,
    trust: tuple[str, ...],
    user_role: Role,
    allow_control: bool,
    allow_host: tuple[str, ...],
) -> None:
    """Receive runs from other machines into DIR and show them live, until Ctrl-C.

    [retention] in DIR/epochal.toml decides which runs go to the trash.
    """
    from epochal.hub.ledger import Ledger, only_hub
    from epochal.hub.limits import Budget
    from epochal.hub.retention import read_rules
    from epochal.hub.serving import serve_hub
    from epochal.serving import find_address

    tls, proxy = _tls(tls_cert, tls_key), _proxy(user_header, trust, user_role)
    root = folder.expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with only_hub(root), closing(Ledger(root)) as ledger:
        retention = read_rules(root)
        port = read_settings().server_port if port is None else port
        server = find_address([root], port=port, host=host, allow_hosts=allow_host, may_move=False)
        if server.listening is None:
            raise UsageError(f"a server of this folder is already running at {server.url}.")
        first = None if ledger.tokens() else ledger.add_token("admin", "admin")
        try:
            serve_hub(
                root,
                ledger,
                server,
                Budget(root, ledger, most=max_size, most_per_writer=quota),
                proxy=proxy,
                tls=tls,
                allow_control=allow_control,
                retention=retention,
                tell=lambda line: say(line, flush=True),
                on_ready=lambda: _greet(root, _urls(server, is_tls=tls is not None), first),
            )
        except KeyboardInterrupt:
            remark("Stopped.")


def _greet(root: Path, urls: list[str], first_token: str | None) -> None:
    remark(f"The hub keeps runs in {root} (Ctrl-C stops)")
    for url in urls:
        say(url, flush=True)
    if first_token is not None:
        remark("Its first token, for the role admin, is shown only now:")
        say(first_token, flush=True)
        remark(f"Its page: {urls[0]}?token={first_token}")
    remark(f"A token for a machine: epochal hub token add NAME --role write --hub {root}")


def _urls(server: ServerAddress, *, is_tls: bool) -> list[str]:
    """Where the hub is found: at each address of this machine when it listens at all of them."""
    from epochal.server.address import own_addresses, url_of

    is_any = server.host in ("0.0.0.0", "::")
    hosts = own_addresses() or ["127.0.0.1"] if is_any else [server.host]
    urls = [url_of(host, server.port) for host in hosts]
    return [url.replace("http://", "https://", 1) for url in urls] if is_tls else urls


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
        raise UsageError(
            f"--tls-cert {certificate}, --tls-key {key}: one of them is not a PEM file of its kind,"
            " they do not belong together, or the key has a password."
        ) from error
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
