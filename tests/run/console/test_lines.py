import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.run.console.lines import (
    closing_line,
    epoch_line,
    eval_line,
    gpu_line,
    section_line,
    step_line,
)

GB = 2**30


def test_first_epoch() -> None:
    line = epoch_line(
        {"epoch": 1, "total": 100, "m": {"loss": 1.5264}, "duration_s": 0.049}, eta_s=4.8
    )
    assert line == "  epoch   1/100  loss=1.5264  [49ms  ETA 4.8s]"


def test_epoch_with_memory_and_utilisation() -> None:
    line = epoch_line(
        {
            "epoch": 50,
            "total": 100,
            "m": {"loss": 0.0023},
            "duration_s": 0.024,
            "resources": {"vram_allocated_bytes": 2.1 * GB, "vram_total": 6 * GB, "gpu_pct": 82.0},
        },
        eta_s=1.2,
    )
    assert line == "  epoch  50/100  loss=0.0023  [24ms  ETA 1.2s]  VRAM: 2.1/6.0 GB (82%)"


def test_last_epoch_has_no_eta() -> None:
    line = epoch_line({"epoch": 100, "total": 100, "m": {"loss": 0.0012}, "duration_s": 0.023})
    assert line == "  epoch 100/100  loss=0.0012  [23ms]"


def test_epoch_of_an_unknown_total() -> None:
    assert epoch_line({"epoch": 1, "m": {}, "duration_s": 1.0}) == "  epoch   1  [1s]"


def test_several_metrics_keep_their_order() -> None:
    metrics = {"total_loss": 0.42, "subscan.ce": 0.31}
    line = epoch_line({"epoch": 42, "total": 100, "m": metrics, "duration_s": 1.2}, eta_s=70)
    assert line == "  epoch  42/100  total_loss=0.4200  subscan.ce=0.3100  [1.2s  ETA 1m 10s]"


def test_memory_beyond_the_device_is_named_as_spilled() -> None:
    line = epoch_line(
        {
            "epoch": 1,
            "total": 1,
            "m": {},
            "duration_s": 1,
            "resources": {"vram_allocated_bytes": 6.5 * GB, "vram_total": 6 * GB},
        }
    )
    assert line.endswith("VRAM: 6.5/6.0 GB +0.5 GB spilled")


def test_memory_of_an_unknown_total() -> None:
    line = epoch_line(
        {
            "epoch": 1,
            "total": 1,
            "m": {},
            "duration_s": 1,
            "resources": {"vram_allocated_bytes": 300 * 2**20},
        }
    )
    assert line.endswith("  VRAM: 300.0 MB")


def test_utilisation_without_memory() -> None:
    line = epoch_line(
        {"epoch": 1, "total": 1, "m": {}, "duration_s": 1, "resources": {"gpu_pct": 81.6}}
    )
    assert line.endswith("  GPU: 82%")


def test_closing() -> None:
    assert closing_line(2.8, metrics={"loss": 0.0012}) == (
        "  training complete in 2.8s  | loss: 0.0012"
    )


def test_closing_of_a_stopped_training() -> None:
    line = closing_line(2.8, metrics={"loss": 0.5, "acc": 0.25}, verb="stopped after")
    assert line == "  training stopped after 2.8s  | loss: 0.5000  | acc: 0.2500"


def test_section() -> None:
    assert section_line("loading weights", seconds=0.35) == "loading weights ... done in 350ms"


def test_dense_step() -> None:
    line = step_line(
        {
            "step": 100,
            "loss": 2.3456,
            "norm": 0.1234,
            "step_tokens": 19_547,
            "duration_ms": 156,
            "sol": 78.2,
        },
        percent=12.5,
        trend="\\",
        eta_s=2 * 3600 + 15 * 60,
    )
    assert line == (
        r":: step     100 [ 12.5%] \ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms"
        " | sol 78.2 | eta 02h15m"
    )


def test_moe_step() -> None:
    line = step_line(
        {
            "step": 100,
            "loss": 2.3456,
            "norm": 0.1234,
            "step_tokens": 19_547,
            "duration_ms": 156,
            "moe_aux_loss": 0.0234,
            "moe_load_imbalance": 1.45,
            "sol": 78.2,
        },
        percent=12.5,
        trend="\\",
        eta_s=8100,
    )
    assert line == (
        r":: step     100 [ 12.5%] \ loss 2.3456 | norm  0.1234 | 125.3k tps |   156 ms"
        " | aux 0.0234 | imbal 1.45 | sol 78.2 | eta 02h15m"
    )


