"""Kinds about machines: telemetry of GPUs and hosts, memory, signs of life."""

from __future__ import annotations

from epochal.records.kind import Field, counts, kind, nested, series, texts

# Of an interval; a record of a single reading has none of them.
_INTERVAL = (
    Field("interval_s", "amount", "s", "the time before `t` that the record stands for"),
    Field("min", "object", meaning="least values, under the same names; rates have none"),
    Field("max", "object", meaning="greatest values, under the same names"),
)

GPU = kind(
    "gpu",
    "time",
    "one GPU's telemetry",
    Field("id", "count", meaning="the number the vendor's tools show"),
    series("clock", "MHz"),
    series("max_clock", "MHz"),
    series("fan", "%"),
    series("power", "mW"),
    series("power_limit", "mW"),
    series("temperature", "°C"),
    series("temp_slowdown", "°C", "where the GPU begins to slow down"),
    series("gpu_util", "%"),
    series("mem_util", "%"),
    series("dram_free", "bytes"),
    series("dram_used", "bytes"),
    series("dram_total", "bytes"),
    series("pcie_rx", "bytes/s"),
    series("pcie_tx", "bytes/s"),
    series("sm_active", "%", "time that multiprocessors worked"),
    series("tensor_active", "%", "time that tensor cores worked"),
    series("dram_active", "%", "time that the memory bus worked"),
    series("energy", "kJ", "since the first sample"),
    series("ecc_corrected", "errors", "since the driver was loaded"),
    series("ecc_uncorrected", "errors", "since the driver was loaded"),
    Field("throttle", "text", meaning="the gravest reason to slow down; empty at full speed"),
    *_INTERVAL,
    dense=True,
    prefix="gpu/",
    by_id=True,
)

GPU_MODEL = kind(
    "gpu-model",
    "none",
    "what a GPU is",
    *texts("name"),
    Field("sm_count", "count", meaning="multiprocessors, compute units or GPU cores"),
    Field("major", "count", meaning="of the device's capability"),
    Field("minor", "count", meaning="of the device's capability"),
    *counts("memory", "free", "l2_size", unit="bytes"),
    Field("uuid", "text"),
    Field("ecc", "flag"),
    Field("cuda_driver", "count", meaning="1000 * major + 10 * minor"),
    Field("cuda_runtime", "count", meaning="1000 * major + 10 * minor"),
    Field("rank", "count"),
    Field("id", "count", meaning="the `id` of its `gpu` records"),
    prefix="gpu-model/",
)

SYSTEM = kind(
    "system",
    "time",
    "one host's telemetry",
    series("cpu_pct", "%"),
    series("ram_used", "bytes"),
    series("ram_total", "bytes"),
    series("process_cpu_pct", "%", "the training and its children; 100 is one core"),
    series("rss", "bytes", "resident memory of the training process"),
    series("children", "processes"),
    series("children_rss", "bytes"),
    series("threads", "threads"),
    series("disk_read", "bytes/s"),
    series("disk_write", "bytes/s"),
    series("disk_free", "bytes"),
    series("disk_total", "bytes"),
    series("net_rx", "bytes/s"),
    series("net_tx", "bytes/s"),
    series("epochal_cpu_pct", "%", "the companion; 100 is one core"),
    series("epochal_rss", "bytes", "resident memory of the companion"),
    *_INTERVAL,
    dense=True,
    prefix="system/",
)

HEARTBEAT = kind("heartbeat", "none", "the companion saw the process of the run alive", dense=True)

TIMELINE = kind(
    "timeline",
    "time",
    "a close view of a stretch of time, such as a slow step",
    Field("start", "number", "s", "Unix time"),
    Field("period_s", "amount", "s", "time between samples"),
    Field("samples", "object", meaning="name to list of numbers or null"),
    nested(
        "gaps",
        "list",
        "when a device was idle",
        Field("device", "text"),
        Field("start", "number", "s", "Unix time"),
        Field("end", "number", "s", "Unix time"),
        Field("cause", "text"),
    ),
    Field("reason", "text", meaning="why it was written"),
    Field("step", "count"),
)

ALLOCATOR = kind(
    "allocator",
    "step",
    "memory by segment",
    Field("id", "count", meaning="of the GPU, where it is known"),
    nested(
        "stats",
        "list",
        "one object for each segment",
        Field("name", "text", meaning="of the segment"),
        series("device", "bytes", type="count"),
        series("managed", "bytes", type="count"),
        series("pinned", "bytes", type="count"),
        series("pageable", "bytes", type="count"),
    ),
    prefix="memory/",
)
# Where the memory of a segment can lie.
ALLOCATOR_PLACES = tuple(one.name for one in ALLOCATOR["stats"].fields if one.series)

MACHINE = (GPU, GPU_MODEL, SYSTEM, HEARTBEAT, TIMELINE, ALLOCATOR)
