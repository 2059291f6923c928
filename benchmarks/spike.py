"""`python -m benchmarks.spike`: does a page show a spike of one step in ten million?

Each tool's own server is asked for the points of a chart, as its page asks. W&B is not among
them: its charts need its server.
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from benchmarks.environments import clean_environment, tool_python
from benchmarks.hub.faults import free_port
from benchmarks.measures.serving import SPIKE, highest, run_ids, series
from benchmarks.run_folders import seal, settle, write_run
from benchmarks.served import serving

LIMIT_S = 1200.0

TENSORBOARD_WRITES = """
import sys
from pathlib import Path
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter
steps, at, spike = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
folder = Path(sys.argv[1], "run")
folder.mkdir()
with open(folder / "events.out.tfevents.1700000000.host", "wb") as file:
    writer = RecordWriter(file)
    for step in range(steps):
        value = Summary.Value(tag="loss", simple_value=spike if step == at else 0.5)
        event = Event(wall_time=1.7e9 + step, step=step, summary=Summary(value=[value]))
        writer.write(event.SerializeToString())
"""

TRACKIO_WRITES_AND_READS = """
import os, sys
os.environ["TRACKIO_DIR"] = sys.argv[1]
from trackio.server import get_logs_batch
from trackio.sqlite_storage import SQLiteStorage
steps, at, spike = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
for first in range(0, steps, 100_000):
    chunk = list(range(first, min(first + 100_000, steps)))
    losses = [{"loss": spike if step == at else 0.5} for step in chunk]
    SQLiteStorage.bulk_log("bench", "run", losses, steps=chunk)
(answer,) = get_logs_batch("bench", [{"run": "run"}])
assert answer["logs"][-1]["step"] == steps - 1
print(max(row["loss"] for row in answer["logs"]))
"""


def main() -> int:
    """Print, for each tool, the highest value on its chart."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spike")
    parser.add_argument("--steps", type=int, default=10_000_000)
    steps: int = parser.parse_args().steps
    for tool in (epochal, tensorboard, trackio):
        with tempfile.TemporaryDirectory() as folder:
            highest = tool(Path(folder), steps, steps * 2 // 3 + 7)
        print(f"{tool.__name__}: {'shown' if highest == SPIKE else 'not shown'}", flush=True)
    return 0


def epochal(folder: Path, steps: int, at: int) -> float:
    """The highest value of the chart that Epochal's server gives its page."""
    write_run(folder, "run", steps=steps, metrics=1, spike=at)
    settle(folder)
    seal(folder)
    with serving(folder) as server:
        return highest(series(server, run_ids(server), "loss"))


def tensorboard(folder: Path, steps: int, at: int) -> float:
    """The highest value that `tensorboard` gives its page, once it has read the last step."""
    writes = [sys.executable, "-c", TENSORBOARD_WRITES, str(folder), str(steps), str(at)]
    subprocess.run([*writes, str(SPIKE)], check=True)
    with _tensorboard(folder) as port:
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            points = _answer(port, "/data/plugin/scalars/scalars?run=run&tag=loss")
            if points and points[-1][1] == steps - 1:
                return max(float(value) for _, _, value in points)
            time.sleep(1)
    raise TimeoutError(f"TensorBoard did not read {steps:,} steps in {LIMIT_S:.0f} s")


@contextmanager
def _tensorboard(folder: Path) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(folder)]
    with subprocess.Popen([*command, "--port", str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            yield port
        finally:
            process.terminate()


def _answer(port: int, path: str) -> list[list[float]]:
    """The points of a chart, or nothing while the server does not have them."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as connection:
        try:
            connection.request("GET", path)
            response = connection.getresponse()
        except ConnectionRefusedError:
            return []
        body = response.read()
    return json.loads(body) if response.status == http.client.OK else []


def trackio(folder: Path, steps: int, at: int) -> float:
    """The highest value of what Trackio's page asks its server for."""
    python = tool_python("trackio")
    assert python is not None, "Trackio could not be installed"
    work = [str(python), "-c", TRACKIO_WRITES_AND_READS, str(folder), str(steps), str(at)]
    environment = {**clean_environment(), "HOME": str(folder)}
    answer = subprocess.run(
        [*work, str(SPIKE)], capture_output=True, text=True, check=True, env=environment
    )
    return float(answer.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
