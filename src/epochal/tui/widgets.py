"""Textual widgets of the app: panels of lines, scrolled lines, the log, questions and the keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.events import Key, Resize
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from epochal.tui.glyphs import Glyphs
from epochal.tui.lines import fit, heading
from epochal.tui.run_log import RunLog
from epochal.tui.run_text import wrapped_entry

HELP: tuple[tuple[str, str, str], ...] = (
    ("Go", "1-6  Tab", "overview charts system log text config"),
    ("Go", "up down", "the run before, the run after"),
    ("Go", "r", "the list of runs, on and off"),
    ("Go", "/", "filter runs; in charts: series"),
    ("Go", "Esc", "back: from a large chart, a filter, a zoom"),
    ("Go", "q", "quit; the run continues"),
    ("Charts", "+ -  0", "closer, wider, the whole run"),
    ("Charts", "left right", "earlier, later; the end is followed"),
    ("Charts", "s", "smoothing: none, 0.6, 0.9, 0.97"),
    ("Charts", "l  o", "logarithmic y axis; leave outliers out"),
    ("Charts", "x", "along steps, epochs, tokens, clock, time"),
    ("Charts", "[ ]", "another series in the large chart"),
    ("Charts", "Enter", "in charts: the chosen one alone"),
    ("Charts", "c  C", "compare with this run; with none"),
    ("View", "j k  PgUp PgDn", "scroll; g and G go to the ends"),
    ("View", "p  Space", "hold the picture; nothing is lost"),
    ("View", "Ctrl-L", "draw everything anew"),
    ("Run", "X", "stop the training, saved if it saves; asks first"),
    ("Run", "Z", "suspend or continue it; asks first"),
)
_FILTERS = (
    "A filter is a regular expression on project/name, or a query:",
    'config.lr < 3e-4 and status == "running"',
)


def help_lines(columns: int, rows: int, *, glyphs: Glyphs) -> list[Text]:
    """The keys in groups; titles and examples where there is room for them."""
    lines: list[Text] = []
    width = max(len(keys) for _, keys, _ in HELP)
    has_titles = rows >= len(HELP) + 6
    group = ""
    for name, keys, meaning in HELP:
        if has_titles and name != group:
            lines += [Text()] if group else []
            lines.append(heading(name, columns, glyphs=glyphs))
            group = name
        lines.append(fit(Text.assemble((f"{keys:<{width}}  ", "key"), meaning), columns))
    if len(lines) + len(_FILTERS) < rows:
        lines += [Text(), *(Text.assemble((text, "dim")) for text in _FILTERS)]
    return lines


# Columns and rows to lines.
Draw = Callable[[int, int], Sequence[Text]]

_SCROLL = Binding.Group("scroll", compact=True)
_ENDS = Binding.Group("ends", compact=True)
_PAGE, _FAR = 10, 10**9


def key(
    keys: str,
    action: str,
    description: str = "",
    *,
    show: bool = True,
    key_display: str | None = None,
    group: Binding.Group | None = None,
) -> Binding:
    """A key of the app; what is typed faster than it is drawn keeps its order.

    Keys with priority are acted on as they are read. Others wait in the queue of the widget that
    had the focus then, so that letters after ``/`` would be commands.
    """
    return Binding(keys, action, description, show, key_display, priority=True, group=group)


class Line(Static):
    """One line of text; an empty one takes no room."""

    _shown: Text | None = None

    def show(self, text: Text) -> None:
        """Replace the text."""
        if text != self._shown:
            self._shown = text
            self.update(text)
            self.display = bool(text)


class Panel(Widget):
    """Lines drawn for its size; ``redraw`` draws them anew."""

    def __init__(self, draw: Draw, *, id: str) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._draw = draw
        self._drawn: tuple[Size, Sequence[Text]] | None = None

    def redraw(self) -> None:
        """Draw with the data of now, when the panel is on the screen."""
        self._drawn = None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One line of the panel."""
        if self._drawn is None or self._drawn[0] != self.size:
            self._drawn = (self.size, self._draw(self.size.width, self.size.height))
        return _strip(self, self._drawn[1], y)


