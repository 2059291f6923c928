"""What GPUs can do at most, from their makers' papers: dense matrix products, in TFLOP/s.

Papers print the figure with 2:4 sparsity more prominently, often only that one; training uses none,
so every number here is the dense one, half of the printed one where only that is printed. Half
precision is that with 32-bit accumulation, which GeForce cards do at half the rate.

``clock_mhz`` is the clock the figure is reached at, which some papers call boost; where a paper
gives none it is left out, and so are multiprocessors that it does not count. That of B200 and GB200
follows from the figure: a multiprocessor does 8,192 operations of half precision per clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

# What one multiprocessor does per clock differs between these within one architecture.
Line = Literal["data-center", "professional", "geforce", "limited"]


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU; ``name`` is a pattern on the driver's name, ``pci_ids`` those of the PCI ID list."""

    name: str
    line: Line
    capability: tuple[int, int]
    sm_count: int | None
    clock_mhz: int | None
    source: str
    pci_ids: tuple[str, ...] = ()
    fp32: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None


def _tensor(
    name: str,
    line: Line,
    capability: tuple[int, int],
    *,
    sms: int | None,
    mhz: int | None,
    half: float,
    source: str,
    ids: str = "",
    tf32: float | None = None,
    fp8: float | None = None,
    fp4: float | None = None,
) -> Row:
    """A GPU whose BF16 and FP16 rates are one, and whose TF32 rate is half of that."""
    return Row(
        name=name,
        line=line,
        capability=capability,
        sm_count=sms,
        clock_mhz=mhz,
        source=source,
        pci_ids=tuple(ids.split()),
        tf32=half / 2 if tf32 is None else tf32,
        bf16=half,
        fp16=half,
        fp8=fp8,
        fp4=fp4,
    )


_V100 = "NVIDIA V100 datasheet"
_A100 = "NVIDIA A100 datasheet"
_HOPPER = "NVIDIA H100 Tensor Core GPU Architecture whitepaper"
_H200 = "NVIDIA H200 datasheet (1,979 / 3,958 printed with sparsity)"
_BLACKWELL = "NVIDIA Blackwell Architecture Technical Brief, table of system specifications"
_GA102 = "NVIDIA Ampere GA102 GPU Architecture whitepaper"
_ADA = "NVIDIA Ada GPU Architecture whitepaper"
_RTX_BLACKWELL = "NVIDIA RTX Blackwell GPU Architecture whitepaper"
_RTX_PRO = "NVIDIA RTX Blackwell PRO GPU Architecture whitepaper"

_VOLTA_AND_TURING = (
    Row(
        r"v100 sxm[23]( \d+gb)?",
        "data-center",
        (7, 0),
        80,
        1530,
        _V100,
        ("1db1", "1db5", "1db8", "1df5"),
        fp32=15.7,
        fp16=125.0,
    ),
    Row(
        r"v100 pcie( \d+gb)?",
        "data-center",
        (7, 0),
        80,
        1370,
        _V100,
        ("1db4", "1db6"),
        fp32=14.0,
        fp16=112.0,
    ),
    Row(
        "t4",
        "data-center",
        (7, 5),
        40,
        1590,
        "NVIDIA T4 datasheet",
        ("1eb8",),
        fp32=8.1,
        fp16=65.0,
    ),
)

