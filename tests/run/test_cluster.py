"""A training on two machines: real processes with two host names that wait for one another.

``unshare`` gives a process a host name of its own. A rank that is stopped, slowed down or killed
holds up the others, as in a training with collective operations.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.health.finding import Finding
from epochal.store.local.catalog import folder_store
from epochal.store.row import latest_findings
from epochal.store.run import RunView

_UNSHARE = ["unshare", "--user", "--map-root-user", "--uts", "sh", "-c"]
_HOSTS = ("node-a", "node-a", "node-b", "node-b")
_RANK = """
import pathlib, socket, sys, time
import epochal

folder, port, work_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
saved = pathlib.Path(folder, "checkpoint")
step = int(saved.read_text()) + 1 if saved.exists() else 0
resume = {"resume": "must", "resume_step": step} if step else {}
run = epochal.init("cluster", "job", dir=folder, console=False, companion=True, **resume)
others = socket.create_connection(("127.0.0.1", port), timeout=300)
answer = b"go"
while answer == b"go":
    begun = time.perf_counter()
    time.sleep(work_s)
    own_ms = 1000 * (time.perf_counter() - begun)
    others.sendall(step.to_bytes(8, "big"))  # its part of the exchange begins
    run.log_step(step, None, 1, own_ms, None, 1.0, None)
    answer = others.recv(2)  # and ends when all ranks have sent theirs
    if run.rank == 0 and step % 20 == 19 and answer:
        saved.write_text(str(step))
        run.event("checkpoint", step=step, path=str(saved))
    step += 1
if not answer:
    raise ConnectionError("a rank is gone")
run.finish()
"""


def has_host_names() -> bool:
    with contextlib.suppress(OSError):
        return subprocess.run([*_UNSHARE, "hostname node-a"], check=False).returncode == 0
    return False


pytestmark = pytest.mark.skipif(not has_host_names(), reason="this system has no UTS namespaces")


class Cluster:
    """Ranks on two hosts, and what they exchange their gradients through."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reached = -1
        self.ranks: list[subprocess.Popen[bytes]] = []
        self._is_ending = False
        self._exchange: threading.Thread | None = None

    def start(self, ranks: int, *, slow: int | None = None) -> None:
        """Start the ranks; one may take ten times as long as the others for its work."""
        self._is_ending = False
        server = socket.create_server(("127.0.0.1", 0))
        self._exchange = threading.Thread(target=self._answer, args=(server, ranks))
        self._exchange.start()
        hosts = _HOSTS[:: 4 // ranks]
        for rank, host in enumerate(hosts):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "WORLD_SIZE": str(ranks),
                "LOCAL_RANK": str(hosts[:rank].count(host)),
                "MASTER_ADDR": "localhost",
                "MASTER_PORT": str(server.getsockname()[1]),
                "EPOCHAL_GIT": "0",
            }
            on_host = [*_UNSHARE, f'hostname {host} && exec "$@"', "sh"]
            work_s = 0.03 if rank == slow else 0.003
            arguments = [str(self.folder), str(server.getsockname()[1]), str(work_s)]
            self.ranks.append(
                subprocess.Popen(
                    [*on_host, sys.executable, "-c", _RANK, *arguments],
                    env=environment,
                    cwd=self.folder,
                )
            )

    def _answer(self, server: socket.socket, ranks: int) -> None:
        """Answer every rank when all of them have sent a step; a rank that is gone ends it."""
        with contextlib.ExitStack() as stack, contextlib.suppress(ConnectionError):
            stack.enter_context(server)
            server.settimeout(120)
            lines = [stack.enter_context(server.accept()[0]) for _ in range(ranks)]
            while all(sent := [line.recv(8) for line in lines]):
                answer = b"no" if self._is_ending else b"go"
                for line in lines:
                    line.sendall(answer)
                self.reached = int.from_bytes(sent[0], "big")
                if answer == b"no":
                    return

    def end(self) -> None:
        """Let all ranks finish after the same step."""
        self._is_ending = True
        assert [rank.wait(120) for rank in self.ranks] == [0] * len(self.ranks)
        self._forget()

    def kill(self, rank: int) -> None:
        """Kill a rank; the others fail because they wait for it."""
        self.ranks[rank].kill()
        assert all(process.wait(120) for process in self.ranks)
        self._forget()

    def _forget(self) -> None:
        assert self._exchange is not None
        self._exchange.join(120)
        self.ranks.clear()

    def wait(self, is_so: Callable[[], object]) -> None:
        """Wait for a condition while all ranks run."""
        deadline = time.monotonic() + 240
        while not is_so():
            assert all(rank.poll() is None for rank in self.ranks), "a rank has ended by itself"
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.1)

    def run(self) -> RunView:
        return folder_store(self.folder).run("job")

    def findings(self, rule: str) -> list[Finding]:
        if not (self.folder / "cluster" / "job" / "journal").is_dir():
            return []
        records = [(e.position.attempt, e.record) for e in self.run().entries("finding")]
        return [one for one in latest_findings(records, attempts=1) if one.rule == rule]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "epochal.toml").write_text("[rules.silent-run]\nmin_s = 2.0\nlongest = 1.5\n")
    made = Cluster(tmp_path)
    yield made
    for rank in made.ranks:
        rank.kill()
        rank.wait()


def test_findings_name_the_rank_that_is_slow_and_the_one_that_stopped(cluster: Cluster) -> None:
    cluster.start(4, slow=2)
    cluster.wait(lambda: cluster.findings("straggler"))
    (slow,) = cluster.findings("straggler")
    assert slow.sentence.startswith("All ranks wait for rank 2 on node-b: it takes ")
    assert (slow.evidence["rank"], slow.evidence["host"]) == (2, "node-b")

    cluster.ranks[1].send_signal(signal.SIGSTOP)
    cluster.wait(lambda: cluster.findings("silent-run"))
    (silent,) = cluster.findings("silent-run")
    assert "The first to stop was rank 1 on node-a; the last of the others" in silent.sentence
    assert silent.state == "open"

    cluster.ranks[1].send_signal(signal.SIGCONT)
    cluster.wait(lambda: cluster.findings("silent-run")[0].state == "closed")
    cluster.end()


def test_goodput_has_the_work_that_a_killed_rank_cost(
    cluster: Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.start(2)
    cluster.wait(lambda: cluster.reached >= 110)
    cluster.kill(1)
    saved = int((cluster.folder / "checkpoint").read_text())
    crashed = cluster.run()
    assert crashed.info.step is not None
    lost_steps = crashed.info.step - saved
    goodput = crashed.goodput()
    assert goodput is not None
    assert (goodput.restarts, goodput.lost_steps) == (0, lost_steps)
    assert goodput.text.endswith("lost after the last checkpoint") is (lost_steps > 0)

    cluster.start(2)
    cluster.wait(lambda: cluster.reached >= saved + 60)
    cluster.end()
    goodput = cluster.run().goodput()
    assert goodput is not None
    assert (goodput.restarts, goodput.lost_steps) == (1, lost_steps)
    assert 0 < goodput.share < 1
    assert goodput.down_s > 0
    assert (goodput.lost_s > 0) is (lost_steps > 0)
    rest = goodput.startup_s + goodput.paused_s + goodput.down_s + goodput.lost_s
    assert goodput.productive_s + rest == pytest.approx(goodput.wall_s, abs=0.01)
    assert main(["--dir", str(cluster.folder), "show", "job", "--all"]) == 0
    assert f"  goodput       {goodput.text}\n" in capsys.readouterr().out