def test_step_with_routing_distillation_and_phase() -> None:
    line = step_line(
        {
            "step": 1,
            "moe_expert_utilization": 0.94,
            "moe_max_expert_fraction": 0.2,
            "moe_router_entropy": 0.91,
            "kd_loss": 1.5,
        },
        phase="warming up",
    )
    tail = "util 0.94 | hot 0.20 | ent 0.91 | kd 1.5000 | warming up"
    assert line == f":: step       1            {tail}"


def test_spike_takes_the_blank_before_the_norm() -> None:
    calm, spike = (step_line({"step": 7, "loss": 1.0, "norm": 9.5}, spike=s) for s in (False, True))
    assert calm.endswith("| norm  9.5000")
    assert spike.endswith("| norm !9.5000")


def test_unknown_percent_keeps_the_columns() -> None:
    known, unknown = (
        step_line({"step": 7, "loss": 1.0}, percent=50.0),
        step_line({"step": 7, "loss": 1.0}),
    )
    assert known.index("loss") == unknown.index("loss")
    assert "%" not in unknown


def test_nan_loss_is_shown() -> None:
    assert "loss    nan |" in step_line({"step": 7, "loss": math.nan, "norm": 1.0})


def test_exploded_norm_stays_short() -> None:
    assert step_line({"step": 7, "norm": 3.2e21}).endswith("norm  3.2000e+21")


def test_no_duration_gives_no_throughput() -> None:
    line = step_line({"step": 7, "loss": 1.0, "step_tokens": 4096, "duration_ms": 0})
    assert line.endswith("|     -  tps |     0 ms")


def test_durations_switch_to_seconds() -> None:
    assert step_line({"step": 1, "duration_ms": 99_999}).endswith(" 99999 ms")
    assert step_line({"step": 1, "duration_ms": 100_000}).endswith("   100  s")


def test_short_durations_keep_a_decimal() -> None:
    assert step_line({"step": 1, "duration_ms": 0.42}).endswith("  0.4 ms")


def test_eval() -> None:
    line = eval_line({"loss": 2.1234, "eval_tokens": 33_977, "duration_ms": 234}, gap=0.0123)
    assert line == ">> eval                      loss 2.1234 | gap +0.0123 | 145.2k tps |   234 ms"


def test_eval_with_other_metrics() -> None:
    line = eval_line({"loss": 2.1234, "step": 100})
    assert line == ">> eval     100              loss 2.1234"
    line = eval_line({"m": {"accuracy": 0.2955}})
    assert line == ">> eval                      accuracy 0.2955"


def test_gpu_state() -> None:
    readings = {"power": 350_000, "temperature": 72, "temp_slowdown": 83, "clock": 1800}
    sizes = {"dram_used": 8 * GB, "pcie_rx": GB, "pcie_tx": GB / 2}
    line = gpu_line({"step": 100, "id": 1, **readings, **sizes})
    assert line == (
        "[G] step   100 [gpu  1] | power  350 W | temp  72/83 C | clock 1800 MHz"
        " | mem   8192 MiB | PCIe down  1024 MiB/s | PCIe up   512 MiB/s"
    )


def test_gpu_that_says_nothing() -> None:
    assert gpu_line({"step": 3, "id": 0, "power": None}) == "[G] step     3 [gpu  0]"


def test_more_metrics_than_a_line_holds_are_counted() -> None:
    metrics = {f"m{i}": float(i) for i in range(1000)}
    assert "(+980 more)" in epoch_line({"epoch": 1, "total": 1, "m": metrics, "duration_s": 1})


@given(name=st.text(), value=st.floats())
@pytest.mark.slow
def test_any_metric_stays_one_printable_line(name: str, value: float) -> None:
    line = epoch_line({"epoch": 1, "total": 1, "m": {name: value}, "duration_s": 1})
    assert line.isprintable()


@given(
    loss=st.floats(), norm=st.floats(), tokens=st.floats(), duration=st.floats(), eta=st.floats()
)
def test_any_figures_make_one_short_line(
    loss: float, norm: float, tokens: float, duration: float, eta: float
) -> None:
    line = step_line(
        {
            "step": 1,
            "loss": loss,
            "norm": norm,
            "step_tokens": tokens,
            "duration_ms": duration,
            "sol": loss,
        },
        eta_s=eta,
    )
    assert line.isprintable()
