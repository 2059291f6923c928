"""OpenStack Swift: a proxy that speaks S3 in front of three storage nodes with three replicas."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.servers.processes import (
    Daemons,
    as_user,
    free_port,
    give_away,
    missing_programs,
    server_folder,
    user_name,
    wait_for,
)

NODES = ("s1", "s2", "s3")
KINDS = ("account", "container", "object")
PROGRAMS = ("swift-proxy-server", "memcached", *(f"swift-{kind}-server" for kind in KINDS))
_HASH = """
[swift-hash]
swift_hash_path_suffix = a
swift_hash_path_prefix = b
[storage-policy:0]
name = Policy-0
default = yes
"""
_STORAGE = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {folder}
devices = {folder}/{node}
mount_check = false
workers = 0
log_address = {folder}/nolog
[pipeline:main]
pipeline = {kind}-server
[app:{kind}-server]
use = egg:swift#{kind}
[{kind}-replicator]
sync_method = ssync
[object-updater]
"""
_PROXY = """
[DEFAULT]
bind_ip = 127.0.0.1
bind_port = {port}
user = {user}
swift_dir = {folder}
workers = 0
log_address = {folder}/nolog
[pipeline:main]
pipeline = catch_errors gatekeeper healthcheck cache listing_formats bulk s3api tempauth
    slo dlo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
conn_timeout = 0.5
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:gatekeeper]
use = egg:swift#gatekeeper
[filter:healthcheck]
use = egg:swift#healthcheck
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:bulk]
use = egg:swift#bulk
[filter:cache]
use = egg:swift#memcache
memcache_servers = 127.0.0.1:{memcached}
[filter:s3api]
use = egg:swift#s3api
s3_acl = false
location = us-east-1
[filter:tempauth]
use = egg:swift#tempauth
user_test_tester = testing .admin
[filter:slo]
use = egg:swift#slo
[filter:dlo]
use = egg:swift#dlo
"""


def missing() -> list[str]:
    """What is not installed."""
    return missing_programs(*PROGRAMS)


@dataclass
class SwiftCluster:
    """The proxy and the storage nodes; ``environment`` is what programs read to find it."""

    daemons: Daemons
    proxy_port: int = field(default_factory=free_port)
    memcached_port: int = field(default_factory=free_port)
    ports: dict[tuple[str, str], int] = field(
        default_factory=lambda: {(node, kind): free_port() for node in NODES for kind in KINDS}
    )

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.proxy_port}"

    @property
    def environment(self) -> Mapping[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test:tester",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start everything; returns when the proxy answers."""
        self._write()
        command = ["memcached", "-l", "127.0.0.1", "-p", str(self.memcached_port), "-U", "0"]
        self.daemons.start("memcached", command)
        for node in NODES:
            self.start_node(node)
        self.daemons.start("proxy", ["swift-proxy-server", str(self._proxy_config)])
        wait_for(self._is_up, what="the proxy of Swift")

    def _write(self) -> None:
        """Write the settings of every server, and the rings that say where objects are."""
        folder = self.daemons.folder
        (folder / "swift.conf").write_text(_HASH)
        shared = {"user": user_name(), "folder": folder}
        for (node, kind), port in self.ports.items():
            (folder / node / "disk").mkdir(parents=True, exist_ok=True)
            text = _STORAGE.format(node=node, kind=kind, port=port, **shared)
            (folder / f"{node}-{kind}.conf").write_text(text)
        text = _PROXY.format(port=self.proxy_port, memcached=self.memcached_port, **shared)
        self._proxy_config.write_text(text)
        for kind in KINDS:
            self._write_ring(kind)
        give_away(folder)

    def _write_ring(self, kind: str) -> None:
        steps = [["create", "8", str(len(NODES)), "0"]]
        for number, node in enumerate(NODES, start=1):
            address = f"r1z{number}-127.0.0.1:{self.ports[node, kind]}/disk"
            steps.append(["add", address, "1"])
        for step in [*steps, ["rebalance"]]:
            builder = str(self.daemons.folder / f"{kind}.builder")
            done = subprocess.run(["swift-ring-builder", builder, *step], capture_output=True)
            assert done.returncode in (0, 1), done  # 1 is a warning

    def start_node(self, node: str) -> None:
        """Start the three servers of a storage node."""
        for kind in KINDS:
            config = str(self.daemons.folder / f"{node}-{kind}.conf")
            self.daemons.start(f"{node}-{kind}", [f"swift-{kind}-server", config])

    def kill_node(self, node: str) -> None:
        for kind in KINDS:
            self.daemons.kill(f"{node}-{kind}")

    def replicate(self) -> None:
        """Have every node give the others what they missed, as its daemons do now and then."""
        for node in NODES:
            config = str(self.daemons.folder / f"{node}-object.conf")
            for program in ("swift-object-updater", "swift-object-replicator"):
                command = as_user([program, config, "once"])
                subprocess.run(command, capture_output=True, cwd="/", timeout=120, check=True)

    def make_bucket(self, name: str) -> str:
        """Make an empty bucket; its address."""
        asked = urllib.request.Request(
            f"{self.endpoint}/auth/v1.0",
            headers={"X-Auth-User": "test:tester", "X-Auth-Key": "testing"},
        )
        with urllib.request.urlopen(asked, timeout=20) as answer:
            url, token = answer.headers["X-Storage-Url"], answer.headers["X-Auth-Token"]
        headers = {"X-Auth-Token": token}
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/{name}", headers=headers, method="PUT"), timeout=20
        ):
            return f"s3://{name}"

    @property
    def _proxy_config(self) -> Path:
        return self.daemons.folder / "proxy.conf"

    def _is_up(self) -> bool:
        for port in (*self.ports.values(), self.proxy_port):
            with socket.create_connection(("127.0.0.1", port), timeout=5):
                pass
        with urllib.request.urlopen(f"{self.endpoint}/healthcheck", timeout=5) as answer:
            return bool(answer.read())


@contextlib.contextmanager
def swift_cluster() -> Iterator[SwiftCluster]:
    """The proxy and the storage nodes, while the block runs."""
    cluster = SwiftCluster(Daemons(server_folder("swift")))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.daemons.stop()
