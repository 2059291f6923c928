"""The blocks printed once, when a training starts: a heading in brackets, then indented lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from epochal.console.stream import printable
from epochal.format import format_bytes, format_count
from epochal.records import ALLOCATOR_PLACES
from epochal.values import flat_items

LONGEST_VALUE = 200
_MIB = 2**20
_GIGA_ABOVE = 2e9


class DataFile(msgspec.Struct, frozen=True):
    """One file of a dataset and its length in tokens (None when not counted)."""

    name: str
    tokens: int | None = None


class DatasetSplit(msgspec.Struct, frozen=True):
    """One split of a dataset; ``num_files`` counts files whose names are not known as well."""

    name: str
    tokens: int
    files: Sequence[DataFile] = ()
    num_files: int | None = None


class Segment(msgspec.Struct, frozen=True):
    """What one part of a program has allocated, in bytes by kind of memory."""

    name: str
    device: int = 0
    managed: int = 0
    pinned: int = 0
    pageable: int = 0


def speed_of_light_block(
    peaks: Mapping[str, float],
    *,
    blocks: float,
    lm_head: float,
    attention: float,
    tps: float | None,
    blocks_dtype: str = "bf16",
    lm_head_dtype: str = "bf16",
    attention_dtype: str = "bf16",
    device: str | None = None,
    num_devices: int = 1,
    measured: float | None = None,
    note: str | None = None,
) -> str:
    """What the hardware could do at most.

    ``peaks`` are in TFLOP/s by dtype ("tf32", "bf16", "fp16", "fp8", "fp4"); those of the dtypes in
    use are shown. Work is in FLOP per token. ``tps`` is in tokens per second of all devices, None
    when the device is not known. ``measured`` is what the blocks' dtype was seen to do, ``note``
    what was assumed.
    """
    used = {blocks_dtype.lower(), lm_head_dtype.lower(), attention_dtype.lower()}
    names = {_peak_name(dtype, peaks) for dtype in used}
    main = _peak_name(blocks_dtype.lower(), peaks)
    shown = [(name, peak) for name, peak in peaks.items() if name in names and peak > 0]
    many = f"{num_devices} x " if num_devices > 1 else ""
    return "\n".join(
        [
            "[Speed of Light]",
            *([] if device is None else [f"  Device:    {many}{printable(device)}"]),
            *(
                f"  Peak {name.upper():>4}: {_tflops(peak)} TFLOP/s"
                f"{_measured(measured, peak) if name == main else ''}"
                for name, peak in shown
            ),
            f"  Blocks:    {_flop(blocks)}   in {blocks_dtype}",
            f"  LM-Head:   {_flop(lm_head)}   in {lm_head_dtype}",
            f"  Attention: {_flop(attention)}   in {attention_dtype}",
            f"  SOL:       {f'{tps:9.0f} tok/s' if tps else 'unavailable'}",
            *([] if note is None else [f"  Note:      {printable(note, longest=LONGEST_VALUE)}"]),
        ]
    )


def phases_block(
    means: Mapping[str, float],
    *,
    wall_ms: float,
    last_step: int,
    steps: int,
    by_gpu: bool = False,
    host_bound: float | None = None,
    explanation: str | None = None,
) -> str:
    """Where the time of a step went: milliseconds by phase, a mean over the last steps."""
    width = max((len(printable(name)) for name in means), default=0)
    clock = " by the GPU's clock" if by_gpu else ""
    lines = [f"[Phases] {steps} steps to {last_step}, {wall_ms:.1f} ms each{clock}"]
    for name, mean in sorted(means.items(), key=lambda pair: -pair[1]):
        share = 100 * mean / wall_ms if wall_ms > 0 else 0.0
        lines.append(f"  {printable(name):<{width}} {mean:9.2f} ms {share:6.1f} %")
    if host_bound is not None and host_bound > 0:
        lines.append(f"  the GPU waited for the host in {100 * host_bound:.0f} % of these steps")
    if explanation is not None:
        lines.append(f"  {explanation}")
    return "\n".join(lines)


def dataset_block(splits: Iterable[DatasetSplit], *, with_files: bool = False) -> str:
    """The splits of a dataset; with the files of each at VERBOSE (``with_files``)."""
    lines = ["[Dataset]"]
    for split in splits:
        count = len(split.files) if split.num_files is None else split.num_files
        files = f" in {count} {'file' if count == 1 else 'files'}" if count else ""
        lines.append(f"  {printable(split.name)}: {format_count(split.tokens)} tokens{files}")
        if with_files:
            lines += _files(split.files)
    return "\n".join(lines)


def gpu_model_block(
    name: str,
    *,
    rank: int = 0,
    gpu_id: int = 0,
    sm_count: int | None = None,
    major: int | None = None,
    minor: int | None = None,
    memory_bytes: int | None = None,
    free_bytes: int | None = None,
    cuda_driver: int | None = None,
    cuda_runtime: int | None = None,
) -> str:
    """The device of one rank; CUDA versions as the driver numbers them (12040 is 12.4)."""
    lines = [f"[System {rank}]", f"  Device {gpu_id}: {printable(name)}"]
    traits = [
        None if sm_count is None else f"{sm_count} SMs",
        None if major is None or minor is None else f"compute capability {major}.{minor}",
    ]
    if any(traits):
        lines.append(f"  {', '.join(trait for trait in traits if trait)}")
    versions = [
        None if cuda_driver is None else f"driver {_cuda_version(cuda_driver)}",
        None if cuda_runtime is None else f"runtime {_cuda_version(cuda_runtime)}",
    ]
    if any(versions):
        lines.append(f"  CUDA version: {', '.join(text for text in versions if text)}")
    if memory_bytes is not None:
        used = "" if free_bytes is None else f"{(memory_bytes - free_bytes) // _MIB} MiB / "
        lines.append(f"  Memory: {used}{memory_bytes // _MIB} MiB")
    return "\n".join(lines)


def options_block(options: Mapping[str, object]) -> str:
    """A table of hyperparameters; nested mappings are named with dots."""
    rows = [(printable(name), _value(value)) for name, value in flat_items(options)]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(["[Options]", *(f"  {name:<{width}} : {value}" for name, value in rows)])


def allocator_block(segments: Iterable[Segment], *, title: str = "Allocator") -> str:
    """Memory by segment and kind, and the sums; an unused kind has no column."""
    rows = list(segments)
    kinds = [kind for kind in ALLOCATOR_PLACES if _sum(rows, kind)]
    kinds = kinds or ["device"]
    names = [printable(row.name, longest=30) for row in rows]
    width = max(len(name) for name in [*names, "total"])
    lines = [f"[{title}]", f"  {'':<{width}}" + "".join(f"{kind:>12}" for kind in kinds)]
    for name, row in zip(names, rows, strict=True):
        cells = (int(getattr(row, kind)) for kind in kinds)
        lines.append(f"  {name:<{width}}" + "".join(f"{_bytes(cell):>12}" for cell in cells))
    sums = "".join(f"{_bytes(_sum(rows, kind)):>12}" for kind in kinds)
    return "\n".join([*lines, f"  {'total':<{width}}{sums}"])


def _flop(flop: float) -> str:
    return f"{flop / 1e9:8.1f} GFLOP" if flop > _GIGA_ABOVE else f"{flop / 1e6:8.1f} MFLOP"


def _peak_name(dtype: str, peaks: Mapping[str, float]) -> str:
    """The peak a dtype goes by; 32-bit products run on tensor cores, where there are any."""
    return "tf32" if dtype == "fp32" and "tf32" in peaks else dtype


def _tflops(rate: float) -> str:
    return f"{rate:8.1f}" if rate >= 1 else f"{rate:8.3f}"


def _measured(measured: float | None, peak: float) -> str:
    if measured is None:
        return ""
    if measured == peak:
        return "   measured"
    return f"   measured {measured:.0f} of {peak:.0f} TFLOP/s, {100 * measured / peak:.0f} %"


def _files(files: Sequence[DataFile]) -> Iterator[str]:
    names = [printable(file.name) for file in files]
    width = max((len(name) for name in names), default=0)
    for name, file in zip(names, files, strict=True):
        yield f"    {name}" if file.tokens is None else f"    {name:<{width}} : {file.tokens:>12}"


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _value(value: object) -> str:
    return printable(str(value), longest=LONGEST_VALUE)


def _sum(rows: Iterable[Segment], kind: str) -> int:
    return sum(int(getattr(row, kind)) for row in rows)


def _bytes(amount: int) -> str:
    return format_bytes(amount) if amount else "-"
