"""``epochal watch`` as a Textual app: a list of runs, and chart, vital signs, findings of one."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical
from textual.coordinate import Coordinate
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.events import Resize
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import DataTable, Footer, HelpPanel, Input, Static

from epochal.cli.tui.chart import COMPARED, SMOOTHINGS, View, curves_of, draw_chart, title
from epochal.cli.tui.state import REFRESH_EVERY_S, AppState, RunRow
from epochal.cli.tui.text import THEME, clip, printable, run_line, state_dot
from epochal.cli.tui.vitals import Vital, finding_lines, findings_of, vital_lines, vitals_of
from epochal.errors import EpochalError
from epochal.health.finding import Finding
from epochal.records.format import format_number
from epochal.series.series import X_KINDS
from epochal.store.progress import progress_of

_CLOCK_EVERY_S = 1.0
# Until the next check, Textual reads the end of the file again and again, at half a core.
_CHECK_TERMINAL_EVERY_S = 0.5
# Textual reads keys from stdin and draws on stderr.
_KEYS, _SCREEN = 0, 2
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# Runs beyond these are found with the filter.
_MOST_LISTED = 500
_LIST_FROM, _BESIDE_FROM = 110, 84
_NAME_COLUMNS, _LOSS_COLUMNS = 20, 8
_FAR = 10**9
_NO_RUN = "No runs here yet: they appear by themselves as soon as one is started."
_ALARMS = {"error": ("!", "bad"), "warning": ("!", "warn"), None: (" ", "")}
# Textual's own widgets in the colours of the terminal, whichever scheme it has.
_TERMINAL_THEME = Theme(
    name="terminal",
    primary="ansi_blue",
    secondary="ansi_cyan",
    warning="ansi_yellow",
    error="ansi_red",
    success="ansi_green",
    accent="ansi_cyan",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
)


class _Terminal(LinuxDriver):
    """Textual's driver, which takes the terminal again only after it gave it away.

    A process may be told to continue while it runs, and is told so when its terminal closes while
    it ends. Textual would then read keys in a thread that nobody ends.
    """

    _is_suspended = False

    def suspend_application_mode(self) -> None:
        """Give the terminal to the shell."""
        self._is_suspended = True
        super().suspend_application_mode()

    def resume_application_mode(self) -> None:
        """Take the terminal again, unless keys are read from it already."""
        if self._is_suspended and (self._key_thread is None or not self._key_thread.is_alive()):
            super().resume_application_mode()
            self._is_suspended = self._key_thread is None or not self._key_thread.is_alive()


class Panel(Widget):
    """Lines that are drawn for the size of the panel."""

    def __init__(self, draw: Callable[[int, int], list[Text]], *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self._draw = draw

    def render(self) -> Text:
        """The lines as they are now."""
        return Text("\n", no_wrap=True, overflow="crop").join(self._draw(*self.size))


def _key(keys: str, action: str, words: str = "", *, show: bool = True, name: str = "") -> Binding:
    """A key; with priority, keys typed faster than the screen is drawn keep their order."""
    return Binding(keys, action, words, show, name or None, priority=True)


class WatchApp(App[None]):
    """Shows the runs of a store until ``q``, Ctrl-C or a signal."""

    CSS_PATH = "watch.tcss"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        _key("question_mark", "help", "keys", name="?"),
        _key("q", "quit", "quit"),
        _key("up", "choose_run(-1)", "run", name="↑↓"),
        _key("down", "choose_run(1)", "next run", show=False),
        _key("slash", "filter", "filter", name="/"),
        _key("r", "list", "list"),
        _key("c", "compare", "compare"),
        _key("left_square_bracket", "choose_metric(-1)", "metric", name="[]"),
        _key("right_square_bracket", "choose_metric(1)", "next metric", show=False),
        _key("s", "smooth", "smooth"),
        _key("l", "log", "log"),
        _key("x", "axis", "axis"),
        _key("home", f"choose_run(-{_FAR})", "first run", show=False),
        _key("end", f"choose_run({_FAR})", "last run", show=False),
        _key("escape", "undo", "no filter", show=False),
        _key("ctrl+l", "redraw", "draw everything again", show=False),
        _key("ctrl+z", "suspend_process", "suspend", show=False),
        _key("ctrl+c", "interrupt", "quit", show=False),
    ]

    def __init__(self, state: AppState) -> None:
        super().__init__(ansi_color=True)
        self.register_theme(_TERMINAL_THEME)
        self.theme = _TERMINAL_THEME.name
        self.console.push_theme(THEME)
        self.problem: EpochalError | None = None  # why it ended, in a sentence
        self.view = View()
        self._state = state
        self._shows_list: bool | None = None  # None: where there is room
        self._listed: list[int] = []
        self._vitals: list[Vital] = []
        self._findings: list[Finding] = []
        self._filter_before = ""
        self._header = Panel(self._draw_header, id="header")
        self._trouble = Static(id="trouble")
        self._runs: DataTable[Text] = DataTable(id="runs", cursor_type="row", show_header=False)
        self._runs.can_focus = False
        self._chart = Panel(self._draw_chart, id="chart")
        self._vital_panel = Panel(
            lambda columns, rows: vital_lines(self._vitals, columns=columns)[:rows], id="vitals"
        )
        self._finding_panel = Panel(
            lambda columns, rows: finding_lines(self._findings, columns=columns, rows=rows),
            id="findings",
        )
        self._below = Container(self._vital_panel, self._finding_panel, id="below")
        self._run = Vertical(self._chart, self._below, id="run")
        self._filter = Input(id="filter", compact=True, select_on_focus=False)
        self._filter_problem = Static(id="filter-problem")
        self._count = Static(id="count")

    def compose(self) -> ComposeResult:
        """The first line, the list beside the run, the filter, the keys."""
        yield self._header
        yield self._trouble
        yield Horizontal(self._runs, self._run, id="body")
        name = Static("filter runs: ", id="filter-name")
        yield Horizontal(name, self._filter, self._filter_problem, id="filter-line")
        footer = Footer(compact=True, show_command_palette=False)
        yield Horizontal(self._count, footer, id="bottom")

    def on_mount(self) -> None:
        """Start to read what is written from now on; end on signals that end the process."""
        for number in _ENDING:
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        # Textual draws only what has changed, on a screen that the terminal has emptied meanwhile.
        self.app_resume_signal.subscribe(self, lambda _app: self.action_redraw())
        self._runs.add_column("", width=3)
        self._runs.add_column("", width=_NAME_COLUMNS)
        self._runs.add_column("", width=_LOSS_COLUMNS)
        self.set_interval(_CHECK_TERMINAL_EVERY_S, self._check_terminal)
        self.set_interval(REFRESH_EVERY_S, self._read_news)
        self.set_interval(_CLOCK_EVERY_S, self._header.refresh)

    def on_resize(self, event: Resize) -> None:
        """Arrange the panels for the new size."""
        self.call_after_refresh(self._draw)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:
        """While a filter is typed, keys are its letters; Esc and Ctrl-C still end it."""
        return self.focused is not self._filter or action in ("undo", "interrupt")

    # Drawing

    def _read_news(self) -> None:
        if self._state.refresh() or self._state.is_behind:
            self._draw()

    def _draw(self) -> None:
        state, has_room = self._state, self.size.width >= _LIST_FROM
        is_shown = has_room and len(state.runs) > 1
        self._runs.display = is_shown if self._shows_list is None else self._shows_list
        self._runs.set_class(has_room, "-beside")
        self._run.display = has_room or not self._runs.display
        if self._runs.display:
            self._draw_list()
        self._trouble.update(Text.assemble((printable(state.trouble), "bad")))
        self._trouble.display = bool(state.trouble)
        self._count.update(Text(f"run {state.index + 1} of {len(state.runs):,} ", "dim"))
        self._count.display = len(state.runs) > 1
        self._vitals = [] if state.run is None else vitals_of(state.run)
        self._findings = [] if state.run is None else findings_of(state.run)
        self._arrange()
        for panel in (self._header, self._chart, self._vital_panel, self._finding_panel):
            panel.refresh()

    def _arrange(self) -> None:
        """Give vital signs and findings the rows they need, at most half of the screen."""
        columns = self.size.width - (self._runs.outer_size.width if self._runs.display else 0)
        is_beside = columns >= _BESIDE_FROM
        room = max((self.size.height - 3) // 2, 1)
        vitals = min(len(self._vitals), room)
        width = columns // 2 - 1 if is_beside else columns
        left = room if is_beside else max(room - vitals, 1)
        findings = len(finding_lines(self._findings, columns=width, rows=left))
        self._vital_panel.styles.height, self._finding_panel.styles.height = vitals, findings
        self._below.set_class(is_beside, "-beside")
        self._below.styles.height = max(vitals, findings) if is_beside else vitals + findings

    def _draw_header(self, columns: int, rows: int) -> list[Text]:
        run = self._state.run
        if run is None:
            return [Text("epochal watch", "strong")]
        return [run_line(run.info, progress_of(run, run.info, now=time.time()), columns=columns)]

    def _draw_list(self) -> None:
        """Fill the table with the runs around the chosen one."""
        state = self._state
        first = max(0, min(state.index - _MOST_LISTED // 2, len(state.runs) - _MOST_LISTED))
        runs = state.runs[first : first + _MOST_LISTED]
        colours = {id(run): colour for run, colour in zip(state.compared, COMPARED, strict=False)}
        rows = state.rows(runs)
        has_projects = len({row.project for row in rows if row is not None}) > 1
        cells = [
            _cells(row, colours.get(id(run)), has_project=has_projects)
            for run, row in zip(runs, rows, strict=True)
        ]
        listed = list(map(id, runs))
        if listed != self._listed:
            self._listed = listed
            self._runs.clear()
            self._runs.add_rows(cells)
        for index, row in enumerate(cells):
            if self._runs.get_row_at(index) != row:
                for column, cell in enumerate(row):
                    self._runs.update_cell_at(Coordinate(index, column), cell)
        if state.index >= 0:
            self._runs.move_cursor(row=state.index - first, animate=False)
        self._runs.show_cursor = state.index >= 0

    def _draw_chart(self, columns: int, rows: int) -> list[Text]:
        run, metric = self._state.run, self._state.metric(self.view.metric)
        if run is None:
            return [Text(_NO_RUN, "dim")]
        if metric is None:
            return [Text("No metrics yet.", "dim")]
        curves, axis = curves_of(run, metric, self.view, self._state.compared)
        steps = [one.steps[0] for one in self._findings if one.steps is not None]
        chart = draw_chart(
            curves,
            axis,
            columns=columns,
            rows=rows - 1,
            is_log=self.view.is_log,
            flagged=steps if axis == "step" else (),
        )
        return [title(curves, axis, self.view, columns), *chart]

    # Keys

    def action_help(self) -> None:
        """Show the keys, or hide them."""
        if self.screen.query(HelpPanel):
            self.action_hide_help_panel()
        else:
            self.action_show_help_panel()

    def action_list(self) -> None:
        """Show the list of runs, or hide it."""
        self._shows_list = not self._runs.display
        self._draw()

    def action_choose_run(self, by: int) -> None:
        """Choose another run of the list."""
        self._state.choose(self._state.index + by)
        self._draw()

    def action_compare(self) -> None:
        """Draw the chosen run in the charts of others too, or no longer."""
        self._state.compare()
        self._draw()

    def _change(self, view: View) -> None:
        self.view = view
        self._chart.refresh()

    def action_smooth(self) -> None:
        """Smooth more, or not at all."""
        index = SMOOTHINGS.index(self.view.smoothing) + 1
        self._change(replace(self.view, smoothing=SMOOTHINGS[index % len(SMOOTHINGS)]))

    def action_log(self) -> None:
        """Make the y axis logarithmic, or linear again."""
        self._change(replace(self.view, is_log=not self.view.is_log))

    def action_axis(self) -> None:
        """Draw along steps, epochs, tokens, the clock, or the time since the start."""
        index = X_KINDS.index(self.view.x) + 1
        self._change(replace(self.view, x=X_KINDS[index % len(X_KINDS)]))

    def action_choose_metric(self, by: int) -> None:
        """Choose another metric for the chart."""
        names = [metric.name for metric in self._state.metrics()]
        chosen = self._state.metric(self.view.metric)
        if chosen is not None:
            index = (names.index(chosen.name) + by) % len(names)
            self._change(replace(self.view, metric=names[index]))

    def action_filter(self) -> None:
        """Open the line for the filter; it is applied letter by letter."""
        self._filter_before = self._filter.value
        self.screen.add_class("-filtering")
        self._filter.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Apply what is typed so far."""
        self._state.filter(event.value)
        self._filter_problem.update(Text.assemble((printable(self._state.problem), "bad")))
        self._draw()

    def on_input_submitted(self) -> None:
        """Keep the filter."""
        self.screen.remove_class("-filtering")
        self.screen.set_focus(None)

    def action_undo(self) -> None:
        """Undo the filter that is typed; else show all runs."""
        is_typing = self.focused is self._filter
        self._filter.value = self._filter_before if is_typing else ""
        self.on_input_submitted()

    def action_redraw(self) -> None:
        """Draw everything again, whatever another program has put on the screen."""
        self.refresh(layout=True)

    # The terminal

    async def action_quit(self) -> None:
        """Quit; the runs continue."""
        self.exit()

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends a program."""
        self._end(signal.SIGINT)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, with the one for terminals as above."""
        chosen = super().get_driver_class()
        return _Terminal if chosen is LinuxDriver else chosen

    def _handle_exception(self, error: Exception) -> None:
        """End with a sentence, not a traceback, where runs of another machine are lost."""
        if isinstance(error, EpochalError):
            self.problem = error
            self.exit(return_code=1)
        else:
            super()._handle_exception(error)

    def _check_terminal(self) -> None:
        """End when the terminal has gone and no signal said so."""
        if not self.is_headless and not all(map(_is_connected, (_KEYS, _SCREEN))):
            self._end(signal.SIGHUP)

    def _end(self, number: int) -> None:
        self.exit(return_code=128 + number)


def _cells(row: RunRow | None, colour: int | None, *, has_project: bool) -> list[Text]:
    if row is None:
        return [Text(), Text("…", "dim"), Text()]
    mark = ("┃", f"color({colour})") if colour is not None else (" ", "")
    loss = "" if row.loss is None else format_number(row.loss)
    name = f"{row.project}/{row.name}" if has_project else row.name
    return [
        Text.assemble(mark, state_dot(row.state), _ALARMS[row.alarm]),
        Text(clip(name, _NAME_COLUMNS)),
        Text(loss, "dim", justify="right"),
    ]


def _is_connected(descriptor: int) -> bool:
    """Whether a descriptor is a terminal with another end."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is reported whatever is asked for
    is_gone = any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
    return not is_gone and os.isatty(descriptor)
