"""Tables and pages that a run keeps as files, on the live page and in an archive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import epochal.wandb as wandb
from tests.doubles.archives import write_archive
from tests.e2e.browsing import OpenPage, Serve, until
from tests.e2e.test_panels import width_beyond

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCRIPT = "<script>document.body.textContent = 'it ran'</script>"


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EPOCHAL_COMPANION", "off")
    rows = [[number, f"<b>row {number}</b>", number / 4] for number in range(1200)]
    with wandb.init(project="p", name="n") as run:
        run.log(
            {
                "guesses": wandb.Table(columns=["n", "words", "share"], data=rows),
                "page": wandb.Html(f"<h1>A page</h1>{SCRIPT}"),
            },
            step=4,
        )
    return tmp_path / "runs"


def check(page: Page, address: str) -> None:
    page.goto(address)
    table = page.locator("[data-title='guesses'] table")
    table.locator("td >> text='<b>row 3</b>'").wait_for()
    until(page, lambda: table.locator("th").all_inner_texts() == ["n", "words", "share"])
    until(page, lambda: table.locator("tbody tr").count() == 1000)
    page.get_by_text("rows and 3 of 3 columns").wait_for()
    frame = page.frame_locator("[data-title='page'] iframe")
    frame.locator("h1 >> text=A page").wait_for()
    assert frame.get_by_text("it ran").count() == 0


def test_the_live_page_shows_tables_and_pages(
    runs: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page("about:blank")
    check(page, f"{serve(runs).url}#panel=images")
    assert width_beyond(page) <= 0


def test_an_archive_shows_them_too(runs: Path, tmp_path: Path, open_page: OpenPage) -> None:
    write_archive(runs / "p" / "n", tmp_path / "run.html")
    page = open_page("about:blank", offline=True)
    check(page, (tmp_path / "run.html").as_uri() + "#panel=images")