_AMPERE = (
    _tensor(
        r"a[18]00( sxm4?| pcie)?( \d+gb)?( pcie)?",
        "data-center",
        (8, 0),
        sms=108,
        mhz=1410,
        half=312.0,
        source=_A100,
        ids="20b0 20b1 20b2 20b3 20b5 20f1 20f3 20f5 20f6",
    ),
    _tensor(
        "a30",
        "data-center",
        (8, 0),
        sms=56,
        mhz=1440,
        half=165.0,
        tf32=82.0,
        source="NVIDIA A30 datasheet",
        ids="20b7",
    ),
    _tensor(
        "a40",
        "professional",
        (8, 6),
        sms=84,
        mhz=1740,
        half=149.7,
        source="NVIDIA A40 datasheet",
        ids="2235",
    ),
    _tensor(
        "a10",
        "professional",
        (8, 6),
        sms=72,
        mhz=1695,
        half=125.0,
        source="NVIDIA A10 datasheet",
        ids="2236",
    ),
    _tensor(
        "a10g",
        "limited",
        (8, 6),
        sms=80,
        mhz=1710,
        half=70.0,
        source="NVIDIA A10G datasheet",
        ids="2237",
    ),
    _tensor(
        "rtx a6000",
        "professional",
        (8, 6),
        sms=84,
        mhz=1800,
        half=154.8,
        source=_GA102,
        ids="2230",
    ),
    _tensor(
        "rtx a5000",
        "professional",
        (8, 6),
        sms=64,
        mhz=1695,
        half=111.1,
        source="NVIDIA RTX A5000 datasheet",
        ids="2231",
    ),
    _tensor(
        "rtx a4000",
        "professional",
        (8, 6),
        sms=48,
        mhz=1560,
        half=76.7,
        source="NVIDIA RTX A4000 datasheet",
        ids="24b0",
    ),
    *(
        _tensor(name, "geforce", (8, 6), sms=sms, mhz=mhz, half=half, source=_GA102, ids=ids)
        for name, sms, mhz, half, ids in (
            ("geforce rtx 3090 ti", 84, 1860, 80.0, "2203"),
            ("geforce rtx 3090", 82, 1695, 71.0, "2204"),
            ("geforce rtx 3080 ti", 80, 1665, 68.2, "2208"),
            ("geforce rtx 3080", 68, 1710, 59.5, "2206 2216"),
            ("geforce rtx 3070 ti", 48, 1770, 43.5, "2482"),
            ("geforce rtx 3070", 46, 1725, 40.6, "2484 2488"),
        )
    ),
)

_ADA_ROWS = (
    _tensor(
        "l40s",
        "professional",
        (8, 9),
        sms=142,
        mhz=2490,
        half=362.05,
        tf32=183.0,
        fp8=733.0,
        source="NVIDIA L40S datasheet",
        ids="26b9",
    ),
    _tensor(
        "l40",
        "limited",
        (8, 9),
        sms=142,
        mhz=2490,
        half=181.05,
        fp8=362.0,
        source="NVIDIA L40 datasheet",
        ids="26b5",
    ),
    _tensor(
        "l4",
        "professional",
        (8, 9),
        sms=58,
        mhz=2040,
        half=121.0,
        tf32=60.0,
        fp8=242.5,
        source="NVIDIA L4 datasheet (242 / 485 printed with sparsity)",
        ids="27b8",
    ),
    _tensor(
        "rtx 6000 ada generation",
        "professional",
        (8, 9),
        sms=142,
        mhz=2505,
        half=364.2,
        fp8=728.5,
        source="NVIDIA RTX 6000 Ada Generation datasheet (1,457 FP8 printed with sparsity)",
        ids="26b1",
    ),
    *(
        _tensor(
            name, "geforce", (8, 9), sms=sms, mhz=mhz, half=half, fp8=2 * half, source=_ADA, ids=ids
        )
        for name, sms, mhz, half, ids in (
            ("geforce rtx 4090", 128, 2520, 165.2, "2684"),
            ("geforce rtx 4080", 76, 2505, 97.5, "2704"),
            ("geforce rtx 4070 ti", 60, 2610, 80.2, "2782"),
            ("geforce rtx 4070", 46, 2475, 58.3, "2786"),
        )
    ),
)

_HOPPER_ROWS = (
    _tensor(
        r"(h[18]00( sxm5)?( \d+gb)?( hbm[23]e?)?|gh200( \d+gb)?)",
        "data-center",
        (9, 0),
        sms=132,
        mhz=1830,
        half=989.4,
        fp8=1978.9,
        source=_HOPPER,
        ids="2330 2336 2339 2324 2342",
    ),
    _tensor(
        r"h[18]00 pcie",
        "data-center",
        (9, 0),
        sms=114,
        mhz=1620,
        half=756.0,
        tf32=378.0,
        fp8=1513.0,
        source=_HOPPER,
        ids="2331 2322",
    ),
    _tensor(
        "h100 nvl",
        "data-center",
        (9, 0),
        sms=132,
        mhz=1545,
        half=835.5,
        fp8=1670.5,
        source="NVIDIA H100 datasheet, column H100 NVL (1,671 / 3,341 printed with sparsity)",
        ids="2321",
    ),
    _tensor(
        r"h200( sxm5?)?( \d+gb)?",
        "data-center",
        (9, 0),
        sms=132,
        mhz=1830,
        half=989.5,
        tf32=494.5,
        fp8=1979.0,
        source=_H200,
        ids="2335",
    ),
    _tensor(
        "h200 nvl",
        "data-center",
        (9, 0),
        sms=132,
        mhz=1545,
        half=835.5,
        fp8=1670.5,
        source="NVIDIA H200 datasheet, column H200 NVL (1,671 / 3,341 printed with sparsity)",
        ids="233b",
    ),
    _tensor(
        "h20",
        "limited",
        (9, 0),
        sms=78,
        mhz=None,
        half=148.0,
        fp8=296.0,
        source="as sellers report it; NVIDIA has published no datasheet",
        ids="2329",
    ),
)

