"""A run on one line: its state, name and progress."""

from __future__ import annotations

from rich.text import Text

from epochal.format import format_duration
from epochal.store.answers import RunInfo, State
from epochal.store.progress import Progress
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import clip_text, fit, printable
from epochal.tui.spark import progress_bar

_STATES: dict[State, str] = {
    "running": "good",
    "finished": "accent",
    "waiting": "dim",
    "silent": "warn",
    "interrupted": "warn",
    "terminated": "warn",
    "failed": "bad",
    "crashed": "bad",
    "unreadable": "bad",
}
_SHORTEST_BAR, _LONGEST_BAR = 6, 40
_LEAST_NAME = 12


def state_dot(state: State, *, glyphs: Glyphs) -> tuple[str, str]:
    """The dot that shows the state of a run, and its style."""
    return (glyphs.running if state == "running" else glyphs.ended, _STATES[state])


def run_line(info: RunInfo, progress: Progress, *, columns: int, glyphs: Glyphs) -> Text:
    """State, name, bar, percent and time left; what matters least is left out first."""
    style = _STATES[info.status.state]
    line = Text.assemble(
        state_dot(info.status.state, glyphs=glyphs), (f" {info.status.text} ", style)
    )
    name = printable(f"{info.project}/{info.name}")
    ends = _ends(progress)
    while True:
        end = Text.assemble(*((f"  {text}", style) for text, style in ends))
        room = columns - line.cell_len - end.cell_len
        if len(name) + _SHORTEST_BAR + 2 <= room or not ends:
            break
        ends.pop()
    has_bar = progress.share is not None and room >= min(len(name), _LEAST_NAME) + 2 + _SHORTEST_BAR
    line.append(clip_text(name, room - (_SHORTEST_BAR + 2 if has_bar else 0)), "strong")
    if has_bar:
        assert progress.share is not None
        bar = min(columns - line.cell_len - end.cell_len - 2, _LONGEST_BAR)
        line.append("  ").append_text(progress_bar(progress.share, bar, glyphs=glyphs, style=style))
    return fit(line.append_text(end), columns)


def _ends(progress: Progress) -> list[tuple[str, str]]:
    """What follows the bar, the most important first."""
    ends = []
    if progress.share is not None:
        ends.append((f"{100 * progress.share:.0f} %", "strong"))
    if progress.eta_s is not None:
        ends.append((f"ETA {format_duration(progress.eta_s)}", "strong"))
    ends.append((progress.text, ""))
    if progress.elapsed_s is not None:
        words = "so far" if progress.is_going else "in all"
        ends.append((f"{format_duration(progress.elapsed_s)} {words}", "dim"))
    return ends
