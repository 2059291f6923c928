from __future__ import annotations

import re
from collections import defaultdict
from typing import Any

import pytest
import torch

from epochal.errors import UsageError
from epochal.torch.flops.peak_table import ROWS
from epochal.torch.flops.peaks import dtype_name, peak_of


def bf16(name: str, **facts: object) -> float | None:
    peak = peak_of(name, **facts)  # type: ignore[arg-type]
    return None if peak is None else peak.of("bf16")


def test_an_h200_has_the_dense_figure_and_not_the_one_with_sparsity() -> None:
    peak = peak_of("NVIDIA H200")
    assert peak is not None
    assert peak.of("bf16") == 989.5
    assert peak.of("fp8") == 1979.0
    assert "H200" in peak.source


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 312.0),
        ("NVIDIA A100-PCIE-40GB", 312.0),
        ("NVIDIA A100 80GB PCIe", 312.0),
        ("NVIDIA H100 80GB HBM3", 989.4),
        ("NVIDIA H100 PCIe", 756.0),
        ("NVIDIA H100 NVL", 835.5),
        ("NVIDIA GH200 480GB", 989.4),
        ("NVIDIA H200 NVL", 835.5),
        ("NVIDIA B200", 2250.0),
        ("NVIDIA L40S", 362.05),
        ("NVIDIA L40", 181.05),
        ("NVIDIA L4", 121.0),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA RTX 6000 Ada Generation", 364.2),
        ("AMD Instinct MI300X", 1307.4),
        ("AMD Instinct MI300X OAM", 1307.4),
        ("AMD Instinct MI325X", 1307.4),
        ("AMD Instinct MI250X", 191.5),
        ("AMD Instinct MI210", 181.0),
    ],
)
def test_the_names_drivers_use_are_known(name: str, expected: float) -> None:
    assert bf16(name) == expected


def test_a_pci_id_goes_before_a_name() -> None:
    assert bf16("NVIDIA M403", pci_id="2335") == 989.5
    assert bf16("NVIDIA H100", pci_id="0x2331") == 756.0


def test_an_older_gpu_has_no_rate_for_a_dtype_it_lacks() -> None:
    peak = peak_of("Tesla V100-SXM2-16GB")
    assert peak is not None
    assert peak.of("bf16") is None
    assert peak.of("fp16") == 125.0
    assert peak.of("fp32") == 15.7


def test_32_bit_products_count_as_tf32_where_tensor_cores_do_them() -> None:
    peak = peak_of("NVIDIA A100-SXM4-40GB")
    assert peak is not None
    assert peak.of("fp32") == 156.0


def test_a_slice_of_a_gpu_has_its_share() -> None:
    peak = peak_of("NVIDIA H100 80GB HBM3 MIG 3g.40gb", sm_count=60)
    assert peak is not None
    assert peak.of("bf16") == pytest.approx(989.4 * 60 / 132)
    assert peak.note == "60 of 132 multiprocessors"


def test_a_die_of_an_mi250_has_what_its_units_can_do() -> None:
    peak = peak_of("AMD Instinct MI250X / MI250", sm_count=104, capability=(9, 0))
    assert peak is not None
    assert peak.of("bf16") == pytest.approx(362.1 / 2, rel=0.001)
    assert (peak.of("fp8"), peak.note) == (None, "104 of 110 multiprocessors")
    assert peak.of("fp32") == pytest.approx(90.5 / 2, rel=0.001)


def test_an_unknown_part_is_scaled_within_its_architecture_and_says_so() -> None:
    facts = {"sm_count": 80, "clock_mhz": 2550.0, "capability": (8, 9)}
    peak = peak_of("NVIDIA GeForce RTX 4080 SUPER", **facts)  # type: ignore[arg-type]
    assert peak is not None
    # 512 operations per clock and multiprocessor of a GeForce of this architecture
    assert peak.of("bf16") == pytest.approx(80 * 2550e6 * 512 / 1e12, rel=0.01)
    assert peak.note is not None
    assert "not in the table" in peak.note


@pytest.mark.parametrize(
    ("name", "facts", "expected"),
    [
        ("NVIDIA B100", {"sm_count": 148, "clock_mhz": 1440, "capability": (10, 0)}, 1746),
        ("NVIDIA B399", {"sm_count": 160, "clock_mhz": 2000, "capability": (10, 3)}, 2621),
        ("NVIDIA GB10", {"sm_count": 48, "clock_mhz": 2418, "capability": (12, 1)}, 118.8),
    ],
)
def test_unknown_parts_of_the_newest_architectures_are_scaled(
    name: str, facts: dict[str, Any], expected: float
) -> None:
    peak = peak_of(name, **facts)
    assert peak is not None
    assert peak.of("bf16") == pytest.approx(expected, rel=0.01)
    assert peak.note is not None
    is_related = facts["capability"] in ((10, 3), (12, 1))
    assert ("a related architecture" in peak.note) is is_related
    # what four bits do per clock differs between them
    assert (peak.of("fp4") is None) is is_related


def test_nothing_is_made_up_for_an_architecture_nobody_knows() -> None:
    assert peak_of("NVIDIA Z1", sm_count=10, clock_mhz=1000, capability=(99, 0)) is None
    assert peak_of("NVIDIA Z1") is None
    assert peak_of("AMD Radeon", sm_count=96, clock_mhz=2500, capability=(8, 6)) is None


def test_every_row_names_its_source_and_is_found_by_one_id_only() -> None:
    ids = [one for row in ROWS for one in row.pci_ids]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch("[0-9a-f]{4}", one) for one in ids)
    assert all(row.source for row in ROWS)


def test_rates_grow_by_two_between_dtypes_and_never_hold_a_sparse_figure() -> None:
    for row in ROWS:
        if row.tf32 and row.bf16:
            assert row.bf16 / row.tf32 == pytest.approx(2, rel=0.03), row.name
        if row.fp8 and row.bf16:
            assert row.fp8 / row.bf16 == pytest.approx(2, rel=0.03), row.name


def test_gpus_of_one_line_do_the_same_per_clock_and_multiprocessor() -> None:
    rates = defaultdict(list)
    for row in ROWS:
        if row.fp16 and row.sm_count and row.clock_mhz and row.line != "limited":
            rates[row.capability, row.line].append(row.fp16 * 1e6 / row.sm_count / row.clock_mhz)
    for kin in rates.values():
        assert max(kin) / min(kin) < 1.015


def test_dtypes_have_one_name() -> None:
    assert dtype_name(torch.bfloat16) == dtype_name("bfloat16") == dtype_name("BF16") == "bf16"
    assert dtype_name(torch.float8_e4m3fn) == "fp8"
    with pytest.raises(UsageError, match="use one of"):
        dtype_name("int4")
