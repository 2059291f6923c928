"""How much a hub takes in: one stream of lines as fast as it goes, and many live runs at once.

``python -m benchmarks.hub.ingest --shippers 480 --companions 20 --seconds 120`` prints points per
second end to end and the CPU and memory of the hub. Shippers are our shipping code in this process,
each with a connection of its own. Companions are those of small trainings in processes of their
own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.hub.drill import STEM
from benchmarks.hub.faults import Hub, free_port
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder, write_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.shipper import Shipper
from epochal.store.local.store import LocalStore

METRICS = 10
TRAINING = """
import sys, time
import epochal
run = epochal.init("ingest", sys.argv[1], dir=sys.argv[2], console=False, companion=True)
began_s, seconds, step = time.monotonic(), float(sys.argv[3]), 0
while time.monotonic() - began_s < seconds:
    run.log({f"train/metric_{i}": (step * 7919 + i) % 10007 / 10007 for i in range(10)}, step=step)
    step += 1
    time.sleep(max(0.0, began_s + step / 10 - time.monotonic()))
run.finish()
"""


def line(step: int) -> bytes:
    """A record of ten scalars, as a training writes it."""
    values = ",".join(
        f'"train/metric_{i}":{(step * 7919 + i) % 10007 / 10007:.9f}' for i in range(METRICS)
    )
    head = f'"log":"metrics","t":{1.7e9 + step / 10:.3f},"step":{step}'
    return f'{{{head},"m":{{{values}}}}}\n'.encode()


def new_run(root: Path, index: int) -> RunFolder:
    """An empty run."""
    run_id = f"ingest{index:05d}"
    folder = RunFolder(root / "ingest" / run_id)
    folder.journal.mkdir(parents=True)
    write_json(folder.identity, {"v": 1, "id": run_id, "name": run_id, "project": "ingest"})
    return folder


def measure_stream(hub: psutil.Process, client: HubClient, root: Path, num_lines: int) -> str:
    """One run as fast as it goes."""
    folder = new_run(root, 99_999)
    (folder.journal / f"{STEM}.jsonl").write_bytes(b"".join(map(line, range(num_lines))))
    shipper, before = Shipper(folder, client), _cpu(hub)
    own, began_s = time.process_time(), time.monotonic()
    while not shipper.ship():
        pass
    seconds = time.monotonic() - began_s
    points = num_lines * METRICS
    return (
        f"stream: {points / seconds:,.0f} points/s end to end; CPU per 1M points: hub"
        f" {(_cpu(hub) - before) / points * 1e6:.2f} s, shipper"
        f" {(time.process_time() - own) / points * 1e6:.2f} s"
    )


def start_trainings(
    url: str, token: str, root: Path, *, num: int, seconds: float
) -> list[subprocess.Popen[bytes]]:
    """Small trainings of ten steps a second, each with its companion."""
    environ = {
        **os.environ,
        "EPOCHAL_HUB": url,
        "EPOCHAL_HUB_TOKEN": token,
        "EPOCHAL_GRACE": "120",
        "EPOCHAL_CONFIG": "off",
    }
    command = [sys.executable, "-c", TRAINING]
    return [
        subprocess.Popen([*command, f"training{index}", str(root), str(seconds)], env=environ)
        for index in range(num)
    ]


def compare_trainings(here: Path, there: Path) -> str:
    """How many steps of the trainings the hub has, once it has all or a minute has passed."""
    until_s = time.monotonic() + 60
    while True:
        sent, stored = _num_steps(here), _num_steps(there)
        if stored == sent or time.monotonic() > until_s:
            return f"companions: {stored:,} of {sent:,} steps of trainings are on the hub"
        time.sleep(1.0)


def _num_steps(root: Path) -> int:
    with LocalStore(*sorted((root / "ingest").glob("training*"))) as store:
        return sum(len(run.series("train/metric_0")) for run in store.runs())


def measure_live(
    hub: psutil.Process,
    url: str,
    token: str,
    root: Path,
    *,
    num_shippers: int,
    seconds: float,
    num_threads: int = 8,
    registered_s: float = 5.0,
) -> str:
    """Many runs of ten steps a second, each with a connection of its own.

    ``num_threads`` send at once; they begin to write after ``registered_s`` seconds.
    """
    folders = [new_run(root, index) for index in range(num_shippers)]
    files = [open(folder.journal / f"{STEM}.jsonl", "ab", buffering=0) for folder in folders]  # noqa: SIM115
    clients = [HubClient(url, token) for _ in folders]
    shippers = [Shipper(folder, client) for folder, client in zip(folders, clients, strict=True)]
    num_errors, stop = 0, threading.Event()

    def send(own: list[Shipper]) -> None:
        nonlocal num_errors
        while not stop.is_set():
            began_s = time.monotonic()
            for shipper in own:
                try:
                    shipper.ship()
                except HubError:
                    num_errors += 1
                    shipper.forget()
            stop.wait(max(0.0, began_s + 1.0 - time.monotonic()))

    threads = [
        threading.Thread(target=send, args=(shippers[i::num_threads],)) for i in range(num_threads)
    ]
    for thread in threads:
        thread.start()
    time.sleep(registered_s)
    before, began_s, steps = _cpu(hub), time.monotonic(), 0
    memory = [hub.memory_info().rss]
    while time.monotonic() - began_s < seconds:
        for _ in range(10):
            data = line(steps)
            steps += 1
            for file in files:
                file.write(data)
        if time.monotonic() - began_s > seconds * len(memory) / 6:
            memory.append(hub.memory_info().rss)
        time.sleep(max(0.0, began_s + steps / 10 - time.monotonic()))
    wrote_s = time.monotonic()
    while sum(shipper.num_lines for shipper in shippers) < steps * num_shippers:
        if time.monotonic() - wrote_s > 60:
            break
        time.sleep(0.2)
    late_s = time.monotonic() - wrote_s
    used, took = _cpu(hub) - before, time.monotonic() - began_s
    stop.set()
    for thread in threads:
        thread.join()
    sent = sum(shipper.num_lines for shipper in shippers)
    for file in files:
        file.close()
    for client in clients:
        client.close()
    return (
        f"live: {num_shippers} runs x 10 steps/s, {sent:,} of {steps * num_shippers:,} lines"
        f" acknowledged, the last {late_s:.1f} s after it was written, {num_errors} errors;"
        f" hub {used / took:.2f} cores, MiB after each sixth of the time:"
        f" {', '.join(f'{one / 2**20:.0f}' for one in memory)}"
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.ingest")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--shippers", type=int, default=500)
    parser.add_argument("--companions", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        root, port = Path(place) / "hub", free_port()
        ledger = Ledger(root)
        token = ledger.add_token("load", "write")
        ledger.close()
        hub = Hub(root, port)
        assert hub.process is not None
        process, url = psutil.Process(hub.process.pid), f"http://127.0.0.1:{port}"
        client = HubClient(url, token)
        _await(client)
        try:
            runs = Path(place) / "runs"
            print(measure_stream(process, client, runs, args.lines), flush=True)
            trainings = start_trainings(
                url, token, runs, num=args.companions, seconds=args.seconds + 10
            )
            print(
                measure_live(
                    process, url, token, runs, num_shippers=args.shippers, seconds=args.seconds
                ),
                flush=True,
            )
            for one in trainings:
                one.wait()
            if trainings:
                print(compare_trainings(runs, root))
        finally:
            client.close()
            hub.kill()
    return 0


def _await(client: HubClient) -> None:
    for _ in range(200):
        try:
            client.request("GET", "/healthz")
        except HubError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the hub did not start")


if __name__ == "__main__":
    sys.exit(main())
