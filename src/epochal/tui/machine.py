"""What the machines of a run measure: per GPU and per host, as of the newest reading."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from epochal.format import format_bytes
from epochal.store.store import RunView
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import fit, printable
from epochal.tui.spark import meter, sparkline

_GPU = re.compile(r"gpu/([^/]+)/(\w+)")
_HOST = "system/"
_HOT_BY = 5.0  # degrees below the slowdown
_UNKNOWN = "—"
_SPARK = 40
_SHORTEST = 3
_NOT_THROTTLED = ("", "none", "idle")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: shares from 0 to 1, bytes, watts, degrees; None is unknown.

    ``throttle`` is why it holds back, empty when it does not.
    """

    id: str
    rank: int
    num_ranks: int
    util: float | None = None
    used_bytes: float | None = None
    total_bytes: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature: float | None = None
    slowdown: float | None = None
    throttle: str = ""
    utils: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    @property
    def name(self) -> str:
        """What it is called beside the others."""
        name = f"GPU {printable(self.id)}"
        return name if self.num_ranks < 2 else f"{name} rank {self.rank}"

    @property
    def memory(self) -> float | None:
        """How full its memory is, from 0 to 1."""
        if self.used_bytes is None or not self.total_bytes:
            return None
        return self.used_bytes / self.total_bytes


@dataclass(frozen=True, slots=True)
class Host:
    """One node: percent, bytes, bytes per second; a figure that is missing was not measured."""

    rank: int
    num_ranks: int
    figures: Mapping[str, float]
    cpu: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


def gpus_of(run: RunView, throttles: Mapping[tuple[int, str], str]) -> list[Gpu]:
    """Every GPU that the run measured; ``throttles`` has the newest word by rank and id."""
    found: dict[tuple[int, str], dict[str, str]] = {}
    for metric in run.metrics():
        match = _GPU.fullmatch(metric.name)
        if match is not None and metric.axis == "time":
            for rank in metric.ranks:
                found.setdefault((rank, match[1]), {})[match[2]] = metric.name
    num_ranks = len({rank for rank, _ in found})
    ordered = sorted(found.items(), key=lambda item: (item[0][0], len(item[0][1]), item[0][1]))
    return [
        _gpu(run, gpu_id, rank, num_ranks, names, throttles.get((rank, gpu_id), ""))
        for (rank, gpu_id), names in ordered
    ]


def hosts_of(run: RunView) -> list[Host]:
    """Every node that the run measured."""
    names: dict[int, list[str]] = {}
    for metric in run.metrics():
        if metric.name.startswith(_HOST) and metric.axis == "time":
            for rank in metric.ranks:
                names.setdefault(rank, []).append(metric.name)
    hosts = []
    for rank, own in sorted(names.items()):
        series = {name.removeprefix(_HOST): _values(run, name, rank) for name in own}
        figures = {name: float(values[-1]) for name, values in series.items() if values.size}
        hosts.append(Host(rank, len(names), figures, series.get("cpu_pct", np.empty(0))))
    return hosts


def gpu_lines(gpus: Sequence[Gpu], *, columns: int, glyphs: Glyphs) -> list[Text]:
    """One line for each GPU: utilisation, memory, power, temperature, why it holds back."""
    name = max((len(gpu.name) for gpu in gpus), default=0)
    return [_gpu_line(gpu, name, columns=columns, glyphs=glyphs) for gpu in gpus]


