"""Two ClickHouse servers on loopback, one shard each, joined as the cluster ``two``.

They come from Debian's packages, unpacked below ``.clickhouse/``; nothing is installed. With
Debian's ZooKeeper, which needs Java, they can be two replicas of one shard instead.

    python tools/clickhouse_shards.py fetch          unpack the packages (about 130 MB)
    python tools/clickhouse_shards.py fetch zookeeper
    python tools/clickhouse_shards.py fetch caddy    unpack the proxy of deploy/
    python tools/clickhouse_shards.py fetch nginx    unpack the other proxy of the guide
    python tools/clickhouse_shards.py start DIR      start both; prints the address of the store
    python tools/clickhouse_shards.py stop DIR       stop them
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path

UNPACKED = Path(__file__).resolve().parents[1] / ".clickhouse"
CLUSTER = "two"
_PACKAGES = ("clickhouse-server", "clickhouse-client")
_ZOOKEEPER = "zookeeper"
_CADDY, _NGINX = "caddy", "nginx"
_STARTED_WITHIN_S = 60.0
_USERS = """<yandex><profiles><default/></profiles><users><default><password></password>
<networks><ip>::1</ip><ip>127.0.0.1</ip></networks><profile>default</profile>
<quota>default</quota></default>
<guarded><password>right</password><networks><ip>::1</ip><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></guarded></users>
<quotas><default/></quotas></yandex>
"""
_CONFIG = """<yandex>
<logger><level>warning</level><log>{home}/server.log</log><errorlog>{home}/server.err</errorlog>
</logger>
<http_port>{http}</http_port><tcp_port>{native}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{home}/data/</path><tmp_path>{home}/tmp/</tmp_path>
<format_schema_path>{home}/format/</format_schema_path><users_config>{home}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
<compression><case><min_part_size>0</min_part_size>
<min_part_size_ratio>0</min_part_size_ratio><method>zstd</method></case></compression>
<remote_servers><{cluster}>{shards}</{cluster}></remote_servers>
<macros>{macros}</macros>{more}
</yandex>
"""
_REPLICA = "<replica><host>127.0.0.1</host><port>{native}</port></replica>"
_REPLICATION = """<zookeeper><node><host>127.0.0.1</host><port>{zookeeper}</port></node></zookeeper>
<interserver_http_host>127.0.0.1</interserver_http_host>
<interserver_http_port>{between}</interserver_http_port>"""
_ZOOKEEPER_CONFIG = """tickTime=500
dataDir={home}/data
clientPort={port}
clientPortAddress=127.0.0.1
admin.enableServer=false
4lw.commands.whitelist=srvr
"""


def is_fetched() -> bool:
    """Whether the packages are unpacked."""
    return _server().is_file()


def has_zookeeper() -> bool:
    """Whether ZooKeeper is unpacked and there is a Java that can run it."""
    return shutil.which("java") is not None and any(_jars(UNPACKED / "root", "zookeeper.jar"))


def fetch() -> None:
    """Download and unpack the packages; needs apt-get and dpkg, and no rights."""
    if not is_fetched():
        _unpack(*_PACKAGES)


def fetch_zookeeper() -> None:
    """Download and unpack ZooKeeper."""
    if not has_zookeeper():
        _unpack(_ZOOKEEPER)


def caddy() -> str | None:
    """The proxy, installed or unpacked; None where there is none."""
    return _program("usr/bin/caddy")


def fetch_caddy() -> None:
    """Download and unpack Caddy."""
    if caddy() is None:
        _unpack(_CADDY)


def nginx() -> str | None:
    """The other proxy, installed or unpacked; None where there is none."""
    return _program("usr/sbin/nginx")


def fetch_nginx() -> None:
    """Download and unpack nginx."""
    if nginx() is None:
        _unpack(_NGINX)


def _program(path: str) -> str | None:
    unpacked = UNPACKED / "root" / path
    return str(unpacked) if unpacked.is_file() else shutil.which(unpacked.name)


def _unpack(*packages: str) -> None:
    for tool in ("apt-get", "dpkg"):
        if shutil.which(tool) is None:
            raise SystemExit(f"clickhouse_shards: there is no {tool}: this needs Debian's tools.")
    debs = UNPACKED / "debs"
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    command = ("apt-get", "install", "-y", "-qq", "--download-only")
    # Nothing of the system is changed: without its locks, no rights are needed.
    cache = ("-o", f"Dir::Cache::archives={debs}", "-o", "Debug::NoLocking=1")
    download = (*command, *cache, *packages)
    if subprocess.run(download, check=False, capture_output=True).returncode != 0:
        # A new machine, or an image without lists, knows no packages yet; this needs rights.
        subprocess.run(("apt-get", "update", "-qq"), check=False, stdout=subprocess.DEVNULL)
        subprocess.run(download, check=True, stdout=subprocess.DEVNULL)
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(("dpkg", "-x", str(deb), str(UNPACKED / "root")), check=True)


def _jars(root: Path, pattern: str) -> list[Path]:
    return sorted((root / "usr/share/java").glob(pattern))


class ZooKeeper:
    """One ZooKeeper with its data below a folder."""

    def __init__(self, folder: Path) -> None:
        self.port = _free_port()
        (folder / "data").mkdir(parents=True, exist_ok=True)
        (folder / "zoo.cfg").write_text(_ZOOKEEPER_CONFIG.format(home=folder, port=self.port))
        jars = [*_jars(UNPACKED / "root", "*.jar"), *_jars(Path("/"), "*.jar")]
        command = ["java", "-Xmx256m", "-cp", ":".join(map(str, jars))]
        with open(folder / "out.log", "ab") as log:
            self._process = subprocess.Popen(
                [*command, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"],
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,
            )
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while not _is_serving(self.port):
            if time.monotonic() > deadline_s or self._process.poll() is not None:
                raise SystemExit(f"clickhouse_shards: no ZooKeeper; see {folder}/out.log")
            time.sleep(0.05)

    def stop(self) -> None:
        """End it, and wait until it is gone."""
        self._process.terminate()
        self._process.wait(30)


class Shards:
    """Both servers, with their data below a folder; with a ZooKeeper, replicas of one shard."""

    def __init__(self, folder: Path, zookeeper: ZooKeeper | None = None) -> None:
        self.folder = folder
        self._zookeeper = zookeeper
        # By server, the beginning of its command: one may live in a namespace of its own.
        self.within: dict[int, Sequence[str]] = {}
        self._ports = [(_free_port(), _free_port()) for _ in range(2)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None, None]
        for number in range(2):
            self._configure(number)

    def start(self) -> None:
        """Start both; returns when both answer."""
        for number in range(2):
            self.start_one(number)

    def start_one(self, number: int) -> None:
        """Start one; returns when it answers."""
        home = self._home(number)
        libraries = UNPACKED / "root/usr/lib/x86_64-linux-gnu"
        more = UNPACKED / "root/lib/x86_64-linux-gnu"
        with open(home / "out.log", "ab") as log:
            process = subprocess.Popen(
                [*self.within.get(number, ()), str(_server()), f"--config-file={home}/config.xml"],
                stdout=log,
                stderr=log,
                cwd=home,
                env={**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{more}"},
                start_new_session=True,
            )
        self._processes[number] = process
        (home / "pid").write_text(str(process.pid))
        deadline_s = time.monotonic() + _STARTED_WITHIN_S
        while not _answers(self._ports[number][0]):
            if time.monotonic() > deadline_s or process.poll() is not None:
                raise SystemExit(f"clickhouse_shards: no answer; see {home}/server.err")
            time.sleep(0.05)

    def kill_one(self, number: int) -> None:
        """Kill one at once, and wait until it is gone."""
        process = self._processes[number]
        if process is not None:
            process.kill()
            process.wait()
            self._processes[number] = None

    def stop(self) -> None:
        """End both, and wait until they are gone."""
        for process in self._processes:
            if process is not None:
                process.terminate()
        for process in self._processes:
            if process is not None:
                process.wait(30)
        self._processes = [None, None]

    @property
    def http_ports(self) -> list[int]:
        """The ports that hubs speak to."""
        return [http for http, _ in self._ports]

    def address(
        self, database: str, *, user: str = "default", ports: Sequence[int] | None = None
    ) -> str:
        """The address of a store in both; ``ports`` lead to them if given."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports or self.http_ports)
        return f"clickhouse://{user}@{hosts}/{database}?cluster={CLUSTER}"

    def address_of_one(self, number: int, database: str) -> str:
        """The address of a store in one of them alone."""
        return f"clickhouse://default@127.0.0.1:{self._ports[number][0]}/{database}"

    def bytes_of(self, database: str, table: str) -> int:
        """How much a table takes on the disks of both, compressed."""
        found = 0
        for http, _ in self._ports:
            statement = (
                "SELECT sum(bytes_on_disk) FROM system.parts WHERE active"
                f" AND database = '{database}' AND table = '{table}'"
            )
            request = urllib.request.Request(f"http://127.0.0.1:{http}/", statement.encode())
            with urllib.request.urlopen(request) as answer:
                found += int(answer.read() or 0)
        return found

    def _home(self, number: int) -> Path:
        return self.folder / f"shard{number + 1}"

    def _configure(self, number: int) -> None:
        home = self._home(number)
        for name in ("data", "tmp", "format"):
            (home / name).mkdir(parents=True, exist_ok=True)
        http, native = self._ports[number]
        replicas = [_REPLICA.format(native=port) for _, port in self._ports]
        if self._zookeeper is None:
            shards = "".join(f"<shard>{one}</shard>" for one in replicas)
            macros, more = f"<shard>{number + 1}</shard>", ""
        else:
            alone = "<internal_replication>true</internal_replication>"
            shards = f"<shard>{alone}{''.join(replicas)}</shard>"
            macros = f"<shard>1</shard><replica>{number + 1}</replica>"
            zookeeper, between = self._zookeeper.port, _free_port()
            more = _REPLICATION.format(zookeeper=zookeeper, between=between)
        config = _CONFIG.format(
            home=home,
            http=http,
            native=native,
            cluster=CLUSTER,
            shards=shards,
            macros=macros,
            more=more,
        )
        (home / "config.xml").write_text(config)
        (home / "users.xml").write_text(_USERS)


def _server() -> Path:
    return UNPACKED / "root/usr/sbin/clickhouse-server"


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=1):
            return True
    except OSError:
        return False


def _is_serving(port: int) -> bool:
    """Whether a ZooKeeper answers; it listens some time before."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
            connection.sendall(b"srvr")
            return connection.recv(64).startswith(b"Zookeeper version")
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def main(arguments: list[str]) -> None:
    """Run one of the verbs."""
    if arguments == ["fetch"]:
        fetch()
    elif arguments == ["fetch", _ZOOKEEPER]:
        fetch_zookeeper()
    elif arguments == ["fetch", _CADDY]:
        fetch_caddy()
    elif arguments == ["fetch", _NGINX]:
        fetch_nginx()
    elif arguments[:1] == ["start"] and len(arguments) == 2:
        fetch()
        shards = Shards(Path(arguments[1]).resolve())
        shards.start()
        print(shards.address("epochal"))
    elif arguments[:1] == ["stop"] and len(arguments) == 2:
        for pid in Path(arguments[1]).glob("shard*/pid"):
            os.kill(int(pid.read_text()), signal.SIGTERM)
            pid.unlink()
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
