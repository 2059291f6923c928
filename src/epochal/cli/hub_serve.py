"""``epochal hub serve``: receive runs from other machines and show them live."""

from __future__ import annotations

import ipaddress
import ssl
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from epochal.cli.command import DURATION, SIZE, cli_command
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.settings import read_settings

if TYPE_CHECKING:
    from epochal.server.access import TrustedProxy
    from epochal.server.process import TlsFiles
    from epochal.serving import ServerAddress

_FILE = click.Path(exists=True, dir_okay=False)


@cli_command
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--port", type=int, help="Port to listen on (default: the setting server.port).")
@click.option("--host", default="127.0.0.1", help="Address to listen on (default: 127.0.0.1).")
@click.option("--max-size", type=SIZE, help="Store at most so much, such as 500GB.")
@click.option("--quota", type=SIZE, help="Store at most so much of each token's runs.")
@click.option(
    "--trash-after",
    type=DURATION,
    help="Move runs to the trash of which nothing was received for so long, such as 90d.",
)
@click.option(
    "--erase-after",
    type=DURATION,
    help="Erase what has been in the trash for so long (default: never).",
)
@click.option("--keep-tagged", is_flag=True, help="Keep every run with a tag, however old.")
@click.option("--tls-cert", type=_FILE, help="Serve over TLS with this certificate.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate.")
@click.option(
    "--user-header",
    metavar="NAME",
    help="Header in which a trusted proxy names the person it signed in.",
)
@click.option(
    "--trust",
    metavar="ADDRESS",
    multiple=True,
    help="Address or network of a proxy, such as 10.0.0.1, whose X-Forwarded-For names clients.",
)
@click.option(
    "--user-role",
    type=click.Choice(("read", "write", "admin")),
    default="read",
    help="What people of that proxy may do (default: read).",
)
@click.option(
    "--allow-control",
    is_flag=True,
    help="Let people with the role write stop, suspend and continue trainings from here.",
)
@click.option(
    "--allow-host",
    metavar="NAME",
    multiple=True,
    help="Another host name of the hub, for example behind a proxy.",
)
def serve(
    folder: Path,
    port: int | None,
    host: str,
    max_size: float | None,
    quota: float | None,
    trash_after: float | None,
    erase_after: float | None,
    keep_tagged: bool,
    tls_cert: str | None,
    tls_key: str | None,
    user_header: str | None,
    trust: tuple[str, ...],
    user_role: str,
    allow_control: bool,
    allow_host: tuple[str, ...],
) -> None:
    """Receive runs from other machines into DIR and show them live, until Ctrl-C."""
    from epochal.hub.ledger import Ledger, only_hub
    from epochal.hub.limits import Budget
    from epochal.hub.retention import read_rules
    from epochal.hub.serving import serve_hub
    from epochal.serving import find_address

    tls, proxy = _tls(tls_cert, tls_key), _proxy(user_header, trust, user_role)
    root = folder.expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with only_hub(root), closing(Ledger(root)) as ledger:
        retention = read_rules(
            root, trash_after_s=trash_after, erase_after_s=erase_after, keep_tagged=keep_tagged
        )
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
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"--tls-key: {key} is not the key of {certificate}.") from error
        raise UsageError(
            f"--tls-cert {certificate}, --tls-key {key}: one of them is not a PEM file of its kind,"
            " or the key has a password."
        ) from error
    return TlsFiles(certificate, key)


def _proxy(header: str | None, trusted: tuple[str, ...], role: str) -> TrustedProxy | None:
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
