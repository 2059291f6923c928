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
    from collections.abc import Sequence

    from epochal.hub.cluster import Cluster
    from epochal.server.access import TrustedProxy
    from epochal.server.process import TlsFiles
    from epochal.serving import ServerAddress


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``hub``."""
    parser.add_argument(
        "words",
        metavar="DIR",
        nargs="*",
        help="the folder that holds the runs; it is made. Instead of it, 'migrate FROM TO' copies"
        " runs between a folder and clickhouse://…, and 'reindex URL' makes derived tables again",
    )
    parser.add_argument(
        "--store",
        metavar="URL",
        help="store runs in ClickHouse, clickhouse://user@host:8123/database?cluster=NAME;"
        " DIR is then a working copy (default: in the cache)",
    )
    parser.add_argument(
        "--blobs",
        metavar="PLACE",
        help="with --store, keep images and other blobs in this folder, which all hubs must see, or"
        " in s3://bucket/prefix (default: in the tables)",
    )
    parser.add_argument(
        "--copy-size",
        metavar="SIZE",
        type=size,
        help="with --store, let the working copy take at most so much, such as 50GB; copies of runs"
        " that were used longest ago are deleted (default: until the disk is nearly full)",
    )
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


def run(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C, or do one of the jobs."""
    if args.words[:1] == ["migrate"]:
        return _migrate(args.words[1:])
    if args.words[:1] == ["reindex"]:
        return _reindex(args.words[1:])
    return _serve(args)


def _migrate(places: Sequence[str]) -> int:
    from epochal.hub.migration import migrate

    if len(places) != 2:
        raise UsageError("name both places: epochal hub migrate FROM TO.")
    num_runs = migrate(*places, tell=remark)
    say(f"{num_runs:,} runs of {places[0]} are in {places[1]}.")
    return 0


def _reindex(places: Sequence[str]) -> int:
    from epochal.hub.migration import reindex

    if len(places) != 1:
        raise UsageError("name the store: epochal hub reindex clickhouse://….")
    num_runs, faults = reindex(places[0])
    for fault in faults:
        say(fault)
    say(f"The derived tables of {num_runs:,} runs are made again.")
    return 1 if faults else 0


def _serve(args: argparse.Namespace) -> int:
    from epochal.hub.ledger import only_hub

    tls, proxy = _tls(args), _proxy(args)
    root = _root(args)
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
    cluster = _cluster(args, root)
    ledger = Ledger(root) if cluster is None else cluster.ledger
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
        where = root if cluster is None else f"{cluster.address}, with a working copy in {root}"
        remark(f"The hub keeps runs in {where} (Ctrl-C stops)")
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
            cluster=cluster,
            retention=retention,
            tell=_tell,
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


def _root(args: argparse.Namespace) -> Path:
    """The folder of the hub: given, or for a store elsewhere one in the cache."""
    if len(args.words) > 1:
        raise UsageError("a hub has one folder: epochal hub DIR.")
    if args.words:
        return Path(args.words[0]).expanduser()
    if args.store is None:
        raise UsageError("a hub needs a folder for its runs: epochal hub DIR, or --store URL.")
    from epochal.hub.cluster import working_copy

    return working_copy(args.store)


def _cluster(args: argparse.Namespace, root: Path) -> Cluster | None:
    if args.store is None:
        if args.blobs is not None:
            raise UsageError("--blobs belongs to --store: a folder has its blobs inside.")
        if args.copy_size is not None:
            raise UsageError("--copy-size belongs to --store: --max-size limits a folder.")
        return None
    if args.max_size is not None:
        raise UsageError("--max-size limits a folder: with --store, use --copy-size or --quota.")
    from epochal.hub.cluster import Cluster

    return Cluster(args.store, root, blobs=args.blobs, most_bytes=args.copy_size, tell=_tell)


def _tell(line: str) -> None:
    say(line, flush=True)


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
