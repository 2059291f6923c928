"""What a machine does at this moment, on a page that is open while a companion reads it."""

from __future__ import annotations

import itertools
import time
from datetime import datetime
from pathlib import Path

import pytest

from epochal.companion.telemetry_journal import LiveFile
from epochal.journal.process import process_identity
from tests.e2e.browsing import NEXT_FRAME, OpenPage, Serve, until
from tests.store.journals import Journal

GIB = 2**30
GPU = {"gpu_util": 40.0, "dram_used": 8 * GIB, "power": 300_000.0}
LIMITS = {"dram_total": 16 * GIB, "power_limit": 600_000.0}


class Training:
    """A run that lives, with two records of its machine, and the file its companion writes."""

    def __init__(self, root: Path) -> None:
        self.journal = Journal(root, **process_identity()).metrics(0, loss=1.0)
        for cpu_pct in (20.0, 30.0):
            self.record(cpu_pct)
        self._live = LiveFile(self.journal.folder, node="here", rank=0, wall=time.time)

    def record(self, cpu_pct: float) -> None:
        """Write what a companion records every ten seconds."""
        host = {"log": "system", "cpu_pct": cpu_pct, "ram_used": 2 * GIB, "ram_total": 4 * GIB}
        gpu = {"log": "gpu", "id": 0, **GPU, **LIMITS}
        self.journal.add(host, gpu, writer="telemetry-here")

    def read(self, cpu_pct: float, power: float) -> None:
        """Write what a companion reads each second."""
        self._live.see_host({"cpu_pct": cpu_pct, "ram_used": 3 * GIB})
        self._live.see_gpu(0, {**GPU, "power": power})
        self._live.write()

    def stop_reading(self) -> None:
        self._live.close()


@pytest.mark.parametrize(
    ("section", "place"), [("", "[aria-label='Machine']"), ("system", "[data-title='In use']")]
)
def test_bars_move_each_second_and_fall_back_to_the_record(
    tmp_path: Path, serve: Serve, open_page: OpenPage, section: str, place: str
) -> None:
    training = Training(tmp_path)
    page = open_page(f"{serve(tmp_path).url}#place=run&at={section}")
    card = page.locator(place)
    card.get_by_text("30 %", exact=True).wait_for()
    recorded = datetime.fromtimestamp(training.journal.t)
    until(
        page,
        lambda: card.locator(".as-of").inner_text() == f"recorded {recorded:%Y-%m-%d %H:%M:%S}",
    )

    def shows(*texts: str) -> bool:
        return all(card.get_by_text(text, exact=True).count() for text in texts)

    for cpu_pct, power, drawn in ((61.0, 450_000.0, "450 W"), (62.0, 480_000.0, "480 W")):

        def is_read(cpu_pct: float = cpu_pct, power: float = power, drawn: str = drawn) -> bool:
            training.read(cpu_pct, power)
            # The limits are those of the record.
            return shows(f"{cpu_pct:.0f} %", f"{drawn} of 600 W", "3.0 GiB of 4.0 GiB")

        until(page, is_read)
        assert card.locator(".as-of").inner_text().startswith("as of ")
    said = card.locator(".as-of").inner_text()
    told = datetime.strptime(f"{datetime.now():%Y-%m-%d} {said[6:]}", "%Y-%m-%d %H:%M:%S")
    assert abs((datetime.now() - told).total_seconds()) % 86_400 < 60
    training.stop_reading()
    until(page, lambda: shows("30 %", "300 W of 600 W", "2.0 GiB of 4.0 GiB"))
    until(page, lambda: card.locator(".as-of").inner_text().startswith("recorded "))


# Every drawing of a chart begins with clearing its canvas.
COUNT_DRAWINGS = """
{
  const clear = CanvasRenderingContext2D.prototype.clearRect;
  CanvasRenderingContext2D.prototype.clearRect = function (...area) {
    this.canvas.dataset.drawings = Number(this.canvas.dataset.drawings ?? 0) + 1;
    return clear.apply(this, area);
  };
}
"""


def test_charts_stand_still_while_bars_move(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    training = Training(tmp_path)
    page = open_page("about:blank")
    page.add_init_script(COUNT_DRAWINGS)
    page.goto(serve(tmp_path).url + "#place=run&at=system")
    chart = page.locator("[data-title='Resources'] canvas[data-drawings]").first
    bars = page.locator("[data-title='In use']")
    loads = itertools.cycle(range(50, 90))

    def state_of_chart() -> tuple[str | None, object]:
        page.evaluate(NEXT_FRAME)
        return chart.get_attribute("data-drawings"), chart.bounding_box()

    def move_bars() -> None:
        cpu_pct = next(loads)

        def is_read() -> bool:
            training.read(cpu_pct, 500_000.0)
            return bars.get_by_text(f"{cpu_pct} %", exact=True).count() > 0

        until(page, is_read)

    def has_stood_still() -> bool:
        before = state_of_chart()
        for _ in range(3):
            move_bars()
        return state_of_chart() == before

    # While the page settles, a chart may be drawn again for other reasons. One that follows the
    # bars never stands still.
    until(page, has_stood_still)


def test_readings_are_asked_for_only_where_they_are_shown(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    Training(tmp_path)
    page = open_page("about:blank")
    streams: list[str] = []
    page.on("request", lambda r: streams.append(r.url) if "api/events" in r.url else None)
    page.goto(serve(tmp_path).url + "#place=board")
    page.locator('[data-metric="loss"]').wait_for()
    until(page, lambda: len(streams) > 0)
    assert not [url for url in streams if "live=1" in url]
    page.keyboard.press("m")
    until(page, lambda: "live=1" in streams[-1])
    is_without = lambda r: "api/events" in r.url and "live=1" not in r.url  # noqa: E731
    with page.expect_request(is_without):
        page.keyboard.press("c")


def test_the_first_readings_need_no_record(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    journal = Journal(tmp_path, **process_identity()).metrics(0, loss=1.0)
    live = LiveFile(journal.folder, node="here", rank=0, wall=time.time)
    page = open_page(serve(tmp_path).url + "#place=run")
    page.locator('[data-metric="loss"]').first.wait_for()

    def is_read() -> bool:
        live.see_host({"cpu_pct": 55.0, "ram_used": GIB, "ram_total": 2 * GIB})
        live.write()
        card = page.locator("[aria-label='Machine']")
        return card.get_by_text("1.0 GiB of 2.0 GiB").count() > 0

    until(page, is_read)
