"""What keys do: each turns a view into the next one, or has the state look at something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import get_args

from epochal.store.along import X
from epochal.store.process_action import ProcessAction
from epochal.tui.app_state import AppState
from epochal.tui.chart import extent_of
from epochal.tui.view import SMOOTHINGS, TABS, Typing, View
from epochal.tui.zoom import Extent, Zoom

_PAGE = 10
_FAR = 10**9
_AXES: tuple[X, ...] = get_args(X)
Action = Callable[[View, AppState], View]


def press(key: str, view: View, state: AppState) -> View:
    """The view after a key; one that means nothing changes nothing."""
    state.notice = ""
    if view.asking is not None:
        return _answered(key, view, view.asking, state)
    if view.typing is not None:
        return _typed(key, view, view.typing, state)
    if view.shows_help:
        return replace(view, shows_help=False)
    if key.isdecimal() and 1 <= int(key) <= len(TABS):
        return replace(view, tab=TABS[int(key) - 1], scroll=0, is_enlarged=False)
    action = _ACTIONS.get(key)
    return view if action is None else action(view, state)


def is_quit(key: str, view: View) -> bool:
    """Whether a key ends the view; in a line, the help or a question it does not."""
    is_elsewhere = view.typing is not None or view.shows_help or view.asking is not None
    return key in ("q", "Q") and not is_elsewhere


def filter_text(view: View, typing: Typing) -> str:
    """The line being typed as it is so far."""
    return view.run_filter if typing.what == "runs" else view.metric_filter


def _typed(key: str, view: View, typing: Typing, state: AppState) -> View:
    """A line being typed is applied letter by letter; Enter keeps it, Esc restores the old one."""
    text = filter_text(view, typing)
    if key == "enter":
        return replace(view, typing=None)
    if key == "escape":
        return _filtered(replace(view, typing=None), typing, typing.before, state)
    if key == "backspace":
        return _filtered(view, typing, text[:-1], state)
    if key == "erase":
        return _filtered(view, typing, "", state)
    letter = " " if key == "space" else key
    if len(letter) == 1 and letter.isprintable():
        return _filtered(view, typing, text + letter, state)
    return view


def _filtered(view: View, typing: Typing, text: str, state: AppState) -> View:
    if typing.what == "metrics":
        state.check_pattern(text)
        return replace(view, metric_filter=text, metric=None)
    state.filter(text)
    return replace(view, run_filter=text)


def _start_typing(view: View, state: AppState) -> View:
    if view.tab == "charts" and not view.is_enlarged:
        return replace(view, typing=Typing("metrics", view.metric_filter))
    return replace(view, typing=Typing("runs", view.run_filter))


def _back(view: View, state: AppState) -> View:
    """Undo one thing, the nearest first."""
    if view.is_enlarged:
        return replace(view, is_enlarged=False)
    if view.tab == "charts" and view.metric_filter:
        return replace(view, metric_filter="")
    if view.run_filter:
        state.filter("")
        return replace(view, run_filter="")
    if view.shows_runs:
        return replace(view, shows_runs=None)
    return replace(view, zoom=Zoom(), scroll=0)


def _stop(view: View, state: AppState) -> View:
    return replace(view, asking="stop") if state.is_going else view


def _suspend(view: View, state: AppState) -> View:
    if not state.is_going:
        return view
    return replace(view, asking="continue" if state.is_suspended else "suspend")


def _answered(key: str, view: View, wish: ProcessAction, state: AppState) -> View:
    """A question about the run is answered by y, or by its own key pressed again."""
    if key in ("y", "Y") or _ASKS.get(key) is (_stop if wish == "stop" else _suspend):
        state.steer(wish)
    return replace(view, asking=None)


def _tab(by: int) -> Action:
    def turn(view: View, state: AppState) -> View:
        tab = TABS[(TABS.index(view.tab) + by) % len(TABS)]
        return replace(view, tab=tab, scroll=0, is_enlarged=False)

    return turn


def _run(by: int) -> Action:
    def choose(view: View, state: AppState) -> View:
        state.choose(state.place + by)
        return replace(view, scroll=0)

    return choose


def _scroll(by: int) -> Action:
    """Lines; in the charts series. The log is counted from its end, which is below."""

    def move(view: View, state: AppState) -> View:
        if view.tab == "charts":
            return _metric(by)(view, state)
        direction = -1 if view.tab == "log" else 1
        end = view.scroll if state.scroll_end is None else state.scroll_end
        return replace(view, scroll=max(0, min(view.scroll, end) + direction * by))

    return move


def _metric(by: int) -> Action:
    def choose(view: View, state: AppState) -> View:
        metrics = state.metrics(view.metric_filter if view.tab == "charts" else "")
        chosen = state.metric(view.metric)
        if not metrics or chosen is None:
            return view
        at = metrics.index(chosen) if chosen in metrics else -by
        return replace(view, metric=metrics[max(0, min(at + by, len(metrics) - 1))].name)

    return choose


def _pan(direction: int) -> Action:
    def move(view: View, state: AppState) -> View:
        return replace(view, zoom=view.zoom.moved(direction, _extent(view, state)))

    return move


def _extent(view: View, state: AppState) -> Extent | None:
    metric = state.metric(view.metric)
    if metric is None or state.run is None:
        return None
    curves, kind = state.curves.of(state.run, metric, others=state.others(), x=view.x)
    return extent_of(curves, kind)


def _smooth(view: View, state: AppState) -> View:
    at = SMOOTHINGS.index(view.smoothing)
    return replace(view, smoothing=SMOOTHINGS[(at + 1) % len(SMOOTHINGS)])


def _axis(view: View, state: AppState) -> View:
    return replace(view, x=_AXES[(_AXES.index(view.x) + 1) % len(_AXES)], zoom=Zoom())


def _compare(view: View, state: AppState) -> View:
    state.compare()
    return view


def _compare_none(view: View, state: AppState) -> View:
    state.compared = []
    return view


def _show_runs(view: View, state: AppState) -> View:
    # From "where there is room" the first press decides for the other of the two.
    return replace(view, shows_runs={None: True, True: False, False: None}[view.shows_runs])


def _enlarge(view: View, state: AppState) -> View:
    return replace(view, is_enlarged=view.tab == "charts" and not view.is_enlarged)


# What is asked about before it is done to a run.
_ASKS: Mapping[str, Action] = {"X": _stop, "Z": _suspend}
_ACTIONS: Mapping[str, Action] = {
    **_ASKS,
    "?": lambda view, state: replace(view, shows_help=True),
    "h": lambda view, state: replace(view, shows_help=True),
    "tab": _tab(1),
    "shift-tab": _tab(-1),
    "up": _run(-1),
    "down": _run(1),
    "home": _run(-_FAR),
    "end": _run(_FAR),
    "r": _show_runs,
    "/": _start_typing,
    "escape": _back,
    "enter": _enlarge,
    "c": _compare,
    "C": _compare_none,
    "+": lambda view, state: replace(view, zoom=view.zoom.closer()),
    "=": lambda view, state: replace(view, zoom=view.zoom.closer()),
    "-": lambda view, state: replace(view, zoom=view.zoom.wider()),
    "0": lambda view, state: replace(view, zoom=Zoom()),
    "left": _pan(-1),
    "right": _pan(1),
    "s": _smooth,
    "l": lambda view, state: replace(view, is_log=not view.is_log),
    "o": lambda view, state: replace(view, clips_outliers=not view.clips_outliers),
    "x": _axis,
    "[": _metric(-1),
    "]": _metric(1),
    "j": _scroll(1),
    "k": _scroll(-1),
    "pagedown": _scroll(_PAGE),
    "pageup": _scroll(-_PAGE),
    "g": _scroll(-_FAR),
    "G": _scroll(_FAR),
    "p": lambda view, state: replace(view, is_paused=not view.is_paused),
    "space": lambda view, state: replace(view, is_paused=not view.is_paused),
}
