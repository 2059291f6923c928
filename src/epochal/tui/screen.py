"""The main screen: where each panel is, and what each key does.

The panels draw themselves from ``AppState``. A timer reads what was written since and draws again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal
from textual.events import Resize
from textual.reactive import reactive
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Input, Tab, Tabs

from epochal.journal.process_action import ProcessAction
from epochal.tui import panels
from epochal.tui.app_state import REFRESH_EVERY_S, AppState
from epochal.tui.charts import chart_grid, large_chart
from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import printable
from epochal.tui.run_line import run_list
from epochal.tui.view import CHANGES, View
from epochal.tui.widgets import (
    Help,
    Line,
    LogLines,
    Panel,
    Question,
    ScrolledLines,
    help_lines,
    key,
)

TABS = ("overview", "charts", "system", "log", "text", "config")
_FAR = 10**9
_PAGE = 10
_LEAST_CHART = 7
_RUNS_FROM, _TWO_COLUMNS_FROM, _TIP_FROM = 130, 84, 20
_CLOCK_EVERY_S = 1.0
_NO_RUN = "No runs here yet: they appear by themselves as soon as one is started."
_ZOOM = Binding.Group("zoom", compact=True)
_SERIES = Binding.Group("series", compact=True)
_CHOOSE = Binding.Group("choose", compact=True)


class Overview(Container):
    """The large chart, the figures and the words; next to each other where there is room."""

    def __init__(self, state: AppState, glyphs: Glyphs, chart: Panel) -> None:
        self._state, self._glyphs = state, glyphs
        self._chart = chart
        self._figures = Panel(self._draw_figures, id="figures")
        self._words = Panel(lambda c, r: panels.words(state, c, r, glyphs), id="words")
        super().__init__(self._chart, self._figures, self._words, id="overview")

    def on_resize(self, event: Resize) -> None:
        """Arrange the panels for the new size."""
        self.redraw()

    def redraw(self) -> None:
        """Draw with the data of now; the chart gets the rows that the others leave."""
        columns, rows = self.size
        is_wide = columns >= _TWO_COLUMNS_FROM
        self.set_class(is_wide, "-wide")
        if is_wide:
            below = min(max(rows // 3, 4), 16, rows - _LEAST_CHART)
            self.styles.grid_columns = f"1fr {min(max(columns * 2 // 5, 40), 56) + 2}"
            self.styles.grid_rows = f"1fr {below}"
            self._figures.styles.height = "100%"
            self._words.styles.height = "100%"
        else:
            figures = len(self._draw_figures(columns, rows))
            left = rows - _LEAST_CHART - figures
            self._figures.styles.height = figures
            self._words.styles.height = left // 2 if left >= 8 else min(max(left, 0), 2)
        for panel in (self._chart, self._figures, self._words):
            panel.redraw()

    def _draw_figures(self, columns: int, rows: int) -> Sequence[Text]:
        if self.has_class("-wide"):
            return panels.figures(self._state, columns, rows, self._glyphs)
        rows = self.size.height - _LEAST_CHART
        return panels.short_figures(self._state, columns, rows, self._glyphs)


class Charts(Panel, can_focus=True):
    """All charts in a grid, or the chosen one alone."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("j", "screen.choose_series(1)", "choose", group=_CHOOSE),
        key("k", "screen.choose_series(-1)", "choose", group=_CHOOSE),
        key("enter", "enlarge", "enlarge", key_display="Enter"),
        key("pagedown", f"screen.choose_series({_PAGE})", show=False),
        key("pageup", f"screen.choose_series(-{_PAGE})", show=False),
        key("G", f"screen.choose_series({_FAR})", show=False),
        key("g", f"screen.choose_series(-{_FAR})", show=False),
    ]
    is_enlarged = False

    def action_enlarge(self) -> None:
        """Show the chosen chart alone, or the grid again."""
        self.is_enlarged = not self.is_enlarged
        self.redraw()


