"""The panels of the app as lines: each takes the state and its size, and returns styled text."""

from __future__ import annotations

import os
import shlex
import time
from pathlib import Path

from rich.text import Text

from epochal.settings import read_setting
from epochal.store.answers import RunInfo
from epochal.store.progress import progress_of
from epochal.tui.app_state import AppState
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import heading, printable
from epochal.tui.machine import gpu_detail, gpu_lines, gpus_of, host_detail, host_lines, hosts_of
from epochal.tui.run_line import run_line
from epochal.tui.run_log import RunLog
from epochal.tui.run_text import config_lines, finding_lines, log_lines, sample_lines, sample_title
from epochal.tui.vitals import vital_grid, vital_lines, vitals_of

_ENDED_EARLY = ("failed", "crashed", "interrupted", "terminated")


def tip(info: RunInfo, run_log: RunLog | None, *, is_paused: bool = False) -> str | None:
    """One sentence about what can be done now; None when there is nothing to be done."""
    name = _named(info)
    if is_paused:
        return "paused; the run continues: p shows the newest values"
    if info.status.state in _ENDED_EARLY and info.tracker is None:
        return f"epochal resume {name}  prints the command that continues it"
    if info.status.text == "suspended":
        return "suspended by a signal: Z continues it"
    if info.status.state == "waiting":
        return "nothing was logged yet: it appears by itself"
    if run_log is not None and any(
        found.is_open and found.severity == "error" for found in run_log.findings
    ):
        return f"epochal doctor {name}  tells what proves it and what to try"
    if info.status.state == "silent":
        return "it may hang, or its machine be cut off: 4 shows what it said last"
    return None


def _named(info: RunInfo) -> str:
    """The run as a command takes it, with its folder of runs where that is not the usual one."""
    name = shlex.quote(f"{info.project}/{info.name}")
    root = Path(info.folder).parent.parent
    if info.tracker is not None or root == Path(read_setting("dir")).expanduser().absolute():
        return name
    near = os.path.relpath(root)
    return f"{name} --dir {shlex.quote(min(near, str(root), key=len))}"


_MOST_GPUS = 8
_FEW_VITALS = 3


def header(state: AppState, columns: int, glyphs: Glyphs) -> Text:
    """The run, its state and its progress on one line."""
    if state.run is None:
        return Text.assemble(("epochal watch", "strong"))
    info = state.run.info
    progress = progress_of(state.run, info, now=time.time())
    return run_line(info, progress, columns=columns, glyphs=glyphs)


def trouble(state: AppState) -> Text:
    """Why a run ended, and what cannot be read; empty when there is nothing."""
    if state.run is None:
        return Text.assemble((printable(state.lost), "bad"))
    info = state.run.info
    words = " ".join(text for text in (state.lost, info.status.reason, info.problem) if text)
    return Text.assemble((printable(words), "bad"))


def advice(state: AppState, *, is_paused: bool) -> Text:
    """What can be done now; empty when there is nothing to do."""
    if state.run is None:
        return Text()
    text = tip(state.run.info, state.run_log(), is_paused=is_paused)
    return Text() if text is None else Text.assemble(("tip ", "key"), (printable(text), "dim"))


def figures(state: AppState, columns: int, rows: int, glyphs: Glyphs) -> list[Text]:
    """Vital signs, machine and the newest text sample, each with a title."""
    run, run_log = state.run, state.run_log()
    if run is None or run_log is None:
        return []
    lines = [heading("Vital signs", columns, glyphs=glyphs)]
    lines += vital_lines(vitals_of(run), columns=columns, glyphs=glyphs)
    if machines := machine(state, columns, glyphs):
        lines += [Text(), heading("Machine", columns, glyphs=glyphs), *machines]
    if run_log.texts and rows - len(lines) >= 4:
        sample = run_log.texts[-1]
        title = heading("Sample", columns, glyphs=glyphs, remark=sample_title(sample))
        lines += [Text(), title, *sample_lines(sample, columns=columns)]
    return lines


def short_figures(state: AppState, columns: int, rows: int, glyphs: Glyphs) -> list[Text]:
    """Vital signs and machine for a narrow screen, in at most about ``rows`` lines."""
    if state.run is None:
        return []
    vitals = vitals_of(state.run)
    is_tall = rows >= len(vitals) + 12
    draw = vital_lines if is_tall or len(vitals) <= _FEW_VITALS else vital_grid
    lines = draw(vitals, columns=columns, glyphs=glyphs)
    return lines + machine(state, columns, glyphs)[: max(rows - len(lines) - 1, 0)]


def machine(state: AppState, columns: int, glyphs: Glyphs) -> list[Text]:
    """One line for each GPU and host."""
    run, run_log = state.run, state.run_log()
    if run is None or run_log is None:
        return []
    gpus = gpus_of(run, run_log.throttles)
    lines = gpu_lines(gpus[:_MOST_GPUS], columns=columns, glyphs=glyphs)
    if len(gpus) > _MOST_GPUS:
        lines.append(Text.assemble((f"and {len(gpus) - _MOST_GPUS} more: see 3 system", "dim")))
    return lines + host_lines(hosts_of(run)[:2], columns=columns, glyphs=glyphs)


def words(state: AppState, columns: int, rows: int, glyphs: Glyphs) -> list[Text]:
    """Findings and the end of the log; without titles where there are few rows."""
    run_log = state.run_log()
    if run_log is None:
        return []
    findings, log = run_log.findings, list(run_log.log)
    if rows < 4:
        lines = finding_lines(findings, columns=columns, rows=1, glyphs=glyphs)
        return lines + log_lines(log, columns=columns, rows=rows - len(lines))
    lines = []
    if findings:
        num_open = sum(found.is_open for found in findings)
        remark = f"{num_open} open" if num_open else "all ended"
        lines.append(heading("Findings", columns, glyphs=glyphs, remark=remark))
        room = max(1, rows // 2 - 1)
        lines += finding_lines(findings, columns=columns, rows=room, glyphs=glyphs)
    rest = rows - len(lines) - 1
    if rest >= 1 and log:
        lines.append(heading("Log", columns, glyphs=glyphs))
        lines += log_lines(log, columns=columns, rows=rest)
    return lines


def system(state: AppState, columns: int, glyphs: Glyphs) -> list[Text]:
    """Everything about each GPU and host."""
    run, run_log = state.run, state.run_log()
    if run is None or run_log is None:
        return []
    gpus, hosts = gpus_of(run, run_log.throttles), hosts_of(run)
    parts = [gpu_detail(gpu, columns=columns, glyphs=glyphs) for gpu in gpus]
    parts += [host_detail(host, columns=columns, glyphs=glyphs) for host in hosts]
    if not parts:
        return [Text.assemble(("This run measured no machine.", "dim"))]
    return [line for part in parts for line in (*part, Text())]


def samples(state: AppState, columns: int, glyphs: Glyphs) -> list[Text]:
    """The text samples, the newest first."""
    run_log = state.run_log()
    lines: list[Text] = []
    for sample in reversed(run_log.texts if run_log else ()):
        lines.append(heading(sample_title(sample), columns, glyphs=glyphs))
        lines += [*sample_lines(sample, columns=columns), Text()]
    return lines or [Text.assemble(("This run logged no text.", "dim"))]


def config(state: AppState, columns: int, glyphs: Glyphs) -> list[Text]:
    """How the run was configured and started."""
    run = state.run
    return [] if run is None else config_lines(run.config, run.facts, run.info, columns=columns)
