"""The blocks printed once, when a training starts: a heading in brackets, then indented lines.

Each is made from the record that it shows; ``docs/explanation/journal.md`` describes the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from epochal.records import ALLOCATOR_PLACES
from epochal.records.format import format_bytes, format_count, plural
from epochal.records.values import flat_items
from epochal.run.console.messages import printable

LONGEST_VALUE = 200
_MIB = 2**20
_GIGA_ABOVE = 2e9
_PEAK = "_peak"
_PHASE = "phase/"


class Segment(msgspec.Struct, frozen=True):
    """What one part of a program has allocated, in bytes by kind of memory."""

    name: str
    device: int = 0
    managed: int = 0
    pinned: int = 0
    pageable: int = 0


def speed_of_light_block(record: Mapping[str, Any]) -> str:
    """What the hardware could do at most; the peaks of the dtypes in use are shown."""
    peaks = {
        name.removesuffix(_PEAK): float(value)
        for name, value in record.items()
        if name.endswith(_PEAK) and name != "measured_peak" and value > 0
    }
    dtype = record.get("dtype", "bf16")
    dtypes = {
        "blocks": dtype,
        "lm_head": record.get("lm_head_dtype", dtype),
        "attention": record.get("attention_dtype", dtype),
    }
    # 32-bit products run on tensor cores, where there are any.
    used = {
        part: "tf32" if name.lower() == "fp32" and "tf32" in peaks else name.lower()
        for part, name in dtypes.items()
    }
    lines = ["[Speed of Light]"]
    if record.get("device") is not None:
        count = record.get("world_size", 1)
        many = f"{count} x " if count > 1 else ""
        lines.append(f"  Device:    {many}{printable(record['device'])}")
    for name, peak in peaks.items():
        if name in used.values():
            measured = record.get("measured_peak") if name == used["blocks"] else None
            lines.append(f"  Peak {name.upper():>4}: {_tflops(peak)} TFLOP/s{_of(measured, peak)}")
    for part, title in (("blocks", "Blocks"), ("lm_head", "LM-Head"), ("attention", "Attention")):
        lines.append(f"  {title + ':':<10} {_flop(record[part])}   in {dtypes[part]}")
    tps = record.get("tps")
    lines.append(f"  SOL:       {f'{tps:9.0f} tok/s' if tps else 'unavailable'}")
    if record.get("note") is not None:
        lines.append(f"  Note:      {printable(record['note'], longest=LONGEST_VALUE)}")
    return "\n".join(lines)


def phases_block(record: Mapping[str, Any], explanation: object = None) -> str:
    """Where the time of a step went: milliseconds by phase, a mean over the last steps."""
    wall_ms, host_bound = record["wall_ms"], record.get("host_bound")
    means = {printable(name.removeprefix(_PHASE)): mean for name, mean in record["m"].items()}
    width = max(map(len, means), default=0)
    clock = " by the GPU's clock" if record.get("clock") == "gpu" else ""
    lines = [f"[Phases] {record['steps']} steps to {record['step']}, {wall_ms:.1f} ms each{clock}"]
    for name, mean in sorted(means.items(), key=lambda pair: -pair[1]):
        share = 100 * mean / wall_ms if wall_ms > 0 else 0.0
        lines.append(f"  {name:<{width}} {mean:9.2f} ms {share:6.1f} %")
    if host_bound is not None and host_bound > 0:
        lines.append(f"  the GPU waited for the host in {100 * host_bound:.0f} % of these steps")
    if explanation is not None:
        lines.append(f"  {explanation}")
    return "\n".join(lines)


def dataset_block(record: Mapping[str, Any], *, with_files: bool = False) -> str:
    """A split of a dataset; with the names of its files at VERBOSE (``with_files``)."""
    names = record.get("names", ())
    count = record.get("files") or len(names)
    files = f" in {plural(count, 'file')}" if count else ""
    tokens = format_count(record.get("tokens", 0))
    lines = ["[Dataset]", f"  {printable(record['split'])}: {tokens} tokens{files}"]
    return "\n".join([*lines, *(f"    {printable(name)}" for name in names if with_files)])


def gpu_model_block(record: Mapping[str, Any]) -> str:
    """The device of one rank; CUDA versions as the driver numbers them (12040 is 12.4)."""
    known = {name: value for name, value in record.items() if value is not None}
    lines = [f"[System {known.get('rank', 0)}]"]
    lines.append(f"  Device {known.get('id', 0)}: {printable(str(known.get('name', 'GPU')))}")
    traits = [f"{known['sm_count']} SMs"] if "sm_count" in known else []
    if {"major", "minor"} <= known.keys():
        traits.append(f"compute capability {known['major']}.{known['minor']}")
    versions = [
        f"{part} {known[f'cuda_{part}'] // 1000}.{known[f'cuda_{part}'] % 1000 // 10}"
        for part in ("driver", "runtime")
        if f"cuda_{part}" in known
    ]
    lines += [f"  {', '.join(traits)}"] if traits else []
    lines += [f"  CUDA version: {', '.join(versions)}"] if versions else []
    if "memory" in known:
        memory = known["memory"]
        used = f"{(memory - known['free']) // _MIB} MiB / " if "free" in known else ""
        lines.append(f"  Memory: {used}{memory // _MIB} MiB")
    return "\n".join(lines)


def options_block(options: Mapping[str, object]) -> str:
    """A table of hyperparameters; nested mappings are named with dots."""
    rows = [
        (printable(name), printable(str(value), longest=LONGEST_VALUE))
        for name, value in flat_items(options)
    ]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(["[Options]", *(f"  {name:<{width}} : {value}" for name, value in rows)])


def allocator_block(segments: Iterable[Segment], *, title: str = "Allocator") -> str:
    """Memory by segment and kind, and the sums; an unused kind has no column."""
    rows = [
        (printable(segment.name, longest=30), [getattr(segment, kind) for kind in ALLOCATOR_PLACES])
        for segment in segments
    ]
    rows.append(("total", [sum(sizes) for sizes in zip(*(row for _, row in rows), strict=True)]))
    kinds = [number for number, size in enumerate(rows[-1][1]) if size] or [0]
    width = max(len(name) for name, _ in rows)
    head = "".join(f"{ALLOCATOR_PLACES[kind]:>12}" for kind in kinds)
    lines = [f"[{title}]", f"  {'':<{width}}{head}"]
    for name, sizes in rows:
        cells = (format_bytes(sizes[kind]) if sizes[kind] else "-" for kind in kinds)
        lines.append(f"  {name:<{width}}" + "".join(f"{cell:>12}" for cell in cells))
    return "\n".join(lines)


def _flop(flop: float) -> str:
    return f"{flop / 1e9:8.1f} GFLOP" if flop > _GIGA_ABOVE else f"{flop / 1e6:8.1f} MFLOP"


def _tflops(rate: float) -> str:
    return f"{rate:8.1f}" if rate >= 1 else f"{rate:8.3f}"


def _of(measured: float | None, peak: float) -> str:
    if measured is None:
        return ""
    if measured == peak:
        return "   measured"
    return f"   measured {measured:.0f} of {peak:.0f} TFLOP/s, {100 * measured / peak:.0f} %"
