import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from epochal.telemetry.gpu import GpuModel
from epochal.telemetry.host import (
    Cgroup,
    DiskSource,
    HostSource,
    NetworkSource,
    ProcessSource,
    Rates,
    cpu_model,
    hardware_line,
)


def limited(folder: Path, **files: str) -> Cgroup:
    (folder / "membership").write_text("0::/\n")
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return Cgroup(membership=folder / "membership", mount=folder)


def unlimited(folder: Path) -> Cgroup:
    return Cgroup(membership=folder / "absent", mount=folder)


def test_first_sample_has_memory_but_no_cpu_share(tmp_path: Path) -> None:
    readings = HostSource(cgroup=unlimited(tmp_path)).sample()
    assert readings.keys() == {"ram_used", "ram_total"}
    assert 0 < readings["ram_used"] < readings["ram_total"] == psutil.virtual_memory().total


def test_cpu_share_appears_with_the_next_tick(tmp_path: Path) -> None:
    source = HostSource(cgroup=unlimited(tmp_path))
    source.sample()
    while (cpu_pct := source.sample().get("cpu_pct")) is None:
        pass
    assert 0 <= cpu_pct <= 100


def test_cpu_share_is_of_the_quota(tmp_path: Path) -> None:
    seconds = iter([10.0, 20.0])
    cgroup = limited(tmp_path, cpu_max="50000 100000\n", cpu_stat="usage_usec 1000000\n")
    source = HostSource(cgroup=cgroup, clock=lambda: next(seconds))
    source.sample()
    (tmp_path / "cpu.stat").write_text("usage_usec 3000000\n")
    assert source.sample()["cpu_pct"] == 40.0


def test_overdrawn_quota_is_a_full_one(tmp_path: Path) -> None:
    seconds = iter([10.0, 11.0])
    cgroup = limited(tmp_path, cpu_max="50000 100000\n", cpu_stat="usage_usec 0\n")
    source = HostSource(cgroup=cgroup, clock=lambda: next(seconds))
    source.sample()
    (tmp_path / "cpu.stat").write_text("usage_usec 900000\n")
    assert source.sample()["cpu_pct"] == 100.0


def test_memory_limit_below_the_machines_replaces_it(tmp_path: Path) -> None:
    cgroup = limited(tmp_path, memory_max="1048576\n", memory_current="4096\n")
    assert HostSource(cgroup=cgroup).sample() == {"ram_used": 4096, "ram_total": 1048576}


def test_memory_limit_above_the_machines_changes_nothing(tmp_path: Path) -> None:
    cgroup = limited(tmp_path, memory_max=f"{1 << 59}\n", memory_current="4096\n")
    assert HostSource(cgroup=cgroup).sample()["ram_total"] == psutil.virtual_memory().total


def test_hardware_line_names_cpu_memory_and_gpus(tmp_path: Path) -> None:
    cgroup = limited(tmp_path, memory_max=f"{int(0.4 * 1024**3)}\n")
    gpus = [
        GpuModel(id=0, name="NVIDIA H200", memory=150_754_820_096),
        GpuModel(id=1, name="NVIDIA H200", memory=150_754_820_096),
        GpuModel(id=2, name="NVIDIA H100 80GB HBM3", memory=85_520_809_984),
        GpuModel(id=3),
    ]
    host, *rest = hardware_line(gpus=gpus, cgroup=cgroup).split(" | ")
    assert host.startswith(f"{cpu_model()}, ")
    assert host.endswith(" threads, 1 GB")
    assert rest == ["2x NVIDIA H200 141 GB", "NVIDIA H100 80GB HBM3", "GPU 3"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("AMD EPYC 7B13 64-Core Processor", "AMD EPYC 7B13"),
        ("Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz", "Intel Core i7-8550U"),
    ],
)
def test_cpu_model_is_short(tmp_path: Path, written: str, shown: str) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nmodel name\t: {written}\nflags\t: fpu\n")
    assert cpu_model(tmp_path / "cpuinfo") == shown


def test_cpu_without_a_name_has_an_architecture(tmp_path: Path) -> None:
    assert cpu_model(tmp_path / "absent")


# -- rates, disks and network -------------------------------------------------------------------


def ticking(*seconds: float) -> Callable[[], float]:
    times = iter(seconds)
    return lambda: next(times)


def test_a_rate_needs_two_looks_and_time_between_them() -> None:
    rates = Rates(ticking(0.0, 2.0, 2.0))
    assert rates.since_last({"read": 100}) == {}
    assert rates.since_last({"read": 300}) == {"read": 100}
    assert rates.since_last({"read": 400}) == {}


def test_a_counter_that_steps_back_or_is_new_has_no_rate() -> None:
    rates = Rates(ticking(0.0, 1.0))
    rates.since_last({"read": 100})
    assert rates.since_last({"read": 10, "write": 5}) == {}


def test_free_space_is_that_of_the_folder(tmp_path: Path) -> None:
    readings = DiskSource(tmp_path).sample()
    assert 0 < readings["disk_free"] <= readings["disk_total"]
    assert "disk_read" not in readings
    assert "disk_free" not in DiskSource(tmp_path / "gone").sample()


def test_rates_are_over_every_interface_but_the_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    def counters(*, pernic: bool) -> dict[str, SimpleNamespace]:
        assert pernic
        at = next(received)
        return {
            "lo": SimpleNamespace(bytes_recv=at * 100, bytes_sent=0),
            "eth0": SimpleNamespace(bytes_recv=at, bytes_sent=7),
            "ib0": SimpleNamespace(bytes_recv=at, bytes_sent=7),
        }

    received = iter([100, 300])
    monkeypatch.setattr(psutil, "net_io_counters", counters)
    source = NetworkSource(clock=ticking(0.0, 2.0))
    assert source.sample() == {}
    assert source.sample() == {"net_rx": 200, "net_tx": 0}
    monkeypatch.setattr(psutil, "net_io_counters", lambda pernic: {})
    assert source.sample() == {}


# -- processes ----------------------------------------------------------------------------------


@contextmanager
def waiting_child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-S", "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_a_process_and_its_children_are_counted_apart() -> None:
    source = ProcessSource(os.getpid())
    before = source.sample()
    with waiting_child() as child:
        during = source.sample()
        without = ProcessSource(os.getpid(), without={child.pid}).sample()
    assert before["rss"] > 1_000_000
    assert before["threads"] >= 1
    assert during["children"] == before["children"] + 1 == without["children"] + 1
    assert during["children_rss"] > before["children_rss"]
    assert source.sample()["children"] == before["children"]


def test_cpu_is_that_of_the_tree_since_the_last_sample() -> None:
    source = ProcessSource(os.getpid(), clock=ticking(10.0, 12.0))
    assert "process_cpu_pct" not in source.sample()
    sum(i * i for i in range(1_000_000))
    assert source.sample()["process_cpu_pct"] > 0


def test_a_process_that_ended_has_no_readings_also_before_it_is_collected() -> None:
    with waiting_child() as child:
        source = ProcessSource(child.pid)
        assert source.sample()
        child.kill()
        while source.sample():
            pass
    assert source.sample() == {}
    assert ProcessSource(2**22 + 1).sample() == {}  # beyond the largest number Linux gives out
