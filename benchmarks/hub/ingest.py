"""How much a hub takes in: one stream of lines as fast as it goes, and many live runs at once.

``python -m benchmarks.hub.ingest --shippers 480 --companions 20 --seconds 120`` prints points per
second end to end and the CPU and memory of the hub. Shippers are the shipping threads of companions
in this process, each with a connection of its own. Companions are those of small trainings in
processes of their own. Some event streams of the hub's page are read, in other processes: how old
is a value when it comes?

``--rate 1 --seconds 3600`` is a load of an hour: what matters then is the memory at its start and
at its end.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil

import epochal
from benchmarks.hub.drill import STEM
from benchmarks.hub.faults import Hub, free_port
from benchmarks.hub.watch import Watchers
from epochal.journal.layout import RunFolder, write_json
from epochal.journal.line import encode_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.shipper import Shipper
from epochal.shipping.worker import ShippingWorker

METRICS = 10
_NUM_WATCHERS = 10
# Trainings and their companions start within about so long.
_STARTED_S = 40.0
_MEMORY_EVERY_S = 10.0
# Companions say in their environment which load they belong to.
_OWNER = "BENCHMARK_PROCESS"
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


def line(step: int, time_s: float | None = None) -> bytes:
    """A record of ten scalars, as a training writes it."""
    written_s = 1.7e9 + step / 10 if time_s is None else time_s
    values = {
        f"train/metric_{i}": round((step * 7919 + i) % 10007 / 10007, 9) for i in range(METRICS)
    }
    head = {"log": "metrics", "t": round(written_s, 3), "step": step}
    return encode_json({**head, "m": values}) + b"\n"


def new_run(root: Path, index: int) -> RunFolder:
    """An empty run."""
    run_id = f"ingest{index:05d}"
    folder = RunFolder(root / "ingest" / run_id)
    folder.journal.mkdir(parents=True)
    identity = {"v": 1, "id": run_id, "name": run_id, "project": "ingest", "created": time.time()}
    write_json(folder.identity, identity)
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
        _OWNER: str(os.getpid()),
    }
    command = [sys.executable, "-c", TRAINING]
    return [
        subprocess.Popen([*command, f"training{index}", str(root), str(seconds)], env=environ)
        for index in range(num)
    ]


def started(client: HubClient, num: int) -> list[str]:
    """The ids of the runs of the trainings, once the hub has all of them."""
    while num:
        rows = client.get_json("/api/runs?limit=1000")["rows"]
        found = [str(row["id"]) for row in rows if str(row["name"]).startswith("training")]
        if len(found) == num:
            time.sleep(2.0)
            return found
        time.sleep(0.5)
    return []


def memory_of_companions() -> list[int]:
    """How much memory each companion of a training of this process uses, in MiB."""
    found = psutil.process_iter(["cmdline"])
    ours = [one for one in found if str(os.getpid()) in _environ(one).get(_OWNER, "")]
    companions = [one for one in ours if "epochal.companion" in (one.info["cmdline"] or ())]
    return [one.memory_info().rss >> 20 for one in companions]


def _environ(process: psutil.Process) -> dict[str, str]:
    with contextlib.suppress(psutil.Error):
        return process.environ()
    return {}


def compare_trainings(here: Path, url: str, token: str) -> str:
    """How many steps of the trainings the hub has, once it has all or a minute has passed."""
    until_s = time.monotonic() + 60
    while True:
        sent = _num_steps(epochal.open(here))
        stored = _num_steps(epochal.open(url, token=token))
        if stored == sent or time.monotonic() > until_s:
            return f"companions: {stored:,} of {sent:,} steps of trainings are on the hub"
        time.sleep(1.0)


def _num_steps(runs: epochal.Runs) -> int:
    trainings = (run for run in runs if run.name.startswith("training"))
    return sum(len(run.series("train/metric_0")) for run in trainings)


def measure_live(
    hub: psutil.Process,
    url: str,
    token: str,
    root: Path,
    *,
    num_shippers: int,
    seconds: float,
    rate: float = 10.0,
    registered_s: float = 10.0,
) -> str:
    """Many runs of some steps a second, each shipped as a companion does: a thread, a connection.

    They start one after the other within ``registered_s`` seconds, then all begin to write.
    """
    reasons: Counter[str] = Counter()
    folders = [new_run(root, index) for index in range(num_shippers)]
    files = [open(folder.journal / f"{STEM}.jsonl", "ab", buffering=0) for folder in folders]  # noqa: SIM115
    workers = [
        ShippingWorker(
            folder, HubClient(url, token), on_error=lambda one: reasons.update([one[-80:]])
        )
        for folder in folders
    ]
    for worker in workers:
        worker.start()
        time.sleep(registered_s / num_shippers)
    time.sleep(2.0)
    written_s: list[float] = []
    some = folders[:: max(1, num_shippers // _NUM_WATCHERS)]
    watchers = Watchers(url, token, [folder.path.name for folder in some])
    before, began_s, steps = _cpu(hub), time.monotonic(), 0
    own_s, idle_s = time.process_time(), psutil.cpu_times().idle
    longest_s = 0.0
    memory, every_s = [hub.memory_info().rss], max(_MEMORY_EVERY_S, seconds / 24)
    companions = memory_of_companions()
    while time.monotonic() - began_s < seconds:
        written_s.append(time.time())
        data = line(steps, written_s[-1])
        steps += 1
        for file in files:
            file.write(data)
        if time.monotonic() - began_s > every_s * len(memory):
            memory.append(hub.memory_info().rss)
        time.sleep(max(0.0, began_s + steps / rate - time.monotonic()))
        have = min(worker.num_lines for worker in workers)
        if have < steps:
            longest_s = max(longest_s, time.time() - written_s[have])
    wrote_s = time.monotonic()
    while sum(worker.num_lines for worker in workers) < steps * num_shippers:
        if time.monotonic() - wrote_s > 60:
            break
        time.sleep(0.2)
    late_s = time.monotonic() - wrote_s
    used, took = _cpu(hub) - before, time.monotonic() - began_s
    own_s, idle_s = time.process_time() - own_s, psutil.cpu_times().idle - idle_s
    for worker in workers:
        worker.stop()
    for worker in workers:
        worker.join(60.0)
    sent = sum(worker.num_lines for worker in workers)
    with contextlib.closing(HubClient(url, token)) as client:
        parts = [client.state(folder.path.name).parts.get(STEM) for folder in folders]
    stored = sum(part.lines for part in parts if part is not None)
    ages = watchers.close()
    for file in files:
        file.close()
    return (
        f"live: {num_shippers} runs x {steps / took:.1f} steps/s, {sent:,} of"
        f" {steps * num_shippers:,} lines acknowledged, {stored:,} of them are on the hub, the last"
        f" was acknowledged {late_s:.1f} s after it was"
        f" written, the oldest that was not yet {longest_s:.1f} s old, {reasons.total()} errors"
        f" {dict(reasons.most_common(3)) or ''}; {ages};"
        f" hub {used / took:.2f} cores, this process {own_s / took:.2f}, idle {idle_s / took:.2f};"
        f" MiB of the hub every {every_s:.0f} s:"
        f" {', '.join(f'{one / 2**20:.0f}' for one in memory)};"
        f" MiB of companions at the start {companions}, at the end {memory_of_companions()}"
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
    parser.add_argument("--rate", type=float, default=10.0, help="steps a second of each shipper")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        root = Path(place) / "hub"
        port = free_port()
        hub = Hub(root, port)
        stack.callback(hub.kill)
        token = hub.add_token("load")
        assert hub.process is not None
        process, url = psutil.Process(hub.process.pid), f"http://127.0.0.1:{port}"
        client = HubClient(url, token)
        _await(client)
        try:
            runs = Path(place) / "runs"
            print(measure_stream(process, client, runs, args.lines), flush=True)
            trainings = start_trainings(
                url, token, runs, num=args.companions, seconds=args.seconds + _STARTED_S
            )
            watchers = Watchers(url, token, started(client, args.companions))
            if args.shippers:
                live = measure_live(
                    process,
                    url,
                    token,
                    runs,
                    num_shippers=args.shippers,
                    seconds=args.seconds,
                    rate=args.rate,
                )
                print(live, flush=True)
            ages = watchers.close()
            for one in trainings:
                one.wait()
            if trainings:
                print(f"trainings: {ages}", flush=True)
                print(compare_trainings(runs, url, token))
        finally:
            client.close()
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
