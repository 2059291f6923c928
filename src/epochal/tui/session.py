"""The loop: keys in, pictures out, at most four times a second unless a key was pressed."""

from __future__ import annotations

import time

from epochal.tui.app_state import AppState
from epochal.tui.control import is_quit, press
from epochal.tui.glyphs import Glyphs
from epochal.tui.keys import KeyReader
from epochal.tui.screen import compose
from epochal.tui.terminal import Terminal
from epochal.tui.view import View

_DRAW_EVERY_S = 0.25
# While a run goes, its elapsed time and its silence are news of their own.
_TICK_S = 1.0
_TICK_SHARE = 0.01
_IDLE_S = 5.0
_ESCAPE_WAIT_S = 0.03


class Session:
    """One person watching at one terminal."""

    def __init__(self, state: AppState, terminal: Terminal, *, glyphs: Glyphs, view: View) -> None:
        self._state = state
        self._terminal = terminal
        self._glyphs = glyphs
        self._view = view
        self._keys = KeyReader()
        self._drawn_s = self._draw_took_s = 0.0
        self._is_stale = True

    def run(self) -> None:
        """Show and follow until a key says to leave or the terminal has gone."""
        self._draw()
        while True:
            data = self._terminal.read(self._wait_s())
            if data is None:
                return
            keys = self._keys.feed(data) if data else self._keys.flush()
            if not all(self._take(key) for key in keys):
                return
            if not self._view.is_paused and self._state.look():
                self._is_stale = True
            if keys or self._terminal.has_resized or self._is_due():
                self._draw()

    def _take(self, key: str) -> bool:
        """Do what a key says; False when it says to leave."""
        if is_quit(key, self._view):
            return False
        if key == "redraw":
            self._terminal.forget()
        was_paused = self._view.is_paused
        self._view = press(key, self._view, self._state)
        if was_paused and not self._view.is_paused:
            self._state.look()
        return True

    def _draw(self) -> None:
        started = time.monotonic()
        anew, self._terminal.has_resized = self._terminal.has_resized, False
        columns, rows = self._terminal.size()
        lines = compose(self._state, self._view, columns=columns, rows=rows, glyphs=self._glyphs)
        self._terminal.show(lines, anew=anew)
        self._drawn_s = time.monotonic()
        # Rows of the list that were not read in time are read with the next picture.
        self._is_stale = self._state.is_behind
        self._draw_took_s = self._drawn_s - started
        self._state.drew(self._draw_took_s)

    def _is_due(self) -> bool:
        since = time.monotonic() - self._drawn_s
        return since >= (_DRAW_EVERY_S if self._is_stale else self._tick_s())

    def _tick_s(self) -> float:
        run = self._state.run
        is_going = run is not None and run.status.state in ("running", "waiting")
        if not is_going or self._view.is_paused:
            return _IDLE_S
        return max(_TICK_S, self._draw_took_s / _TICK_SHARE)

    def _wait_s(self) -> float:
        if self._keys.is_pending:
            return _ESCAPE_WAIT_S
        now = time.monotonic()
        draw_s = self._drawn_s + (_DRAW_EVERY_S if self._is_stale else self._tick_s()) - now
        look_s = _IDLE_S if self._view.is_paused else self._state.look_after_s - now
        return max(min(draw_s, look_s), 0.0)
