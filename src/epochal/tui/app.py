"""``epochal watch`` as a Textual app; Textual owns the terminal, the layout and the keys."""

from __future__ import annotations

import asyncio
import os
import select
import signal
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.screen import Screen
from textual.theme import Theme

from epochal.errors import EpochalError
from epochal.tui.app_state import AppState
from epochal.tui.glyphs import Glyphs
from epochal.tui.screen import WatchScreen
from epochal.tui.styles import THEME

# Until the next check, Textual reads the end of the file again and again, at half a core.
_CHECK_TERMINAL_EVERY_S = 0.5
# Textual reads keys from stdin and draws on stderr.
_KEYS, _PICTURE = 0, 2
_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


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
    """Textual's driver, for a process that is told to continue while it runs.

    Textual then reads keys in a second thread and ends only that one: the process would never end,
    and take the shell's keys.
    """

    def resume_application_mode(self) -> None:
        """Take the terminal again, unless keys are read from it already."""
        if self._key_thread is None or not self._key_thread.is_alive():
            super().resume_application_mode()


class WatchApp(App[None]):
    """Shows the runs of a store until ``q``, Ctrl-C or a signal."""

    CSS_PATH = "watch.tcss"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "suspend_process", show=False),
        Binding("ctrl+c", "interrupt", show=False, priority=True),
    ]

    def __init__(self, state: AppState, *, glyphs: Glyphs) -> None:
        super().__init__(ansi_color=True)
        self.register_theme(_TERMINAL_THEME)
        self.theme = _TERMINAL_THEME.name
        self.console.push_theme(THEME)
        self._state, self._glyphs = state, glyphs
        self.problem: EpochalError | None = None  # why it ended, in a sentence

    def _handle_exception(self, error: Exception) -> None:
        """End with a sentence, not a traceback, where runs of another machine are lost."""
        if isinstance(error, EpochalError):
            self.problem = error
            self.exit(return_code=1)
        else:
            super()._handle_exception(error)

    def get_driver_class(self) -> type[Driver]:
        """Textual's driver, with the terminal's as above."""
        chosen = super().get_driver_class()
        return _Terminal if chosen is LinuxDriver else chosen

    def get_default_screen(self) -> Screen[None]:
        """The main screen."""
        return WatchScreen(self._state, glyphs=self._glyphs)

    def on_mount(self) -> None:
        """Give the terminal back on signals that end the process."""
        for number in _ENDING:
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        self.set_interval(_CHECK_TERMINAL_EVERY_S, self._check_terminal)

    def action_interrupt(self) -> None:
        """End as Ctrl-C ends a program."""
        self._end(signal.SIGINT)

    def _check_terminal(self) -> None:
        """End when the terminal has gone and no signal said so."""
        if not self.is_headless and not all(map(_is_connected, (_KEYS, _PICTURE))):
            self._end(signal.SIGHUP)

    def _end(self, number: int) -> None:
        self.exit(return_code=128 + number)


def _is_connected(descriptor: int) -> bool:
    """Whether a descriptor is a terminal with another end."""
    poll = select.poll()
    poll.register(descriptor, 0)  # a hang-up is reported whatever is asked for
    is_gone = any(events & (select.POLLHUP | select.POLLERR) for _, events in poll.poll(0))
    return not is_gone and os.isatty(descriptor)
