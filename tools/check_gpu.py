"""Checks GPU telemetry against a real GPU: what each reading is, what it costs, who asks.

    python tools/check_gpu.py [--seconds 30]

Loads the GPU with matrix products where PyTorch is installed. Exits with 1 when a reading is
outside what the hardware can be, or when the companion's records are not what they should be.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.records import KINDS
from epochal.telemetry.gpu import GpuSample, GpuSource
from epochal.telemetry.machine_gpus import MachineGpus

SANE: dict[str, tuple[float, float]] = {
    "clock": (100, 4000),
    "max_clock": (500, 4000),
    "power": (5_000, 2_000_000),
    "power_limit": (20_000, 2_000_000),
    "temperature": (5, 110),
    "temp_slowdown": (60, 120),
    "gpu_util": (0, 100),
    "mem_util": (0, 100),
    "dram_free": (0, 1 << 40),
    "dram_used": (0, 1 << 40),
    "dram_total": (1 << 30, 1 << 40),
    "pcie_rx": (0, 200e9),
    "pcie_tx": (0, 200e9),
    "fan": (0, 100),
    "sm_active": (0, 100),
    "tensor_active": (0, 100),
    "dram_active": (0, 100),
    "energy": (0, 1e9),
    "ecc_corrected": (0, 1e12),
    "ecc_uncorrected": (0, 1e12),
}

LOAD = """
import os, sys, time
import epochal
run = epochal.init("check", "gpu", dir=sys.argv[1], console=False, companion=True)
until = time.monotonic() + float(sys.argv[2])
a = None
try:
    import torch
    if torch.cuda.is_available():  # ROCm calls itself cuda too
        a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
except ImportError:
    pass
step = 0
while time.monotonic() < until:
    if a is None:
        time.sleep(0.1)
    else:
        for _ in range(20):
            b = a @ a
        torch.cuda.synchronize()
    run.log({"step_done": 1}, step=step)
    step += 1
run.finish()
print("steps", step)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30.0)
    args = parser.parse_args()
    source = MachineGpus()
    if not source.probe():
        print(f"no GPU: {source.why_absent}")
        return 1
    for model in source.gpu_models():
        print(model)
    faults = [*check_idle(source), *check_run(source, args.seconds)]
    source.close()
    for fault in faults:
        print(f"FAULT: {fault}")
    return int(bool(faults))


def check_idle(source: GpuSource) -> list[str]:
    source.sample()
    cpu_s, wall_s, num = time.process_time(), 0.0, 5
    samples: list[GpuSample] = []
    for _ in range(num):
        time.sleep(1.0)
        began = time.monotonic()
        samples += source.sample()
        wall_s += time.monotonic() - began
    cpu_s = time.process_time() - cpu_s
    print(f"one full sample: {1e3 * cpu_s / num:.1f} ms of CPU, {1e3 * wall_s / num:.1f} ms long")
    print(f"failures: {source.failures}, last: {source.last_failure}")
    return [fault for sample in samples[-1:] for fault in check_sample(sample)]


def check_sample(sample: GpuSample) -> list[str]:
    """Print every reading of one GPU; the readings that no GPU can have are faults."""
    units = {field.name: field.unit for field in KINDS["gpu"].fields}
    faults = []
    for name, value in asdict(sample).items():
        if value is None:
            continue
        print(f"  {name:<16} {value} {units.get(name, '')}".rstrip())
        low, high = SANE.get(name, (float("-inf"), float("inf")))
        if isinstance(value, (int, float)) and not low <= value <= high:
            faults.append(f"{name}={value} is outside {low:g} to {high:g}")
    return faults


def check_run(source: GpuSource, seconds: float) -> list[str]:
    """Train for a while with a companion, and look at what it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", LOAD, folder, str(seconds)]
        # In a folder without settings: those of a project are not checked here.
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, "EPOCHAL_GIT": "0"})
        time.sleep(seconds / 2)
        pids = source.pids()
        print(f"process {process.pid}; the driver sees {pids}; under load:")
        faults = [fault for sample in source.sample() for fault in check_sample(sample)]
        if process.wait() != 0:
            faults.append(f"the training ended with {process.returncode}")
        time.sleep(3.0)
        records = [r for _, r in read_journal(RunFolder(Path(folder) / "check" / "gpu"))]
    return faults + check_records(records)


def check_records(records: list[dict[str, Any]]) -> list[str]:
    gpus = [record for record in records if record["log"] == "gpu"]
    for record in records:
        if record["log"] in ("gpu", "gpu-model", "system") or record.get("name") in (
            *("hardware", "telemetry", "companion-failed"),
        ):
            print(record)
    faults = [] if gpus else ["the companion wrote no gpu record"]
    for record in gpus:
        for name, low in record.get("min", {}).items():
            if not low <= record[name] + 0.5 <= record["max"][name] + 1:
                faults.append(f"{name}: {low} to {record['max'][name]} without {record[name]}")
    costs = [r["epochal_cpu_pct"] for r in records if "epochal_cpu_pct" in r]
    print(f"epochal itself: {costs} % of one core")
    return faults


if __name__ == "__main__":
    sys.exit(main())
