from pathlib import Path

import psutil
import pytest

from epochal.telemetry.cgroup import Cgroup
from epochal.telemetry.gpu import GpuModel
from epochal.telemetry.host import HostSource, cpu_model, hardware_line


def limited(folder: Path, **files: str) -> Cgroup:
    (folder / "membership").write_text("0::/\n")
    for name, text in files.items():
        (folder / name.replace("_", ".", 1)).write_text(text)
    return Cgroup(membership=folder / "membership", mount=folder)


def unlimited(folder: Path) -> Cgroup:
    return Cgroup(membership=folder / "absent", mount=folder)


def test_first_sample_has_memory_but_no_cpu_share(tmp_path: Path) -> None:
    (sample,) = HostSource(cgroup=unlimited(tmp_path)).sample()
    assert sample.cpu_pct is None
    assert sample.ram_used is not None
    assert sample.ram_total == psutil.virtual_memory().total
    assert 0 < sample.ram_used < sample.ram_total


def test_cpu_share_appears_with_the_next_tick(tmp_path: Path) -> None:
    source = HostSource(cgroup=unlimited(tmp_path))
    source.sample()
    while (cpu_pct := source.sample()[0].cpu_pct) is None:
        pass
    assert 0 <= cpu_pct <= 100


def test_cpu_share_is_of_the_quota(tmp_path: Path) -> None:
    seconds = iter([10.0, 20.0])
    cgroup = limited(tmp_path, cpu_max="50000 100000\n", cpu_stat="usage_usec 1000000\n")
    source = HostSource(cgroup=cgroup, clock=lambda: next(seconds))
    source.sample()
    (tmp_path / "cpu.stat").write_text("usage_usec 3000000\n")
    (sample,) = source.sample()
    assert sample.cpu_pct == 40.0


def test_overdrawn_quota_is_a_full_one(tmp_path: Path) -> None:
    seconds = iter([10.0, 11.0])
    cgroup = limited(tmp_path, cpu_max="50000 100000\n", cpu_stat="usage_usec 0\n")
    source = HostSource(cgroup=cgroup, clock=lambda: next(seconds))
    source.sample()
    (tmp_path / "cpu.stat").write_text("usage_usec 900000\n")
    assert source.sample()[0].cpu_pct == 100.0


def test_memory_limit_below_the_machines_replaces_it(tmp_path: Path) -> None:
    cgroup = limited(tmp_path, memory_max="1048576\n", memory_current="4096\n")
    (sample,) = HostSource(cgroup=cgroup).sample()
    assert (sample.ram_used, sample.ram_total) == (4096, 1048576)


def test_memory_limit_above_the_machines_changes_nothing(tmp_path: Path) -> None:
    cgroup = limited(tmp_path, memory_max=f"{1 << 59}\n", memory_current="4096\n")
    (sample,) = HostSource(cgroup=cgroup).sample()
    assert sample.ram_total == psutil.virtual_memory().total


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
