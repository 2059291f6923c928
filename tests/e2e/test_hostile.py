"""Names and texts that try to be more than names and texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import StartRun
from tests.doubles.every_kind import write_every_kind
from tests.e2e.browsing import OpenPage, Serve, has_drawn

ATTACK = "<img src=x onerror=\"document.title='broken'\">\"'</script><b>{{7*7}}"


@pytest.fixture
def runs(tmp_path: Path, start_run: StartRun) -> Path:
    with start_run(
        ATTACK[:60], config={ATTACK: ATTACK, "list": [ATTACK]}, tags=[ATTACK], notes=ATTACK
    ) as run:
        for step in range(3):
            run.log({ATTACK: step, "loss": 1.0}, step=step)
        run.define("loss", unit=ATTACK)
        run.log({ATTACK: ATTACK}, step=2)
    write_every_kind(tmp_path / "runs")
    return tmp_path / "runs"


def test_a_hostile_metric_has_a_chart_and_downloads(
    runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(runs).url + "#place=board&metrics=onerror")
    card = page.locator("section.chart-card")
    card.first.wait_for()
    has_drawn(page)
    card.first.get_by_role("button", name="Actions").click()
    with page.expect_download() as caught:
        page.get_by_role("menuitem", name="Download SVG").click()
    text = Path(caught.value.path()).read_text(encoding="utf-8")
    assert "<img" not in text
    assert "/" not in caught.value.suggested_filename