class WatchScreen(Screen[None], inherit_bindings=False):
    """The runs of a store; ``view`` is how the person at the keyboard wants charts drawn."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        key("question_mark", "help", "keys", key_display="?"),
        key("h", "help", show=False),
        key("q,Q", "quit", "quit", key_display="q"),
        key("slash", "filter", "filter", key_display="/"),
        key("c", "compare", "compare"),
        key("C", "compare_none", show=False),
        key("plus,equals_sign", "change('closer')", "zoom", key_display="+", group=_ZOOM),
        key("minus", "change('wider')", "zoom", key_display="-", group=_ZOOM),
        key("0", "change('whole')", show=False),
        key("s", "change('smoothing')", "smooth"),
        key("p,space", "pause", "pause", key_display="p"),
        key("left_square_bracket", "choose_series(-1)", "-", key_display="[", group=_SERIES),
        key("right_square_bracket", "choose_series(1)", "-", key_display="]", group=_SERIES),
        key("l", "change('log axis')", "log"),
        key("o", "change('outliers')", "outliers"),
        key("x", "change('axis')", "axis"),
        key("left", "pan(-1)", show=False),
        key("right", "pan(1)", show=False),
        key("up", "choose_run(-1)", show=False),
        key("down", "choose_run(1)", show=False),
        key("home", f"choose_run(-{_FAR})", show=False),
        key("end", f"choose_run({_FAR})", show=False),
        key("r", "runs", show=False),
        key("tab", "turn(1)", show=False),
        key("shift+tab", "turn(-1)", show=False),
        key("escape", "undo", show=False),
        key("X", "ask('stop')", show=False),
        key("Z", "ask('suspend')", show=False),
        key("ctrl+l", "redraw", show=False),
        *(key(str(n), f"tab('{name}')", show=False) for n, name in enumerate(TABS, 1)),
    ]
    view: reactive[View] = reactive(View, init=False)

    def __init__(self, state: AppState, *, glyphs: Glyphs) -> None:
        super().__init__(classes="" if glyphs.has_braille else "-ascii")
        self._state, self._glyphs = state, glyphs
        self._run_filter = self._filter_before = ""
        self._shows_runs: bool | None = None  # None: where there is room
        self._log_lines = LogLines()
        self._header = Panel(lambda c, r: [panels.header(state, c, glyphs)], id="header")
        self._modes, self._trouble, self._tip = Line(id="modes"), Line(id="trouble"), Line(id="tip")
        self._runs = Panel(self._draw_runs, id="runs")
        self._charts = Charts(self._draw_charts, id="charts")
        self._contents: dict[str, Overview | Panel | ScrolledLines] = {
            "overview": Overview(state, glyphs, Panel(self._draw_large_chart, id="chart")),
            "charts": self._charts,
            "system": ScrolledLines(lambda c: panels.system(state, c, glyphs), id="system"),
            "log": ScrolledLines(self._draw_log, id="log", follows_end=True),
            "text": ScrolledLines(lambda c: panels.samples(state, c, glyphs), id="text"),
            "config": ScrolledLines(lambda c: panels.config(state, c, glyphs), id="config"),
        }
        self._switcher = ContentSwitcher(*self._contents.values(), initial=TABS[0], id="contents")
        self._tabs = Tabs(*(Tab(f"{n} {name}", id=name) for n, name in enumerate(TABS, 1)))
        self._tabs.can_focus = False
        self._filter_name, self._filter_problem = Line(id="filter-name"), Line(id="filter-problem")
        self._filter = Input(id="filter", compact=True, select_on_focus=False)
        self._place = Line(id="place")

    def compose(self) -> ComposeResult:
        """The header lines, the runs beside the tab's contents, the filter, the keys."""
        yield self._header
        yield Horizontal(self._tabs, self._modes, id="tab-line")
        yield self._trouble
        yield self._tip
        yield Horizontal(self._runs, self._switcher, id="body")
        filter_line = (self._filter_name, self._filter, self._filter_problem)
        yield Horizontal(*filter_line, id="filter-line")
        footer = Footer(compact=True, show_command_palette=False)
        yield Horizontal(footer, self._place, id="bottom")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """While a filter is typed, keys are its letters; Esc still ends it."""
        return self.focused is not self._filter or action == "undo"

    def on_mount(self) -> None:
        """Start to read what is written from now on."""
        self.set_interval(REFRESH_EVERY_S, self._read_news)
        self.set_interval(_CLOCK_EVERY_S, self._draw_clock)

    def on_resize(self, event: Resize) -> None:
        """Show the list of runs where there is room for it."""
        self._draw()

    @property
    def _tab(self) -> str:
        return self._switcher.current or TABS[0]

    def _read_news(self) -> None:
        if self.view.is_paused:
            return
        started = time.monotonic()
        if self._state.refresh() or self._state.is_behind:
            self._draw()
            self.call_after_refresh(lambda: self._state.drew(time.monotonic() - started))

    def _draw_clock(self) -> None:
        """Draw what changes without records: the elapsed time, the time left, the state."""
        if not self.view.is_paused and self._state.is_going:
            self._draw_header()

    def watch_view(self) -> None:
        """Draw the charts as they are wanted from now on."""
        self._draw()

    def _draw(self) -> None:
        """Draw everything that is on the screen."""
        self._draw_header()
        state, has_room = self._state, self.size.width >= _RUNS_FROM
        self._runs.display = has_room if self._shows_runs is None else self._shows_runs
        self._runs.set_class(has_room, "-beside")
        self._runs.redraw()
        self._switcher.display = has_room or not self._runs.display
        self._contents[self._tab].redraw()
        place = f"run {state.place + 1} of {len(state.runs):,}" if len(state.runs) > 1 else ""
        self._place.show(Text.assemble((place, "dim")))

    def _draw_header(self) -> None:
        view = self.view
        self._header.redraw()
        self._trouble.show(panels.trouble(self._state))
        tip = panels.advice(self._state, is_paused=view.is_paused)
        self._tip.show(tip if self.size.height >= _TIP_FROM else Text())
        modes = [(f" {mode}", "shout" if mode == "held" else "accent") for mode in view.modes]
        self._modes.show(Text.assemble(*modes))

    def _draw_runs(self, columns: int, rows: int) -> Sequence[Text]:
        return run_list(
            self._state, columns=columns, rows=rows, glyphs=self._glyphs, filtered=self._run_filter
        )

    def _draw_log(self, columns: int) -> Sequence[Text]:
        return self._log_lines.draw(self._state.run_log(), columns)

    def _draw_large_chart(self, columns: int, rows: int) -> Sequence[Text]:
        if self._state.run is None:
            return [Text(), Text.assemble((_NO_RUN, "dim"))]
        return large_chart(self._state, self.view, columns=columns, rows=rows, glyphs=self._glyphs)

    def _draw_charts(self, columns: int, rows: int) -> Sequence[Text]:
        draw = large_chart if self._charts.is_enlarged else chart_grid
        return draw(self._state, self.view, columns=columns, rows=rows, glyphs=self._glyphs)

    def action_quit(self) -> None:
        """Quit; the runs continue."""
        self.app.exit()

    def action_help(self) -> None:
        """Show the keys."""
        self.app.push_screen(Help(lambda c, r: help_lines(c, r, glyphs=self._glyphs)))

    def action_tab(self, name: str) -> None:
        """Open a tab."""
        self._charts.is_enlarged = False
        self._tabs.active = self._switcher.current = name
        self._focus_contents()
        self._draw()

    def action_turn(self, by: int) -> None:
        """Open the next or the previous tab."""
        self.action_tab(TABS[(TABS.index(self._tab) + by) % len(TABS)])

    def _focus_contents(self) -> None:
        """Give the keys to the contents of the tab, where they have keys of their own."""
        contents = self._contents[self._tab]
        self.set_focus(contents if contents.can_focus else None)

    def action_runs(self) -> None:
        """Show the list of runs, hide it, or show it where there is room."""
        self._shows_runs = {None: True, True: False, False: None}[self._shows_runs]
        self._draw()

    def action_choose_run(self, by: int) -> None:
        """Choose another run of the list."""
        self._state.choose(self._state.place + by)
        self._draw()

    def action_compare(self) -> None:
        """Draw the chosen run behind others, or no longer."""
        self._state.compare()
        self._draw()

    def action_compare_none(self) -> None:
        """Draw no run behind others."""
        self._state.compared = []
        self._draw()

    def action_change(self, what: str) -> None:
        """Change how charts are drawn."""
        self.view = CHANGES[what](self.view)

    def action_pan(self, direction: int) -> None:
        """Move the zoomed range to the left or the right."""
        extent = self._state.extent(self.view)
        self.view = replace(self.view, zoom=self.view.zoom.moved(direction, extent))

    def action_choose_series(self, by: int) -> None:
        """Choose another series for the large chart."""
        metrics = self._state.metrics(self.view.metric_filter if self._tab == "charts" else "")
        chosen = self._state.metric(self.view.metric)
        if metrics and chosen is not None:
            at = metrics.index(chosen) if chosen in metrics else -by
            name = metrics[max(0, min(at + by, len(metrics) - 1))].name
            self.view = replace(self.view, metric=name)

    def action_pause(self) -> None:
        """Hold the picture, or catch up."""
        if self.view.is_paused:
            self._state.refresh()
        self.view = replace(self.view, is_paused=not self.view.is_paused)

    def action_redraw(self) -> None:
        """Draw everything anew, whatever another program has put on the screen."""
        self.app.refresh(layout=True)

    def action_undo(self) -> None:
        """Undo one thing, the nearest first."""
        if self.focused is self._filter:
            self._apply_filter(self._filter_before)
            self._close_filter()
        elif self._charts.is_enlarged:
            self._charts.action_enlarge()
        elif self._tab == "charts" and self.view.metric_filter:
            self.view = replace(self.view, metric_filter="")
        elif self._run_filter:
            self._filter_runs("")
        elif self._shows_runs:
            self._shows_runs = None
            self._draw()
        else:
            self.action_change("whole")

    @property
    def _filters_series(self) -> bool:
        return self._tab == "charts" and not self._charts.is_enlarged

    def action_filter(self) -> None:
        """Open the line for the filter; it is applied letter by letter."""
        what = "series" if self._filters_series else "runs"
        self._filter_before = self.view.metric_filter if self._filters_series else self._run_filter
        self._filter_name.show(Text.assemble((f"filter {what}: ", "key")))
        with self._filter.prevent(Input.Changed):
            self._filter.value = self._filter_before
        self.add_class("-filtering")
        self.set_focus(self._filter)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply what is typed so far."""
        self._apply_filter(event.value)

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self._close_filter()

    def _apply_filter(self, text: str) -> None:
        if self._filters_series:
            self._state.check_pattern(text)
            self.view = replace(self.view, metric_filter=text, metric=None)
        else:
            self._filter_runs(text)
        self._filter_problem.show(Text.assemble((printable(self._state.problem), "bad")))

    def _filter_runs(self, text: str) -> None:
        self._run_filter = text
        self._state.filter(text)
        self._draw()

    def _close_filter(self) -> None:
        self.remove_class("-filtering")
        self._focus_contents()

    def action_ask(self, action: ProcessAction) -> None:
        """Ask before a run is stopped, suspended or continued."""
        run = self._state.run
        if run is None or not self._state.is_going:
            return
        again = "X" if action == "stop" else "Z"
        action = "continue" if action == "suspend" and self._state.is_suspended else action
        question = Text.assemble(
            (
                f"{action.capitalize()} {printable(run.info.project)}/{printable(run.info.name)}?",
                "shout",
            ),
            ("  y", "key"),
            " yes  ",
            ("any other key", "key"),
            " no",
        )

        def answered(is_yes: bool | None) -> None:
            if is_yes:
                self.notify(self._state.signal(action), markup=False)

        self.app.push_screen(Question(question, again=again), answered)
