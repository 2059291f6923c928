"""The first lines of the screen: the run and how far it is, the tabs, the title of a part."""

from __future__ import annotations

from epochal.format import format_duration
from epochal.store.answers import RunInfo, State
from epochal.store.progress import Progress
from epochal.tui.cells import Line, Span, clip_text, fit, printable, width
from epochal.tui.glyphs import Glyphs
from epochal.tui.spark import progress_bar
from epochal.tui.view import TABS, Tab

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


def state_dot(state: State, *, glyphs: Glyphs) -> Span:
    """The dot that tells how a run stands."""
    return Span(glyphs.running if state == "running" else glyphs.ended, _STATES[state])


def run_line(info: RunInfo, progress: Progress, *, columns: int, glyphs: Glyphs) -> Line:
    """The run on one line: state, name, bar, percent, time left; what matters least gives way."""
    style = _STATES[info.status.state]
    start: Line = (
        state_dot(info.status.state, glyphs=glyphs),
        Span(f" {info.status.text} ", style),
    )
    ends = _ends(progress)
    name = printable(f"{info.project}/{info.name}")
    while True:
        end: Line = tuple(Span(f"  {text}", style) for text, style in ends)
        room = columns - width(start) - width(end)
        if len(name) + _SHORTEST_BAR + 2 <= room or not ends:
            break
        ends.pop()
    has_bar = progress.share is not None and room >= min(len(name), _LEAST_NAME) + 2 + _SHORTEST_BAR
    named = clip_text(name, room - (_SHORTEST_BAR + 2 if has_bar else 0), ellipsis=glyphs.ellipsis)
    line = (*start, Span(named, "strong"))
    if has_bar:
        assert progress.share is not None
        bar = min(columns - width(line) - width(end) - 2, _LONGEST_BAR)
        line = (*line, Span("  "), *progress_bar(progress.share, bar, glyphs=glyphs, style=style))
    return fit((*line, *end), columns)


def tab_line(tab: Tab, *, columns: int, right: Line) -> Line:
    """The tabs, the one that is open set off; numbers alone where there is no room for names."""
    names = [f" {number} {name} " for number, name in enumerate(TABS, 1)]
    if sum(map(len, names)) + width(right) > columns:
        names = [
            f" {number} {name} " if name == tab else f" {number} "
            for number, name in enumerate(TABS, 1)
        ]
    spans = tuple(
        Span(name, "tab" if one == tab else "dim") for name, one in zip(names, TABS, strict=True)
    )
    room = columns - width(right)
    return fit((*fit(spans, max(room, 0)), *right), columns)


def title(text: str, columns: int, *, glyphs: Glyphs, remark: str = "") -> Line:
    """The heading of a part, with a rule to its end."""
    name = clip_text(text, columns, ellipsis=glyphs.ellipsis)
    after = clip_text(f" {remark}" if remark else "", columns - len(name), ellipsis="")
    rest = columns - width((Span(name), Span(after))) - 1
    spans = (Span(name, "title"), Span(after, "dim"))
    return (*spans, Span(f" {glyphs.rule * rest}", "dim")) if rest > 0 else spans


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
