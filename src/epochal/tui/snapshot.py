"""A run printed once, as plain lines: for pipes, batch logs and a glance."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from rich.text import Text

from epochal.store.progress import progress_of
from epochal.tui.app_state import AppState
from epochal.tui.charts import large_chart
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import heading, printable
from epochal.tui.machine import gpu_lines, gpus_of, host_lines, hosts_of
from epochal.tui.run_line import run_line
from epochal.tui.run_text import finding_lines, log_lines, sample_lines, sample_title
from epochal.tui.view import View
from epochal.tui.vitals import vital_lines, vitals_of

_CHART_ROWS, _FINDINGS, _LOG = 14, 8, 8
_SAMPLE_ROWS = 6


def snapshot(state: AppState, *, columns: int, now: float, glyphs: Glyphs) -> Iterator[Text]:
    """The chosen run as it is at the Unix time ``now``; as many lines as it takes."""
    run, run_log = state.run, state.run_log()
    if run is None or run_log is None:
        yield Text("No runs here yet.")
        return
    info = run.info
    yield run_line(info, progress_of(run, info, now=now), columns=columns, glyphs=glyphs)
    for problem in filter(None, (info.status.reason, info.problem)):
        yield Text.assemble((f"  {printable(problem)}", "bad"))
    yield Text()
    if state.metric(None) is not None:
        yield from large_chart(state, View(), columns=columns, rows=_CHART_ROWS, glyphs=glyphs)
        yield Text()
    yield from vital_lines(vitals_of(run), columns=columns, glyphs=glyphs)
    machine = gpu_lines(gpus_of(run, run_log.throttles), columns=columns, glyphs=glyphs)
    machine += host_lines(hosts_of(run), columns=columns, glyphs=glyphs)
    findings = finding_lines(run_log.findings, columns=columns, rows=_FINDINGS, glyphs=glyphs)
    log = log_lines(list(run_log.log), columns=columns, rows=_LOG)
    for name, lines in (("Machine", machine), ("Findings", findings), ("Log", log)):
        if lines:
            yield Text()
            yield heading(name, columns, glyphs=glyphs)
            yield from lines
    if run_log.texts:
        sample = run_log.texts[-1]
        yield Text()
        yield heading("Sample", columns, glyphs=glyphs, remark=sample_title(sample))
        yield from sample_lines(sample, columns=columns)[:_SAMPLE_ROWS]


def pieces(line: Text) -> list[tuple[str, str]]:
    """A line as stretches of text, each in one named style."""
    cuts = sorted({0, len(line), *(edge for span in line.spans for edge in (span.start, span.end))})
    return [
        (
            line.plain[start:end],
            next((str(s.style) for s in line.spans if s.start <= start < s.end), ""),
        )
        for start, end in pairwise(cuts)
    ]
