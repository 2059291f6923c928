"""PostgreSQL on three nodes: Patroni elects the primary, etcd keeps who it is.

A commit returns when a synchronous standby has it. Without any standby nothing is committed.
"""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.servers.processes import (
    Daemons,
    cpu_s,
    free_port,
    give_away,
    kill_all,
    missing_programs,
    server_folder,
    wait_for,
)

NODES = ("n1", "n2", "n3")
PROGRAMS = ("patroni", "etcd")
_VERSIONS = Path("/usr/lib/postgresql")
_CONFIG = """
scope: epochal
name: {name}
restapi: {{listen: '127.0.0.1:{rest}', connect_address: '127.0.0.1:{rest}'}}
etcd3: {{host: '127.0.0.1:{etcd}'}}
bootstrap:
  dcs:
    ttl: 20
    loop_wait: 1
    retry_timeout: 3
    synchronous_mode: true
    synchronous_mode_strict: true
    postgresql:
      use_pg_rewind: true
      parameters: {{max_connections: 100, synchronous_commit: 'on', wal_log_hints: 'on'}}
  initdb: [{{encoding: UTF8}}, {{locale: C.UTF-8}}, data-checksums]
postgresql:
  listen: '127.0.0.1:{port}'
  connect_address: '127.0.0.1:{port}'
  data_dir: {folder}/{name}
  bin_dir: {binaries}
  pgpass: {folder}/{name}.pgpass
  pg_hba:
    - 'host all all 127.0.0.1/32 trust'
    - 'host replication all 127.0.0.1/32 trust'
    - 'local all all trust'
  parameters: {{unix_socket_directories: {folder}}}
  authentication:
    superuser: {{username: epochal}}
    replication: {{username: copier}}
    rewind: {{username: rewinder}}
"""


def missing() -> list[str]:
    """What is not installed."""
    return [*missing_programs(*PROGRAMS), *([] if _VERSIONS.is_dir() else ["postgresql"])]


@dataclass
class PatroniCluster:
    """The three nodes; ``address`` names all of them, as the catalog of hubs does."""

    daemons: Daemons
    etcd_port: int = field(default_factory=free_port)
    ports: dict[str, int] = field(default_factory=lambda: {name: free_port() for name in NODES})
    rest_ports: dict[str, int] = field(
        default_factory=lambda: {name: free_port() for name in NODES}
    )

    @property
    def address(self) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports.values())
        return f"postgresql://epochal@{hosts}/postgres?target_session_attrs=read-write"

    def start(self) -> None:
        """Start everything; returns when a commit is on two nodes."""
        self._start_etcd()
        binaries = max(_VERSIONS.glob("*/bin"), key=lambda path: int(path.parent.name))
        for name in NODES:
            text = _CONFIG.format(
                name=name,
                rest=self.rest_ports[name],
                etcd=self.etcd_port,
                port=self.ports[name],
                folder=self.daemons.folder,
                binaries=binaries,
            )
            (self.daemons.folder / f"{name}.yml").write_text(text)
        give_away(self.daemons.folder)
        for name in NODES:
            self.start_node(name)
        self.wait_until_whole()

    def _start_etcd(self) -> None:
        url, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{free_port()}"
        command = ["etcd", "--data-dir", f"{self.daemons.folder}/etcd"]
        command += ["--listen-client-urls", url, "--advertise-client-urls", url]
        command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        command += ["--initial-cluster", f"default={peer}"]
        self.daemons.start("etcd", command)
        wait_for(lambda: _get(f"{url}/health"), what="etcd")

    def start_node(self, name: str) -> None:
        self.daemons.start(name, ["patroni", f"{self.daemons.folder}/{name}.yml"])

    def kill_node(self, name: str) -> None:
        """Kill Patroni and PostgreSQL of a node, as the end of its machine would."""
        self.daemons.kill(name, *self._postgres(name))

    def kill_server(self, name: str) -> None:
        """Kill PostgreSQL of a node; Patroni starts it again, or has another node take over."""
        kill_all(self._postgres(name))

    def _postgres(self, name: str) -> list[int]:
        """The processes of PostgreSQL of a node."""
        try:
            text = (self.daemons.folder / name / "postmaster.pid").read_text()
            postmaster = psutil.Process(int(text.split()[0]))
            return [postmaster.pid, *(child.pid for child in postmaster.children(True))]
        except (OSError, LookupError, psutil.NoSuchProcess):
            return []

    def cpu_s(self) -> float:
        """The seconds of CPU that PostgreSQL has used on all nodes."""
        return sum(cpu_s(pids[0]) for name in NODES if (pids := self._postgres(name)))

    def restart_in_place(self, is_allowed: bool) -> None:
        """Whether a primary that was killed may start again, or another takes over at once."""
        body = json.dumps({"primary_start_timeout": 300 if is_allowed else 0}).encode()
        port = self.rest_ports[self._alive()]
        request = urllib.request.Request(f"http://127.0.0.1:{port}/config", body, method="PATCH")
        with urllib.request.urlopen(request, timeout=5):
            pass

    def members(self) -> dict[str, dict[str, Any]]:
        """What Patroni says of the nodes."""
        answer = _get(f"http://127.0.0.1:{self.rest_ports[self._alive()]}/cluster")
        return {member["name"]: member for member in answer["members"]}

    def member(self, role: str) -> str | None:
        """A node with a role; None while there is none."""
        return next((name for name, one in self.members().items() if one["role"] == role), None)

    def primary(self) -> str | None:
        """The node that takes writes."""
        return self.member("leader")

    def wait_until_whole(self) -> None:
        """Return when there are a primary, a synchronous standby and one more that follows."""
        wait_for(self._is_whole, what="a primary with two standbys", timeout_s=300)

    def _is_whole(self) -> bool:
        members = self.members().values()
        roles = sorted(one["role"] for one in members)
        running = all(one["state"] in ("running", "streaming") for one in members)
        return roles == ["leader", "replica", "sync_standby"] and running

    def _alive(self) -> str:
        processes = self.daemons.processes
        return next(name for name in NODES if processes[name].poll() is None)


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as response:
        return json.load(response)


@contextlib.contextmanager
def patroni_cluster() -> Iterator[PatroniCluster]:
    """The three nodes, while the block runs."""
    cluster = PatroniCluster(Daemons(server_folder("pat"), {"LC_ALL": "C.UTF-8"}))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.daemons.stop()
