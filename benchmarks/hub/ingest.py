"""How much a hub takes in: one stream of lines as fast as it goes, and many live runs at once.

``python -m benchmarks.hub.ingest --shippers 500 --seconds 20`` prints points per second end to end
and the CPU and memory of the hub.
"""

from __future__ import annotations

import argparse
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

METRICS = 10


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


def measure_live(
    hub: psutil.Process, url: str, token: str, root: Path, *, num_shippers: int, seconds: float
) -> str:
    """Many runs of ten steps a second, each with a connection of its own."""
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

    threads = [threading.Thread(target=send, args=(shippers[i::8],)) for i in range(8)]
    for thread in threads:
        thread.start()
    time.sleep(5.0)  # registered
    before, began_s, steps = _cpu(hub), time.monotonic(), 0
    memory = hub.memory_info().rss
    while time.monotonic() - began_s < seconds:
        for _ in range(10):
            data = line(steps)
            steps += 1
            for file in files:
                file.write(data)
        time.sleep(max(0.0, began_s + steps / 10 - time.monotonic()))
    time.sleep(3.0)
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
        f" acknowledged, {num_errors} errors; hub {used / took:.2f} cores,"
        f" {hub.memory_info().rss / 2**20:.0f} MiB ({memory / 2**20:.0f} before)"
    )


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.ingest")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--shippers", type=int, default=500)
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
            print(
                measure_live(
                    process, url, token, runs, num_shippers=args.shippers, seconds=args.seconds
                )
            )
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
