"""What every telemetry source keeps to; a new one adds a line to a table."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from epochal.records import KINDS
from epochal.telemetry.amd import AmdSource
from epochal.telemetry.gpu import GPU_METRICS, GpuSource
from epochal.telemetry.host import DiskSource, HostSource, NetworkSource, ProcessSource
from epochal.telemetry.machine_gpus import MachineGpus
from epochal.telemetry.nvidia import NvidiaSource
from tests.doubles.amdsmi import FakeAmdSmi
from tests.doubles.nvml import FakeNvml

HOST: dict[str, Callable[[], Callable[[], Mapping[str, Any]]]] = {
    "host": lambda: HostSource().sample,
    "process": lambda: ProcessSource(os.getpid()).sample,
    "disk": lambda: DiskSource(Path.cwd()).sample,
    "network": lambda: NetworkSource().sample,
}
GPUS: dict[str, Callable[[bool], GpuSource]] = {
    "nvidia": lambda shown: NvidiaSource("0" if shown else "", nvml=FakeNvml()),
    "nvidia, mute": lambda shown: NvidiaSource("0", nvml=FakeNvml(unsupported=["*"], driver=shown)),
    "amd": lambda shown: AmdSource(amdsmi=FakeAmdSmi(num=int(shown)), environ={}),
    "machine": lambda shown: MachineGpus(vendors=[GPUS["amd"](shown)]),
}


@pytest.mark.parametrize("make", HOST.values(), ids=HOST.keys())
def test_readings_of_the_host_are_fields_of_a_system_record(
    make: Callable[[], Callable[[], Mapping[str, Any]]],
) -> None:
    sample = make()
    for _ in range(3):
        readings = sample()
        assert readings.keys() <= KINDS["system"].by_name.keys()
        assert all(isinstance(value, (int, float)) for value in readings.values())


@pytest.mark.parametrize("make", GPUS.values(), ids=GPUS.keys())
def test_gpus_that_are_there_are_sampled_until_they_are_closed(
    make: Callable[[bool], GpuSource],
) -> None:
    source = make(True)
    assert source.probe()
    assert source.why_absent is None
    for _ in range(3):
        (sample,) = source.sample()
        assert sample.readings().keys() <= set(GPU_METRICS) <= KINDS["gpu"].by_name.keys()
    source.close()
    source.close()
    assert source.sample() == ()


@pytest.mark.parametrize("make", GPUS.values(), ids=GPUS.keys())
def test_gpus_that_are_absent_say_why_and_give_nothing(make: Callable[[bool], GpuSource]) -> None:
    source = make(False)
    assert not source.probe()
    assert source.why_absent
    assert (source.sample(), source.gpu_models(), source.pids()) == ((), (), {})
    source.close()