_BLACKWELL_ROWS = (
    _tensor(
        "b200",
        "data-center",
        (10, 0),
        sms=148,
        mhz=1856,
        half=2250.0,
        tf32=1100.0,
        fp8=4500.0,
        fp4=9000.0,
        source=_BLACKWELL,
        ids="2901",
    ),
    _tensor(
        "gb200",
        "data-center",
        (10, 0),
        sms=148,
        mhz=2062,
        half=2500.0,
        fp8=5000.0,
        fp4=10000.0,
        source=_BLACKWELL,
        ids="2941",
    ),
    _tensor(
        r"b300( sxm6)?( ac)?",
        "data-center",
        (10, 3),
        sms=None,
        mhz=None,
        half=2250.0,
        fp8=4500.0,
        fp4=13125.0,
        source="NVIDIA HGX B300 specifications, an eighth of the board",
    ),
    _tensor(
        "gb300",
        "data-center",
        (10, 3),
        sms=None,
        mhz=None,
        half=2500.0,
        fp8=5000.0,
        fp4=15000.0,
        source="NVIDIA GB300 NVL72 specifications, a 72nd of the rack",
        ids="31c2 31c3",
    ),
    _tensor(
        "rtx pro 6000 blackwell workstation edition",
        "professional",
        (12, 0),
        sms=188,
        mhz=2617,
        half=503.8,
        fp8=1007.6,
        fp4=2015.2,
        source=_RTX_PRO,
        ids="2bb1",
    ),
    _tensor(
        "rtx pro 6000 blackwell max q workstation edition",
        "professional",
        (12, 0),
        sms=188,
        mhz=2280,
        half=438.9,
        fp8=877.8,
        fp4=1755.7,
        source=_RTX_PRO,
        ids="2bb4",
    ),
    *(
        _tensor(
            name,
            "geforce",
            (12, 0),
            sms=sms,
            mhz=mhz,
            half=half,
            fp8=2 * half,
            fp4=8 * half,
            source=_RTX_BLACKWELL,
            ids=ids,
        )
        for name, sms, mhz, half, ids in (
            ("geforce rtx 5090", 170, 2407, 209.5, "2b85"),
            ("geforce rtx 5080", 84, 2617, 112.6, "2c02"),
            ("geforce rtx 5070 ti", 70, 2452, 87.9, "2c05"),
            ("geforce rtx 5070", 48, 2512, 61.7, "2f04"),
        )
    ),
)

# AMD numbers its own: 9.0 is Hopper's too. Nothing is scaled from or to these.
_CDNA_2, _CDNA_3 = (0, 90), (0, 94)

_INSTINCT = (
    # Each of its two dies is a device of its own; so is an MI250's, which has fewer units.
    Row(
        r"instinct mi250x?( / mi250)?( oam)?",
        "data-center",
        _CDNA_2,
        110,
        1700,
        "AMD Instinct MI250X data sheet (383.0 and 95.7 printed for both dies)",
        fp32=47.85,
        bf16=191.5,
        fp16=191.5,
    ),
    Row(
        "instinct mi210",
        "data-center",
        _CDNA_2,
        104,
        1700,
        "AMD Instinct MI210 data sheet",
        fp32=45.3,
        bf16=181.0,
        fp16=181.0,
    ),
    _tensor(
        r"instinct mi3(00|25)x( oam)?( vf)?",
        "data-center",
        _CDNA_3,
        sms=304,
        mhz=2100,
        half=1307.4,
        tf32=653.7,
        fp8=2614.9,
        source="AMD Instinct MI300X and MI325X data sheets",
    ),
)

ROWS: tuple[Row, ...] = (
    *_VOLTA_AND_TURING,
    *_AMPERE,
    *_ADA_ROWS,
    *_HOPPER_ROWS,
    *_BLACKWELL_ROWS,
    *_INSTINCT,
)
