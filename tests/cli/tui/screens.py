"""The app without a terminal: keys in, the text on the screen out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from textual.pilot import Pilot

from epochal.cli.tui.app import WatchApp
from epochal.cli.tui.state import REFRESH_EVERY_S, AppState


class Screen:
    """A running app and its screen."""

    def __init__(self, app: WatchApp, pilot: Pilot[None], loop: asyncio.AbstractEventLoop) -> None:
        self.app = app
        self._pilot = pilot
        self._loop = loop

    @property
    def text(self) -> str:
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        assert [strip.cell_length for strip in strips] == [width] * height
        return "\n".join(strip.text.rstrip() for strip in strips)

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def press(self, *keys: str) -> Screen:
        self._loop.run_until_complete(self._pilot.press(*keys))
        # The footer is composed anew after the focus has moved: one more round of messages.
        self._loop.run_until_complete(self._pilot.pause())
        return self

    def resize(self, columns: int, rows: int) -> Screen:
        self._loop.run_until_complete(self._pilot.resize_terminal(columns, rows))
        return self.press()

    def wait_for_news(self) -> Screen:
        # On a busy machine a refresh takes long, and the next one waits many times as long.
        self.app._state._run_timer.after_s = 0.0
        self._loop.run_until_complete(self._pilot.pause(2 * REFRESH_EVERY_S))
        return self.press()


@contextmanager
def watching(state: AppState, *, size: str = "100x30") -> Iterator[Screen]:
    """An app of this size, until the end of the block."""
    columns, rows = map(int, size.split("x"))
    app = WatchApp(state)
    loop = asyncio.new_event_loop()
    started, ended = loop.create_future(), loop.create_future()

    async def run() -> None:
        async with app.run_test(size=(columns, rows)) as pilot:
            started.set_result(pilot)
            await ended

    running = loop.create_task(run())
    try:
        yield Screen(app, loop.run_until_complete(started), loop).press()
    finally:
        ended.set_result(None)
        loop.run_until_complete(running)
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


def shown(state: AppState, *keys: str, size: str = "100x30") -> str:
    """The text on the screen after some keys."""
    with watching(state, size=size) as screen:
        return screen.press(*keys).text
