"""Two ClickHouse servers on loopback, one shard each, joined as the cluster ``two``.

They come from Debian's packages (ClickHouse 18.16), unpacked below ``.bench/clickhouse``; nothing
is installed.

    python tools/clickhouse_shards.py fetch          unpack the packages (about 130 MB)
    python tools/clickhouse_shards.py start DIR      start both servers and print their address
    python tools/clickhouse_shards.py stop DIR       stop the servers that `start` left running
"""

from __future__ import annotations

import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

CLUSTER = "two"
NUM_SHARDS = 2
UNPACKED = Path(__file__).resolve().parents[1] / ".bench" / "clickhouse"
_ROOT = UNPACKED / "root"
_SERVER = _ROOT / "usr/sbin/clickhouse-server"
_PACKAGES = ("clickhouse-server", "clickhouse-client")
_DEADLINE_S = 60.0
_USERS = """<yandex>
<profiles><default/></profiles><quotas><default/></quotas>
<users><default><password></password><profile>default</profile><quota>default</quota>
<networks><ip>::1</ip><ip>127.0.0.1</ip></networks></default></users>
</yandex>
"""
_CONFIG = """<yandex>
<logger><level>warning</level><log>{home}/server.log</log><errorlog>{home}/server.err</errorlog>
</logger>
<http_port>{http}</http_port><tcp_port>{native}</tcp_port><listen_host>127.0.0.1</listen_host>
<path>{home}/data/</path><tmp_path>{home}/tmp/</tmp_path>
<format_schema_path>{home}/format/</format_schema_path><users_config>{home}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>67108864</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
<remote_servers><{cluster}>{shards}</{cluster}></remote_servers>
<macros><shard>{number}</shard></macros>
</yandex>
"""
_SHARD = "<shard><replica><host>127.0.0.1</host><port>{native}</port></replica></shard>"


def is_fetched() -> bool:
    """Return True if the packages are unpacked."""
    return _SERVER.is_file()


def fetch() -> None:
    """Download and unpack the packages. This needs apt-get and dpkg, but not to be root."""
    if is_fetched():
        return
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            raise SystemExit(
                f"{program} was not found: the ClickHouse servers come from Debian's packages."
            )
    debs = UNPACKED / "debs"
    (debs / "partial").mkdir(parents=True, exist_ok=True)
    # The packages go into our folder and the system stays as it is, so no locks are needed.
    options = ("-o", f"Dir::Cache::archives={debs}", "-o", "Debug::NoLocking=1")
    download = ("apt-get", "install", "-y", "-qq", "--download-only", *options, *_PACKAGES)
    if subprocess.run(download, check=False, capture_output=True).returncode != 0:
        # A new container has no package lists yet; fetching them needs root.
        subprocess.run(("apt-get", "update", "-qq"), check=False, stdout=subprocess.DEVNULL)
        subprocess.run(download, check=True, stdout=subprocess.DEVNULL)
    for deb in sorted(debs.glob("*.deb")):
        subprocess.run(("dpkg", "-x", deb, _ROOT), check=True)


class Shards:
    """Both servers, with their data in a folder. Shards are numbered 0 and 1.

    The data survives ``kill`` and ``restart``, and so do the ports.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        ports = _free_ports(2 * NUM_SHARDS)
        self.http_ports, native_ports = ports[:NUM_SHARDS], ports[NUM_SHARDS:]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        shards = "".join(_SHARD.format(native=native) for native in native_ports)
        for number, (http, native) in enumerate(zip(self.http_ports, native_ports, strict=True)):
            home = self._home(number)
            for name in ("data", "tmp", "format"):
                (home / name).mkdir(parents=True, exist_ok=True)
            config = _CONFIG.format(
                home=home, http=http, native=native, cluster=CLUSTER, shards=shards, number=number
            )
            (home / "config.xml").write_text(config)
            (home / "users.xml").write_text(_USERS)

    def start(self) -> None:
        """Start both servers and wait until they answer; stop both if one of them does not."""
        try:
            for number in range(NUM_SHARDS):
                self._launch(number)
            for number in range(NUM_SHARDS):
                self._wait(number)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the servers that run, and wait until they are gone."""
        for process in self._processes.values():
            process.terminate()
        for number in list(self._processes):
            try:
                self._processes[number].wait(_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.kill(number)
            self._forget(number)

    def kill(self, number: int) -> None:
        """Kill one server with SIGKILL, and wait until it is gone."""
        self._processes[number].kill()
        self._processes[number].wait()
        self._forget(number)

    def restart(self, number: int) -> None:
        """Start a server again after ``kill``, and wait until it answers."""
        self._launch(number)
        self._wait(number)

    def pids(self) -> list[int]:
        """Return the process ids of both servers."""
        return [process.pid for process in self._processes.values()]

    def address(self, database: str) -> str:
        """Return the address of a database on both servers."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.http_ports)
        return f"clickhouse://{hosts}/{database}?cluster={CLUSTER}"

    def _home(self, number: int) -> Path:
        return self.folder / f"shard{number}"

    def _launch(self, number: int) -> None:
        home = self._home(number)
        triplet = f"{_architecture()}-linux-gnu"
        libraries = f"{_ROOT}/usr/lib/{triplet}:{_ROOT}/lib/{triplet}"
        with open(home / "out.log", "ab") as log:
            self._processes[number] = subprocess.Popen(
                (_SERVER, f"--config-file={home}/config.xml"),
                stdout=log,
                stderr=log,
                cwd=home,
                env={**os.environ, "LD_LIBRARY_PATH": libraries},
                start_new_session=True,  # Ctrl-C in a terminal does not reach it
            )
        (home / "pid").write_text(str(self._processes[number].pid))

    def _wait(self, number: int) -> None:
        process = self._processes[number]
        deadline_s = time.monotonic() + _DEADLINE_S
        while not _answers(self.http_ports[number]):
            if process.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(
                    f"ClickHouse does not answer; see {self._home(number)}/server.err"
                )
            time.sleep(0.05)

    def _forget(self, number: int) -> None:
        self._processes.pop(number, None)
        (self._home(number) / "pid").unlink(missing_ok=True)


def _architecture() -> str:
    """Return the name of this machine's architecture as Debian's library folders have it."""
    return "aarch64" if platform.machine() == "arm64" else platform.machine()


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ping", timeout=1):
            return True
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    """Return different free ports: all are taken together before any is given back."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _stop_left_running(folder: Path) -> None:
    homes = {path.parent: int(path.read_text()) for path in folder.resolve().glob("shard*/pid")}
    for home, pid in homes.items():
        if _serves(pid, home):
            os.kill(pid, signal.SIGTERM)
    deadline_s = time.monotonic() + _DEADLINE_S
    for home, pid in homes.items():
        while _serves(pid, home):
            if time.monotonic() > deadline_s:
                raise SystemExit(f"The server with process id {pid} does not stop.")
            time.sleep(0.05)
        (home / "pid").unlink()


def _serves(pid: int, home: Path) -> bool:
    """Return True if the process is the server of this folder, and not a later one with its id."""
    try:
        return f"{home}/config.xml" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def main(arguments: list[str]) -> None:
    """Run one of the commands."""
    match arguments:
        case ["fetch"]:
            fetch()
        case ["start", folder]:
            fetch()
            shards = Shards(Path(folder))
            shards.start()
            print(shards.address("epochal"))
        case ["stop", folder]:
            _stop_left_running(Path(folder))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
