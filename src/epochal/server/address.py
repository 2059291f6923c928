"""The server's host and port: listening, its names, and finding a server that already runs."""

from __future__ import annotations

import errno
import hashlib
import ipaddress
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from epochal.errors import EpochalError, UsageError
from epochal.server.access import LOOPBACK, host_name
from epochal.server.wire import Health

_PORTS_TRIED = 50


class PortTakenError(EpochalError):
    """The requested port is in use by another program."""


def is_loopback(host: str) -> bool:
    """Whether a host is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listen(host: str, port: int) -> socket.socket:
    """Listen on a socket; port 0 takes any. Raises ``PortTakenError`` or ``UsageError``."""
    if not 0 <= port < 65536:
        raise UsageError(f"port={port} must be from 0 to 65535.")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (socket.gaierror, UnicodeError) as error:
        raise UsageError(f"host={host!r} is not an address of this machine: {error}.") from error
    try:
        found = socket.create_server(address[:2], family=family, backlog=1024)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError(f"port {port} is in use.") from error
        raise UsageError(f"host={host!r} port={port} cannot be used: {error.strerror}.") from error
    # Connections inherit it; asyncio does not set it on those of a socket that names no protocol.
    # Without it the body of an answer waits 40 ms for the browser to acknowledge the head.
    found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return found


def listen_near(host: str, port: int) -> socket.socket:
    """Listen on the first free port from this one on."""
    for candidate in range(port, min(port + _PORTS_TRIED, 65536)):
        try:
            return listen(host, candidate)
        except PortTakenError:
            continue
    raise PortTakenError(f"no port from {port} to {port + _PORTS_TRIED - 1} is free.")


def folders_digest(folders: Iterable[str | Path], *, follow_links: bool = False) -> str:
    """A digest of a set of folders and how they are searched, equal in every process."""
    paths = sorted(str(Path(folder).expanduser().resolve()) for folder in folders)
    paths += ["--follow-links"] if follow_links else []
    return hashlib.blake2b("\0".join(paths).encode(), digest_size=12).hexdigest()


def find_own(host: str, port: int, *, folders: str) -> bool:
    """Whether the port is held by a server of this user over the same folders.

    Any program could answer there. So the process that it names must listen on the port and must
    belong to this user.
    """
    health = _health(host, port)
    return health is not None and health.folders == folders and _listens(health.pid, port)


def names_of(host: str, *, more: Sequence[str] = ()) -> frozenset[str]:
    """The Host names that a server bound to a host accepts."""
    names = {*LOOPBACK, *map(_name, more)}
    if host in ("", "0.0.0.0", "::"):
        names |= {socket.gethostname().lower(), socket.getfqdn().lower(), *own_addresses()}
    else:
        names.add(_name(host))
    return frozenset(names)


def _name(host: str) -> str:
    """A name normalised as Host headers are."""
    bare = host.strip("[]")
    return host_name(f"[{bare}]" if ":" in bare else bare)


def own_addresses() -> list[str]:
    """This machine's addresses that other machines may reach, IPv4 first."""
    import psutil  # heavy, and only needed where a server is open to others

    found = [
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    outside = [address for address in found if not is_loopback(address)]
    return sorted(outside, key=lambda address: (":" in address, address))


def url_of(host: str, port: int, *, token: str | None = None) -> str:
    """The URL of the page."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/" + (f"?token={token}" if token else "")


def _health(host: str, port: int) -> Health | None:
    from epochal.base.http import HttpClient, HttpError  # only needed when the port is taken

    target = "127.0.0.1" if host in ("", "0.0.0.0", "localhost") else host
    url = url_of(target, port)
    client = HttpClient(url, timeout_s=1.0, most_bytes=4096, is_direct=True)
    try:
        response = client.send("GET", "/healthz", headers={"host": "localhost"})
        return msgspec.json.decode(response.body, type=Health)
    except (HttpError, msgspec.DecodeError):
        return None
    finally:
        client.close()


def _listens(pid: int, port: int) -> bool:
    import psutil  # heavy, and only needed when the port is taken

    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except (psutil.Error, OSError, OverflowError, ValueError):
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)
