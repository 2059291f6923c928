"""Kinds about machines: telemetry of GPUs and hosts, memory, signs of life."""

from __future__ import annotations

from epochal.records.kind import Field, Kind

# Of an interval; a record of a single reading has none of them.
_INTERVAL = (
    Field("interval_s", "amount", "s", "the time before `t` that the record stands for"),
    Field("min", "object", meaning="least values, under the same names; rates have none"),
    Field("max", "object", meaning="greatest values, under the same names"),
)


def _series(name: str, unit: str, meaning: str = "") -> Field:
    return Field(name, unit=unit, meaning=meaning, series=True)


GPU = Kind(
    "gpu",
    "time",
    "one GPU's telemetry",
    dense=True,
    prefix="gpu/",
    by_id=True,
    fields=(
        Field("id", "count", meaning="the number the vendor's tools show"),
        _series("clock", "MHz"),
        _series("max_clock", "MHz"),
        _series("fan", "%"),
        _series("power", "mW"),
        _series("power_limit", "mW"),
        _series("temperature", "°C"),
        _series("temp_slowdown", "°C", "where the GPU begins to slow down"),
        _series("gpu_util", "%"),
        _series("mem_util", "%"),
        _series("dram_free", "bytes"),
        _series("dram_used", "bytes"),
        _series("dram_total", "bytes"),
        _series("pcie_rx", "bytes/s"),
        _series("pcie_tx", "bytes/s"),
        _series("sm_active", "%", "time that multiprocessors worked"),
        _series("tensor_active", "%", "time that tensor cores worked"),
        _series("dram_active", "%", "time that the memory bus worked"),
        _series("energy", "kJ", "since the first sample"),
        _series("ecc_corrected", "errors", "since the driver was loaded"),
        _series("ecc_uncorrected", "errors", "since the driver was loaded"),
        Field("throttle", "text", meaning="the gravest reason to slow down; empty at full speed"),
        *_INTERVAL,
    ),
)

GPU_MODEL = Kind(
    "gpu-model",
    "none",
    "what a GPU is",
    prefix="gpu-model/",
    fields=(
        Field("name", "text"),
        Field("sm_count", "count", meaning="multiprocessors, compute units or GPU cores"),
        Field("major", "count", meaning="of the device's capability"),
        Field("minor", "count", meaning="of the device's capability"),
        Field("memory", "count", "bytes"),
        Field("free", "count", "bytes"),
        Field("l2_size", "count", "bytes"),
        Field("uuid", "text"),
        Field("ecc", "flag"),
        Field("cuda_driver", "count", meaning="1000 * major + 10 * minor"),
        Field("cuda_runtime", "count", meaning="1000 * major + 10 * minor"),
        Field("rank", "count"),
        Field("id", "count", meaning="the `id` of its `gpu` records"),
    ),
)

SYSTEM = Kind(
    "system",
    "time",
    "one host's telemetry",
    dense=True,
    prefix="system/",
    fields=(
        _series("cpu_pct", "%"),
        _series("ram_used", "bytes"),
        _series("ram_total", "bytes"),
        _series("process_cpu_pct", "%", "the training and its children; 100 is one core"),
        _series("rss", "bytes", "resident memory of the training process"),
        _series("children", "processes"),
        _series("children_rss", "bytes"),
        _series("threads", "threads"),
        _series("disk_read", "bytes/s"),
        _series("disk_write", "bytes/s"),
        _series("disk_free", "bytes"),
        _series("disk_total", "bytes"),
        _series("net_rx", "bytes/s"),
        _series("net_tx", "bytes/s"),
        _series("epochal_cpu_pct", "%", "the companion; 100 is one core"),
        _series("epochal_rss", "bytes", "resident memory of the companion"),
        *_INTERVAL,
    ),
)

HEARTBEAT = Kind("heartbeat", "none", "the companion saw the process of the run alive", dense=True)

TIMELINE = Kind(
    "timeline",
    "time",
    "a close view of a stretch of time, such as a slow step",
    (
        Field("start", "number", "s", "Unix time"),
        Field("period_s", "amount", "s", "time between samples"),
        Field("samples", "object", meaning="name to list of numbers or null"),
        Field(
            "gaps",
            "list",
            meaning="when a device was idle",
            fields=(
                Field("device", "text"),
                Field("start", "number", "s", "Unix time"),
                Field("end", "number", "s", "Unix time"),
                Field("cause", "text"),
            ),
        ),
        Field("reason", "text", meaning="why it was written"),
        Field("step", "count"),
    ),
)

ALLOCATOR = Kind(
    "allocator",
    "step",
    "memory by segment",
    prefix="memory/",
    fields=(
        Field("id", "count", meaning="of the GPU, where it is known"),
        Field(
            "stats",
            "list",
            meaning="one object for each segment",
            fields=(
                Field("name", "text", meaning="of the segment"),
                Field("device", "count", "bytes", series=True),
                Field("managed", "count", "bytes", series=True),
                Field("pinned", "count", "bytes", series=True),
                Field("pageable", "count", "bytes", series=True),
            ),
        ),
    ),
)
# Where the memory of a segment can lie.
ALLOCATOR_PLACES = tuple(one.name for one in ALLOCATOR["stats"].fields if one.series)

MACHINE = (GPU, GPU_MODEL, SYSTEM, HEARTBEAT, TIMELINE, ALLOCATOR)
