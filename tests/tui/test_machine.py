from __future__ import annotations

from pathlib import Path

from epochal.store.local.load import load_run
from epochal.tui.glyphs import UNICODE
from epochal.tui.machine import (
    Gpu,
    gpu_detail,
    gpu_lines,
    gpus_of,
    host_detail,
    host_lines,
    hosts_of,
)
from epochal.tui.run_log import RunLog
from tests.store.journals import Journal

GIB = 2**30


def machine(tmp_path: Path) -> Journal:
    gpu = {"power": 612_000, "power_limit": 700_000, "temperature": 91, "temp_slowdown": 87}
    return Journal(tmp_path).add(
        {"log": "gpu", "id": 0, "gpu_util": 50.0, "throttle": ""},
        {"log": "gpu", "id": 0, "gpu_util": 93.0, "dram_used": 30 * GIB, "dram_free": 50 * GIB}
        | {**gpu, "throttle": "thermal cap"},
        {"log": "gpu", "id": 10, "gpu_util": 5.0},
        {"log": "gpu", "id": 2, "gpu_util": 7.0},
        {"log": "system", "cpu_pct": 31.0, "ram_used": 48 * GIB, "ram_total": 256 * GIB}
        | {"net_rx": 1e6, "rss": 9 * GIB, "epochal_cpu_pct": 0.3},
        writer="telemetry-node",
    )


def gpus(journal: Journal) -> list[Gpu]:
    run = load_run(journal.folder.path)
    run_log = RunLog(run)
    run_log.read()
    return gpus_of(run, run_log.throttles)


def test_gpus_are_read_with_their_units_and_in_their_order(tmp_path: Path) -> None:
    found = gpus(machine(tmp_path))
    assert [gpu.name for gpu in found] == ["GPU 0", "GPU 2", "GPU 10"]
    first = found[0]
    assert (first.util, first.power_w, first.memory) == (0.93, 612.0, 0.375)
    assert first.throttle == "thermal cap"
    assert found[1].memory is None


def test_a_gpu_on_one_line(tmp_path: Path) -> None:
    lines = [one.plain for one in gpu_lines(gpus(machine(tmp_path)), columns=62, glyphs=UNICODE)]
    assert lines[0].startswith("GPU 0  ████████░  93% mem ███░░░░░░  38%")
    assert lines[0].rstrip().endswith("thermal cap 91° 612W")
    assert lines[1].split()[-1] == "7%"


def test_little_room_leaves_out_what_matters_least(tmp_path: Path) -> None:
    (hot, *_) = gpu_lines(gpus(machine(tmp_path)), columns=42, glyphs=UNICODE)
    assert hot.plain.rstrip().endswith("thermal cap")


def test_a_hot_gpu_is_red_in_its_own_tab(tmp_path: Path) -> None:
    lines = gpu_detail(gpus(machine(tmp_path))[0], columns=80, glyphs=UNICODE)
    heat = next(one for one in lines if "heat" in one.plain)
    assert "91 of 87 °C" in heat.plain
    assert "bad" in {span.style for span in heat.spans}


def test_hosts_show_processor_memory_and_our_own_cost(tmp_path: Path) -> None:
    (host,) = hosts_of(load_run(machine(tmp_path).folder.path))
    (short,) = host_lines([host], columns=70, glyphs=UNICODE)
    assert "31%" in short.plain
    assert "48.0 GiB of 256.0 GiB" in short.plain
    whole = "\n".join(one.plain for one in host_detail(host, columns=80, glyphs=UNICODE))
    assert "in 976.6 KiB/s" in whole
    assert "0.3 % of one core" in whole


def test_a_run_without_telemetry_has_no_machine(tmp_path: Path) -> None:
    run = load_run(Journal(tmp_path).metrics(0, loss=1.0).folder.path)
    assert gpus_of(run, {}) == []
    assert hosts_of(run) == []
