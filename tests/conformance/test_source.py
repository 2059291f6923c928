"""What every telemetry source keeps to; a new one adds a line to each of the two tables."""

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from epochal.errors import UsageError
from epochal.records import KINDS
from epochal.telemetry.amd import AmdSource
from epochal.telemetry.apple import AppleSource
from epochal.telemetry.disk import disk_source
from epochal.telemetry.host import HostSource
from epochal.telemetry.machine_gpus import MachineGpus
from epochal.telemetry.network import network_source
from epochal.telemetry.nvidia import NvidiaSource
from epochal.telemetry.process import ProcessSource
from epochal.telemetry.source import Source
from epochal.telemetry.torch_memory import TORCH_MEMORY_METRICS, TorchMemorySource
from tests.doubles.amd_sysfs import AmdSysfs
from tests.doubles.ioreg import GIB, Ioreg, accelerator
from tests.doubles.nvml import FakeNvml

CUDA = SimpleNamespace(
    is_initialized=lambda: True,
    device_count=lambda: 1,
    memory_reserved=lambda _device: 2 << 20,
    memory_allocated=lambda _device: 1 << 20,
    get_device_properties=lambda _device: SimpleNamespace(total_memory=1 << 30),
)


def amd(**environ: str) -> AmdSource:
    return AmdSysfs(Path.cwd()).source(environ)


def apple(ioreg: Ioreg) -> AppleSource:
    return AppleSource(platform="darwin", run=ioreg, ram_bytes=lambda: GIB)


PRESENT: dict[str, Callable[[], Source[Any]]] = {
    "host": HostSource,
    "disk": disk_source,
    "network": network_source,
    "process": ProcessSource,
    "nvidia": lambda: NvidiaSource("0,1", nvml=FakeNvml(), sleep=lambda _seconds: None),
    "nvidia, mute": lambda: NvidiaSource("0", nvml=FakeNvml(unsupported=["*"])),
    "amd": amd,
    "apple": lambda: apple(Ioreg()),
    "apple, mute": lambda: apple(Ioreg(accelerator(PerformanceStatistics={}))),
    "machine": lambda: MachineGpus(vendors=[amd()]),
    "torch memory": lambda: TorchMemorySource(modules={"torch": SimpleNamespace(cuda=CUDA)}),
}
ABSENT: dict[str, Callable[[], Source[Any]]] = {
    "process": lambda: ProcessSource(2**22 + 1),  # beyond the largest number Linux gives out
    "nvidia, no driver": lambda: NvidiaSource(nvml=FakeNvml(driver=False)),
    "nvidia, hidden": lambda: NvidiaSource("", nvml=FakeNvml()),
    "amd, none": lambda: AmdSource(root=Path("/nonexistent")),
    "amd, hidden": lambda: amd(ROCR_VISIBLE_DEVICES=""),
    "apple, elsewhere": lambda: AppleSource(platform="linux"),
    "machine": lambda: MachineGpus(vendors=[amd(ROCR_VISIBLE_DEVICES="")]),
    "torch memory": lambda: TorchMemorySource(modules={}),
}

present = pytest.mark.parametrize("make", PRESENT.values(), ids=PRESENT.keys())
absent = pytest.mark.parametrize("make", ABSENT.values(), ids=ABSENT.keys())


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@present
def test_present_source_gives_samples_and_no_excuse(make: Callable[[], Source[Any]]) -> None:
    source = make()
    assert source.probe()
    assert source.why_absent is None
    assert len(source.sample()) >= 1
    source.close()


@present
def test_samples_are_frozen_and_hold_what_the_table_says(make: Callable[[], Source[Any]]) -> None:
    source = make()
    (sample, *_) = source.sample()
    names = {field.name for field in fields(sample)}
    assert {metric.attribute for metric in source.metrics} <= names
    for metric in source.metrics:
        value = getattr(sample, metric.attribute)
        assert value is None or isinstance(value, (int, float, str))
    with pytest.raises(AttributeError):
        setattr(sample, source.metrics[0].attribute, 0)
    source.close()


@present
def test_table_names_are_distinct_and_of_a_known_kind(make: Callable[[], Source[Any]]) -> None:
    source = make()
    names = [metric.name for metric in source.metrics]
    assert len(set(names)) == len(names)
    assert source.kind in KINDS
    if source.metrics is not TORCH_MEMORY_METRICS:  # those go into epochs only
        declared = KINDS[source.kind].by_name.values()
        assert all(metric.field in declared for metric in source.metrics)
    source.close()


@present
def test_sampling_goes_on(make: Callable[[], Source[Any]]) -> None:
    source = make()
    assert len(source.sample()) == len(source.sample()) == len(source.sample())
    source.close()


@present
def test_closed_source_refuses_to_sample(make: Callable[[], Source[Any]]) -> None:
    source = make()
    source.sample()
    source.close()
    source.close()
    with pytest.raises(UsageError, match="closed"):
        source.sample()


@absent
def test_absent_source_says_why_and_gives_nothing(make: Callable[[], Source[Any]]) -> None:
    source = make()
    assert not source.probe()
    assert source.why_absent
    assert source.sample() == ()
    source.close()
