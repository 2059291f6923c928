"""``epochal hub``: receive runs from other machines and show them live."""

from __future__ import annotations

import argparse
import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.cli.command import age, size
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.settings import read_settings

if TYPE_CHECKING:
    from epochal.server.access import TrustedProxy
    from epochal.server.process import TlsFiles
    from epochal.serving import ServerAddress


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hub``."""
    parser.add_argument("folder", metavar="DIR", help="the folder that holds the runs; it is made")
    parser.add_argument("--store", type=_refuse_store, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help="port to listen on (default: server.port)")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument(
        "--max-size", metavar="SIZE", type=size, help="store at most so much, such as 500GB"
    )
    parser.add_argument(
        "--quota", metavar="SIZE", type=size, help="store at most so much of each token's runs"
    )
    parser.add_argument(
        "--trash-after",
        metavar="AGE",
        type=age,
        help="move runs to the trash of which nothing was received for so long, such as 90d",
    )
    parser.add_argument(
        "--erase-after",
        metavar="AGE",
        type=age,
        help="erase what has been in the trash for so long (default: never)",
    )
    parser.add_argument(
        "--keep-tagged", action="store_true", help="keep every run with a tag, however old"
    )
    parser.add_argument("--tls-cert", metavar="FILE", help="serve over TLS with this certificate")
    parser.add_argument("--tls-key", metavar="FILE", help="the key of that certificate")
    parser.add_argument(
        "--user-header",
        metavar="NAME",
        help="header in which a trusted proxy names the person it signed in",
    )
    parser.add_argument(
        "--trust",
        metavar="ADDRESS",
        action="append",
        default=[],
        help="address or network of a proxy, such as 10.0.0.1, whose X-Forwarded-For names clients",
    )
    parser.add_argument(
        "--user-role",
        choices=("read", "write", "admin"),
        default="read",
        help="what people of that proxy may do (default: read)",
    )
    parser.add_argument(
        "--allow-control",
        action="store_true",
        help="let people with the role write stop, suspend and continue trainings from here",
    )
    parser.add_argument(
        "--allow-host",
        metavar="NAME",
        action="append",
        default=[],
        help="another host name of the hub, for example behind a proxy",
    )


def _refuse_store(_url: str) -> str:
    raise argparse.ArgumentTypeError(
        "this build keeps a hub's runs in a folder only; ClickHouse is not supported."
    )


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from epochal.hub.ledger import only_hub

    tls, proxy = _tls(args), _proxy(args)
    root = Path(args.folder).expanduser()
    root.mkdir(parents=True, exist_ok=True)
    with only_hub(root):
        return _serve_folder(args, root, tls, proxy)


def _serve_folder(
    args: argparse.Namespace, root: Path, tls: TlsFiles | None, proxy: TrustedProxy | None
) -> int:
    from epochal.hub.ledger import Ledger
    from epochal.hub.limits import Budget
    from epochal.hub.retention import read_rules
    from epochal.hub.serving import serve_hub
    from epochal.serving import find_address

    retention = read_rules(
        root,
        trash_after_s=args.trash_after,
        erase_after_s=args.erase_after,
        keep_tagged=args.keep_tagged,
    )
    ledger = Ledger(root)
    port = read_settings().server_port if args.port is None else args.port
    server = find_address(
        [root], port=port, host=args.host, allow_hosts=args.allow_host, may_move=False
    )
    if server.listening is None:
        raise UsageError(f"a server of this folder is already running at {server.url}.")
    budget = Budget(root, ledger, most=args.max_size, most_per_writer=args.quota)
    first = None if ledger.tokens() else ledger.add_token("admin", "admin")

    def greet() -> None:
        urls = _urls(server, is_tls=tls is not None)
        remark(f"The hub keeps runs in {root} (Ctrl-C stops)")
        for url in urls:
            say(url, flush=True)
        if first is not None:
            remark("Its first token, for the role admin, is shown only now:")
            say(first, flush=True)
            remark(f"Its page: {urls[0]}?token={first}")
        remark(f"A token for a machine: epochal token add NAME --role write --hub {root}")

    try:
        serve_hub(
            root,
            ledger,
            server,
            budget,
            proxy=proxy,
            tls=tls,
            allow_control=args.allow_control,
            retention=retention,
            tell=lambda line: say(line, flush=True),
            on_ready=greet,
        )
    except KeyboardInterrupt:
        remark("Stopped.")
    finally:
        ledger.close()
    return 0


def _urls(server: ServerAddress, *, is_tls: bool) -> list[str]:
    """Where the hub is found: at each address of this machine when it listens at all of them."""
    from epochal.server.address import own_addresses, url_of

    is_any = server.host in ("0.0.0.0", "::")
    hosts = own_addresses() or ["127.0.0.1"] if is_any else [server.host]
    urls = [url_of(host, server.port) for host in hosts]
    return [url.replace("http://", "https://", 1) for url in urls] if is_tls else urls


def _tls(args: argparse.Namespace) -> TlsFiles | None:
    from epochal.server.process import TlsFiles

    if args.tls_cert is None and args.tls_key is None:
        return None
    if args.tls_cert is None or args.tls_key is None:
        raise UsageError("--tls-cert and --tls-key belong together.")
    for option, path in (("--tls-cert", args.tls_cert), ("--tls-key", args.tls_key)):
        if not Path(path).is_file():
            raise UsageError(f"{option}: there is no file {path}.")
    _check_tls(args.tls_cert, args.tls_key)
    return TlsFiles(args.tls_cert, args.tls_key)


def _check_tls(certificate: str, key: str) -> None:
    import ssl

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


def _proxy(args: argparse.Namespace) -> TrustedProxy | None:
    from epochal.server.access import TrustedProxy

    if args.user_header is None and not args.trust:
        return None
    if not args.trust:
        raise UsageError("--user-header needs --trust: the address of the proxy that sets it.")
    try:
        networks = tuple(ipaddress.ip_network(one, strict=False) for one in args.trust)
    except ValueError as error:
        raise UsageError(f"--trust: {error}.") from error
    return TrustedProxy(args.user_header, networks, args.user_role)
