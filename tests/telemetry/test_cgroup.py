from pathlib import Path

import pytest

from epochal.telemetry.host import Cgroup


def group(tmp_path: Path, *, membership: str, files: dict[str, str]) -> Cgroup:
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        file = tmp_path / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return Cgroup(membership=tmp_path / "membership", mount=tmp_path / "mount")


def test_version_2_quota_is_cores_and_its_use_is_seconds(tmp_path: Path) -> None:
    files = {"job/cpu.max": "150000 100000\n", "job/cpu.stat": "usage_usec 2500000\nuser_usec 1\n"}
    quota = group(tmp_path, membership="0::/job\n", files=files).cpu_quota()
    assert quota is not None
    assert quota.cores == 1.5
    assert quota.used_s() == 2.5


def test_version_2_memory_leaves_out_idle_file_pages(tmp_path: Path) -> None:
    files = {
        "job/memory.max": "4096\n",
        "job/memory.current": "3000\n",
        "job/memory.stat": "anon 5\ninactive_file 1000\n",
    }
    limit = group(tmp_path, membership="0::/job\n", files=files).memory_limit()
    assert limit is not None
    assert limit.limit_bytes == 4096
    assert limit.used_bytes() == 2000


def test_tightest_limit_on_the_way_up_wins(tmp_path: Path) -> None:
    files = {
        "job/memory.max": "1000\n",
        "job/step/memory.max": "9000\n",
        "job/step/task/memory.max": "max\n",
    }
    limit = group(tmp_path, membership="0::/job/step/task\n", files=files).memory_limit()
    assert limit is not None
    assert limit.limit_bytes == 1000
    assert limit.usage_file.parent.name == "job"


def test_version_1_reads_each_controller_at_its_own_path(tmp_path: Path) -> None:
    files = {
        "cpu/a/cpu.cfs_quota_us": "200000\n",
        "cpu/a/cpu.cfs_period_us": "100000\n",
        "cpuacct/a/cpuacct.usage": "1500000000\n",
        "memory/b/memory.limit_in_bytes": "8192\n",
        "memory/b/memory.usage_in_bytes": "8000\n",
        "memory/b/memory.stat": "total_inactive_file 500\n",
    }
    membership = "4:memory:/b\n2:cpu,cpuacct:/a\n"
    cgroup = group(tmp_path, membership=membership, files=files)
    quota, limit = cgroup.cpu_quota(), cgroup.memory_limit()
    assert quota is not None
    assert limit is not None
    assert (quota.cores, quota.used_s()) == (2.0, 1.5)
    assert (limit.limit_bytes, limit.used_bytes()) == (8192, 7500)


def test_path_of_the_host_falls_back_to_the_mount(tmp_path: Path) -> None:
    files = {"memory.max": "4096\n"}
    limit = group(tmp_path, membership="0::/docker/0123\n", files=files).memory_limit()
    assert limit is not None
    assert limit.limit_bytes == 4096


@pytest.mark.parametrize(
    ("membership", "files"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n", "memory.max": "max\n"}),
        (
            "2:cpu:/\n4:memory:/\n",
            {
                "cpu/cpu.cfs_quota_us": "-1\n",
                "cpu/cpu.cfs_period_us": "100000\n",
                "memory/memory.limit_in_bytes": "9223372036854771712\n",
            },
        ),
        ("", {}),
        ("not a line", {}),
    ],
)
def test_nothing_limits(tmp_path: Path, membership: str, files: dict[str, str]) -> None:
    cgroup = group(tmp_path, membership=membership, files=files)
    assert cgroup.cpu_quota() is None
    assert cgroup.memory_limit() is None


def test_usage_that_cannot_be_read_is_absent(tmp_path: Path) -> None:
    files = {"cpu.max": "100000 100000\n", "memory.max": "4096\n"}
    cgroup = group(tmp_path, membership="0::/\n", files=files)
    quota, limit = cgroup.cpu_quota(), cgroup.memory_limit()
    assert quota is not None
    assert limit is not None
    assert quota.used_s() is None
    assert limit.used_bytes() is None


@pytest.mark.parametrize(
    ("membership", "files", "kills"),
    [
        ("0::/job\n", {"job/memory.events": "low 0\noom 2\noom_kill 2\n"}, 2),
        ("4:memory:/\n", {"memory/memory.oom_control": "under_oom 0\noom_kill 1\n"}, 1),
        ("0::/\n", {}, None),
    ],
)
def test_processes_killed_for_want_of_memory_are_counted(
    tmp_path: Path, membership: str, files: dict[str, str], kills: int | None
) -> None:
    assert group(tmp_path, membership=membership, files=files).oom_kills() == kills
