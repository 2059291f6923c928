"""What ``watch_data`` costs a loop: time for each batch, and bytes written.

``python -m benchmarks.watch_data``. Each kind of loader is iterated watched and not watched in
turn, in a loop whose steps take ``--step-ms``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

import epochal

Loader = Callable[[], DataLoader[Any]]
# The first batches of a run are all read.
_WARM_UP = 100


def main() -> None:
    """Print a table of all kinds of loaders."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--step-ms", type=float, default=50.0)
    parser.add_argument("--batches", type=int, default=200)
    arguments = parser.parse_args()
    os.environ["EPOCHAL_COMPANION"] = "0"
    os.environ["EPOCHAL_GIT"] = "0"
    torch.set_num_threads(1)
    print(f"load {os.getloadavg()[0]:.1f}; steps of {arguments.step_ms:g} ms")
    print("| loader | CPU of a batch | watched | more | share of a step | KB written |")
    print("|---|---|---|---|---|---|")
    for name, make in _loaders():
        plain: list[float] = []
        watched: list[float] = []
        written = 0.0
        for _ in range(2):
            plain.append(_cpu_ms(make(), arguments.batches, arguments.step_ms))
            with tempfile.TemporaryDirectory() as folder:
                run = epochal.init("bench", "data", dir=folder, console=False)
                loader = epochal.watch_data(make())
                watched.append(_cpu_ms(loader, arguments.batches, arguments.step_ms))
                run.finish()
                written = _data_bytes(Path(run.dir)) / 1000
        before, after = statistics.median(plain), statistics.median(watched)
        more = after - before
        print(
            f"| {name} | {before:.2f} ms | {after:.2f} ms | {more:.2f} ms "
            f"| {100 * more / arguments.step_ms:.2f} % | {written:,.0f} |",
            flush=True,
        )


def _loaders() -> Iterator[tuple[str, Loader]]:
    small = TensorDataset(torch.randn(4096, 3, 32, 32), torch.arange(4096) % 10)
    large = TensorDataset(torch.randn(256, 3, 224, 224), torch.arange(256) % 10)
    tokens = TensorDataset(torch.randint(0, 50_000, (4096, 1024)))
    yield "64 pictures of 32 x 32", lambda: DataLoader(small, 64, shuffle=True)
    yield "64 pictures of 224 x 224", lambda: DataLoader(large, 64, shuffle=True)
    yield "16 sequences of 1,024 tokens", lambda: DataLoader(tokens, 16, shuffle=True)
    yield (
        "64 pictures of 32 x 32, two workers",
        lambda: DataLoader(small, 64, shuffle=True, num_workers=2, persistent_workers=True),
    )


def _cpu_ms(loader: DataLoader[Any], batches: int, step_ms: float) -> float:
    """CPU time of this process for a batch, while steps take as long as is said."""
    spent = 0.0
    count = -_WARM_UP
    while count < batches:
        iterator = iter(loader)
        while count < batches:
            began = time.thread_time()
            if next(iterator, None) is None:
                break
            spent += time.thread_time() - began if count >= 0 else 0.0
            count += 1
            time.sleep(step_ms / 1000)
    return 1000 * spent / batches


def _data_bytes(folder: Path) -> float:
    lines = (line for path in folder.rglob("*.jsonl") for line in path.open("rb"))
    return float(sum(len(line) for line in lines if b'"log":"data"' in line[:40]))


if __name__ == "__main__":
    main()