def host_lines(hosts: Sequence[Host], *, columns: int, glyphs: Glyphs) -> list[Text]:
    """One line for each node: CPU and memory."""
    lines = []
    for host in hosts:
        cpu, used, total = (host.figures.get(f) for f in ("cpu_pct", "ram_used", "ram_total"))
        name = "CPU" if host.num_ranks < 2 else f"CPU {host.rank}"
        size = max(4, min((columns - 26) // 2, 16))
        line = Text.assemble((f"{name} ", "dim"))
        if cpu is not None:
            line.append_text(meter(cpu / 100, size, glyphs=glyphs)).append(f"{cpu:4.0f}%")
        if used is not None:
            line.append("  RAM ", "dim")
            if total:
                line.append_text(meter(used / total, size, glyphs=glyphs, warns=True))
            fits = line.cell_len + len(_of(used, total)) < columns
            line.append(f" {_of(used, total) if fits else format_bytes(used)}")
        lines.append(fit(line, columns))
    return lines


def gpu_detail(gpu: Gpu, *, columns: int, glyphs: Glyphs) -> list[Text]:
    """Everything about one GPU."""
    size = max(8, min(columns - 40, 40))
    lines = [Text.assemble((gpu.name, "strong"), *_throttle(gpu))]
    if gpu.util is not None:
        recent = sparkline(gpu.utils, min(_SPARK, columns - size - 22), glyphs=glyphs)
        lines.append(
            _metered("util", gpu.util, f"{100 * gpu.util:.0f} %", size, glyphs, recent=recent)
        )
    if gpu.memory is not None:
        text = _of(gpu.used_bytes or 0.0, gpu.total_bytes)
        lines.append(_metered("memory", gpu.memory, text, size, glyphs, warns=True))
    if gpu.power_w is not None:
        share = gpu.power_w / gpu.power_limit_w if gpu.power_limit_w else None
        lines.append(_metered("power", share, _power(gpu), size, glyphs))
    if gpu.temperature is not None:
        share = gpu.temperature / gpu.slowdown if gpu.slowdown else None
        limit = f" of {gpu.slowdown:.0f} °C" if gpu.slowdown else " °C"
        text = f"{gpu.temperature:.0f}{limit}"
        lines.append(_metered("heat", share, text, size, glyphs, style=_heat_style(gpu)))
    return [fit(line, columns) for line in lines]


def host_detail(host: Host, *, columns: int, glyphs: Glyphs) -> list[Text]:
    """Everything about one node."""
    figures, size = host.figures, max(8, min(columns - 40, 40))
    name = "Host" if host.num_ranks < 2 else f"Host {host.rank}"
    lines = [Text.assemble((name, "strong"))]
    if "cpu_pct" in figures:
        recent = sparkline(host.cpu, min(_SPARK, columns - size - 22), glyphs=glyphs)
        cpu = figures["cpu_pct"]
        lines.append(_metered("CPU", cpu / 100, f"{cpu:.0f} %", size, glyphs, recent=recent))
    for label, used, total in (
        ("memory", figures.get("ram_used"), figures.get("ram_total")),
        ("disk", _used(figures), figures.get("disk_total")),
    ):
        if used is not None and total:
            text = _of(used, total)
            lines.append(_metered(label, used / total, text, size, glyphs, warns=True))
    for label, words in (
        ("process", _process(figures)),
        ("traffic", _traffic(figures)),
        ("epochal", _own_cost(figures)),
    ):
        if words:
            lines.append(Text.assemble((f"  {label:<8}", "dim"), words))
    return [fit(line, columns) for line in lines]


def _gpu(
    run: RunView, gpu_id: str, rank: int, num_ranks: int, names: Mapping[str, str], throttle: str
) -> Gpu:
    def last(field: str, unit: float = 1.0) -> float | None:
        values = _values(run, names[field], rank) if field in names else np.empty(0)
        return float(values[-1]) / unit if values.size and np.isfinite(values[-1]) else None

    used, free, total = last("dram_used"), last("dram_free"), last("dram_total")
    if total is None and used is not None and free is not None:
        total = used + free
    if used is None and total is not None and free is not None:
        used = total - free
    return Gpu(
        id=gpu_id,
        rank=rank,
        num_ranks=num_ranks,
        util=last("gpu_util", 100.0),
        used_bytes=used,
        total_bytes=total,
        power_w=last("power", 1000.0),
        power_limit_w=last("power_limit", 1000.0),
        temperature=last("temperature"),
        slowdown=last("temp_slowdown"),
        throttle=throttle,
        utils=_values(run, names["gpu_util"], rank) if "gpu_util" in names else np.empty(0),
    )


def _values(run: RunView, name: str, rank: int) -> NDArray[np.float64]:
    return run.series(name, rank=rank, axis="time").floats


def _gpu_line(gpu: Gpu, name: int, *, columns: int, glyphs: Glyphs) -> Text:
    line = Text.assemble((f"{gpu.name:<{name}} ", "dim"))
    words = _words(gpu)
    # Utilisation and memory with their shortest meters; what does not fit beside them is left out.
    least = line.cell_len + (21 if gpu.memory is not None else 9)
    while words and least + sum(len(text) for text, _ in words) > columns:
        words.pop()
    rest = columns - least - sum(len(text) for text, _ in words)
    size = min(_SHORTEST + rest // 2, 16)
    util = _UNKNOWN if gpu.util is None else f"{100 * gpu.util:.0f}"
    line.append_text(meter(gpu.util or 0.0, size, glyphs=glyphs)).append(f"{util:>4}%")
    if gpu.memory is not None:
        line.append(" mem ", "dim")
        line.append_text(meter(gpu.memory, size, glyphs=glyphs, warns=True))
        line.append(f"{100 * gpu.memory:4.0f}%")
    return fit(line.append_tokens(words), columns)


def _words(gpu: Gpu) -> list[tuple[str, str]]:
    """What stands beside the meters, the most important first."""
    words = _throttle(gpu)
    if gpu.temperature is not None:
        words.append((f" {gpu.temperature:.0f}°", _heat_style(gpu)))
    if gpu.power_w is not None:
        words.append((f" {gpu.power_w:.0f}W", ""))
    return words


def _throttle(gpu: Gpu) -> list[tuple[str, str]]:
    return [] if gpu.throttle in _NOT_THROTTLED else [(f" {printable(gpu.throttle)}", "bad")]


def _heat_style(gpu: Gpu) -> str:
    if gpu.temperature is None or gpu.slowdown is None:
        return ""
    if gpu.temperature >= gpu.slowdown:
        return "bad"
    return "warn" if gpu.temperature >= gpu.slowdown - _HOT_BY else ""


def _metered(
    label: str,
    share: float | None,
    text: str,
    size: int,
    glyphs: Glyphs,
    *,
    warns: bool = False,
    style: str = "",
    recent: str = "",
) -> Text:
    bar = meter(share or 0.0, size, glyphs=glyphs, warns=warns)
    line = Text.assemble((f"  {label:<8}", "dim"), bar, (f" {text:<9}", style))
    return line.append(f" {recent}", "accent") if recent else line


def _power(gpu: Gpu) -> str:
    limit = f" of {gpu.power_limit_w:.0f} W" if gpu.power_limit_w else " W"
    return f"{gpu.power_w:.0f}{limit}"


def _of(used: float, total: float | None) -> str:
    return format_bytes(used) if not total else f"{format_bytes(used)} of {format_bytes(total)}"


def _used(figures: Mapping[str, float]) -> float | None:
    total, free = figures.get("disk_total"), figures.get("disk_free")
    return None if total is None or free is None else total - free


def _process(figures: Mapping[str, float]) -> str:
    words = []
    if (cpu := figures.get("process_cpu_pct")) is not None:
        words.append(f"{cpu:.0f} % CPU")
    if (rss := figures.get("rss")) is not None:
        words.append(f"{format_bytes(rss)} resident")
    if (children := figures.get("children_rss")) is not None:
        words.append(f"{format_bytes(children)} in children")
    return ", ".join(words)


def _traffic(figures: Mapping[str, float]) -> str:
    labels = {"disk_read": "read", "disk_write": "write", "net_rx": "in", "net_tx": "out"}
    rates = {word: figures.get(name) for name, word in labels.items()}
    return ", ".join(f"{word} {format_bytes(r)}/s" for word, r in rates.items() if r is not None)


def _own_cost(figures: Mapping[str, float]) -> str:
    cpu = figures.get("epochal_cpu_pct")
    return "" if cpu is None else f"{cpu:.1f} % of one core"