class ScrolledLines(ScrollView, can_focus=True, inherit_bindings=False):
    """Lines that may be more than there are rows; with ``follows_end`` new lines come into view."""

    BINDINGS: ClassVar[list[BindingType]] = [
        key("j", "scroll(1)", "scroll", group=_SCROLL),
        key("k", "scroll(-1)", "scroll", group=_SCROLL),
        key("g", f"scroll(-{_FAR})", "ends", group=_ENDS),
        key("G", f"scroll({_FAR})", "ends", group=_ENDS, key_display="G"),
        key("pagedown", f"scroll({_PAGE})", show=False),
        key("pageup", f"scroll(-{_PAGE})", show=False),
    ]

    def __init__(
        self,
        draw: Callable[[int], Sequence[Text]],
        *,
        id: str,  # noqa: A002 (Textual's name)
        follows_end: bool = False,
    ) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._lines: Sequence[Text] = ()
        self._follows_end = follows_end

    def on_mount(self) -> None:
        """Start at the end, where it is followed."""
        self.anchor(self._follows_end)

    def redraw(self) -> None:
        """Draw with the data of now; the place in the text stays."""
        self._lines = self._draw(self.size.width)
        self.virtual_size = Size(self.size.width, len(self._lines))
        self.refresh()

    def on_resize(self, event: Resize) -> None:
        """Wrap the lines for the new width."""
        self.redraw()

    def action_scroll(self, by: int) -> None:
        """Move by some lines; at the end of the lines a log is followed again."""
        self.release_anchor()
        self.scroll_relative(y=by, animate=False)

    def render_line(self, y: int) -> Strip:
        """The line that the scroll position puts there."""
        return _strip(self, self._lines, y + round(self.scroll_offset.y))


class LogLines:
    """The wrapped log of a run; only new entries are wrapped again."""

    def __init__(self) -> None:
        self._wrapped_for: tuple[RunLog, int, int] | None = None
        self._num_lines = 0
        self._lines: list[Text] = []

    def draw(self, run_log: RunLog | None, columns: int) -> Sequence[Text]:
        """The whole log in lines of at most ``columns``."""
        if run_log is None:
            return ()
        wrapped_for = (run_log, run_log.generation, columns)
        if wrapped_for != self._wrapped_for:
            self._wrapped_for, self._num_lines, self._lines = wrapped_for, 0, []
        num_new = min(run_log.num_lines - self._num_lines, len(run_log.log))
        for entry in list(run_log.log)[len(run_log.log) - num_new :]:
            self._lines += wrapped_entry(entry, columns)
        self._num_lines = run_log.num_lines
        return self._lines


class Question(ModalScreen[bool]):
    """One line at the bottom: ``y`` or the key that opened it says yes, any other key no."""

    def __init__(self, question: Text, *, again: str) -> None:
        super().__init__()
        self._question = question
        self._yes = ("y", "Y", again)

    def compose(self) -> ComposeResult:
        """The question."""
        yield Panel(lambda columns, rows: [self._question], id="question")

    def on_key(self, event: Key) -> None:
        """Any key is an answer."""
        event.stop()
        self.dismiss(event.character in self._yes)


class Help(ModalScreen[None]):
    """The keys, over the whole screen; any key closes it."""

    def __init__(self, draw: Draw) -> None:
        super().__init__()
        self._draw = draw

    def compose(self) -> ComposeResult:
        """The lines of the help."""
        yield Panel(self._draw, id="help")

    def on_key(self, event: Key) -> None:
        """Any key closes the help."""
        event.stop()
        self.dismiss()


def _strip(widget: Widget, lines: Sequence[Text], y: int) -> Strip:
    if not 0 <= y < len(lines):
        return Strip.blank(widget.size.width)
    strip = Strip(lines[y].render(widget.app.console))
    return strip.adjust_cell_length(widget.size.width)
