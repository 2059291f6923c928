"""GPUs and hosts as meters: one line each in the overview, several in their own tab."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from epochal.format import format_bytes
from epochal.tui.cells import Line, Span, fit, width
from epochal.tui.glyphs import Glyphs
from epochal.tui.machine import Gpu, Host
from epochal.tui.spark import meter, sparkline

_HOT_BY = 5.0  # degrees below the slowdown
_UNKNOWN = "—"
_SPARK = 40
_SHORTEST = 3
_NOT_THROTTLED = ("", "none", "idle")


def gpu_lines(gpus: Sequence[Gpu], *, columns: int, glyphs: Glyphs) -> list[Line]:
    """One line for each GPU: utilisation, memory, power, temperature, why it holds back."""
    name = max((len(gpu.name) for gpu in gpus), default=0)
    return [_gpu_line(gpu, name, columns=columns, glyphs=glyphs) for gpu in gpus]


def host_lines(hosts: Sequence[Host], *, columns: int, glyphs: Glyphs) -> list[Line]:
    """One line for each node: CPU and memory."""
    lines = []
    for host in hosts:
        cpu, used, total = (host.figures.get(f) for f in ("cpu_pct", "ram_used", "ram_total"))
        name = "CPU" if host.num_ranks < 2 else f"CPU {host.rank}"
        size = max(4, min((columns - 26) // 2, 16))
        line: Line = (Span(f"{name} ", "dim"),)
        if cpu is not None:
            line += (*meter(cpu / 100, size, glyphs=glyphs), Span(f"{cpu:4.0f}%"))
        if used is not None:
            line += (Span("  RAM ", "dim"),)
            if total:
                line += meter(used / total, size, glyphs=glyphs, warns=True)
            fits = width(line) + len(_of(used, total)) < columns
            line += (Span(f" {_of(used, total) if fits else format_bytes(used)}"),)
        lines.append(fit(line, columns))
    return lines


def gpu_detail(gpu: Gpu, *, columns: int, glyphs: Glyphs) -> list[Line]:
    """Everything about one GPU."""
    size = max(8, min(columns - 40, 40))
    lines: list[Line] = [(Span(gpu.name, "strong"), *_throttle(gpu))]
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


def host_detail(host: Host, *, columns: int, glyphs: Glyphs) -> list[Line]:
    """Everything about one node."""
    figures, size = host.figures, max(8, min(columns - 40, 40))
    lines: list[Line] = [(Span("Host" if host.num_ranks < 2 else f"Host {host.rank}", "strong"),)]
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
            lines.append((Span(f"  {label:<8}", "dim"), Span(words)))
    return [fit(line, columns) for line in lines]


def _gpu_line(gpu: Gpu, name: int, *, columns: int, glyphs: Glyphs) -> Line:
    line: Line = (Span(f"{gpu.name:<{name}} ", "dim"),)
    words = _words(gpu)
    # Utilisation and memory with their shortest meters; what does not fit beside them is left out.
    least = width(line) + (21 if gpu.memory is not None else 9)
    while words and least + width(words) > columns:
        words = words[:-1]
    size = min(_SHORTEST + (columns - least - width(words)) // 2, 16)
    util = _UNKNOWN if gpu.util is None else f"{100 * gpu.util:.0f}"
    line += (*meter(gpu.util or 0.0, size, glyphs=glyphs), Span(f"{util:>4}%"))
    if gpu.memory is not None:
        line += (Span(" mem ", "dim"), *meter(gpu.memory, size, glyphs=glyphs, warns=True))
        line += (Span(f"{100 * gpu.memory:4.0f}%"),)
    return fit((*line, *words), columns)


def _words(gpu: Gpu) -> Line:
    """What stands beside the meters, the most important first."""
    words: Line = _throttle(gpu)
    if gpu.temperature is not None:
        words += (Span(f" {gpu.temperature:.0f}°", _heat_style(gpu)),)
    if gpu.power_w is not None:
        words += (Span(f" {gpu.power_w:.0f}W"),)
    return words


def _throttle(gpu: Gpu) -> Line:
    return () if gpu.throttle in _NOT_THROTTLED else (Span(f" {gpu.throttle}", "bad"),)


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
) -> Line:
    bar = meter(share or 0.0, size, glyphs=glyphs, warns=warns)
    line: Line = (Span(f"  {label:<8}", "dim"), *bar, Span(f" {text:<9}", style))
    return (*line, Span(f" {recent}", "accent")) if recent else line


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
