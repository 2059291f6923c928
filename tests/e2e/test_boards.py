"""Boards: arranged by mouse and keyboard, saved, and changed by several people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from epochal.cli.main import main
from epochal.journal.boards import Block, Board, read_boards, save_board
from tests.e2e.browsing import OpenPage, Serve, until, wait_for_lines
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

PROJECT = "test"


def write(root: Path) -> Path:
    journal = Journal(root, project=PROJECT)
    for step in range(5):
        values = {"train/loss": 2.0 - step / 5, "eval/loss": 2.1 - step / 5, "acc": step / 5}
        journal.add({"log": "metrics", "step": step, "m": values})
    journal.finish()
    return journal.folder.path


def stored(root: Path, name: str) -> Board:
    return next(one.board for one in read_boards(root / PROJECT, PROJECT) if one.board.name == name)


def series(page: Page) -> list[str]:
    """What the charts of the board draw, in their order."""
    return [card.get_attribute("aria-label") or "" for card in page.locator(".block .card").all()]


def head(page: Page, name: str) -> Locator:
    return page.locator(f'[data-metric="{name}"] .card-head')


def choose(page: Page, button: str, item: str) -> None:
    page.get_by_role("button", name=button, exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def focused(page: Page, selector: str) -> bool:
    return bool(page.evaluate("(text) => document.activeElement.matches(text)", selector))


def save_as(page: Page, name: str) -> None:
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    page.get_by_text("saved", exact=True).wait_for()


def test_a_board_is_made_by_mouse_and_saved(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    page = open_page(f"{serve(tmp_path).url}#place=board")
    head(page, "eval/loss").drag_to(page.locator('[data-metric="train/loss"]'))
    page.get_by_text("not saved yet").wait_for()
    assert series(page)[0] == "train/loss, eval/loss"
    wait_for_lines(page, "train/loss, eval/loss", 2)

    page.get_by_role("button", name="+ chart").click()
    field = page.get_by_role("combobox", name="Series")
    field.fill("train/loss - eval/loss")
    field.press("Enter")
    page.get_by_label("Title").fill("Gap")
    page.get_by_role("button", name="Add the chart").click()
    wait_for_lines(page, "Gap", 1)
    page.get_by_role("button", name="+ text").click()
    page.get_by_label("Text in Markdown").fill("## Does it help?")
    page.get_by_label("Text in Markdown").press("Control+Enter")
    page.get_by_role("heading", name="Does it help?").wait_for()

    page.reload()  # unsaved changes are in the address
    page.get_by_role("heading", name="Does it help?").wait_for()
    page.get_by_text("not saved yet").wait_for()
    save_as(page, "paper")
    assert "draft=" not in page.url
    board = stored(tmp_path, "paper")
    assert [block.series for block in board.blocks] == [
        *(["train/loss", "eval/loss"], ["acc"], ["train/loss - eval/loss"], [])
    ]

    page.reload()
    page.get_by_text("saved", exact=True).wait_for()
    assert series(page) == ["train/loss, eval/loss", "acc", "Gap"]
    head(page, "Gap").drag_to(
        page.locator('[data-metric="acc"]'), target_position={"x": 5, "y": 40}
    )
    until(page, lambda: series(page) == ["train/loss, eval/loss", "Gap", "acc"])
    page.get_by_text("unsaved changes").wait_for()
    choose(page, "Actions for the board", "Revert to the saved board")
    until(page, lambda: series(page) == ["train/loss, eval/loss", "acc", "Gap"])


def test_keys_and_menus_do_what_the_mouse_does(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    blocks = [Block(kind="chart", series=[name]) for name in ("train/loss", "eval/loss", "acc")]
    save_board(tmp_path / PROJECT, PROJECT, Board("keys", blocks), None)
    page = open_page(f"{serve(tmp_path).url}#place=board&board=keys")
    block = page.get_by_role("group", name="chart train/loss")
    block.focus()
    block.press("ArrowRight")
    until(page, lambda: series(page) == ["eval/loss", "train/loss", "acc"])
    until(page, lambda: bool(block.evaluate("(one) => one === document.activeElement")))
    block.press("Shift+ArrowRight")
    until(page, lambda: block.evaluate("(one) => one.style.getPropertyValue('--span')") == "8")
    block.press("Delete")
    until(page, lambda: series(page) == ["eval/loss", "acc"])
    page.get_by_role("button", name="Undo").click()
    until(page, lambda: series(page) == ["eval/loss", "train/loss", "acc"])
    choose(page, "Actions for acc", "Join with…")
    page.get_by_role("dialog").get_by_role("button", name="eval/loss").click()
    until(page, lambda: series(page) == ["train/loss", "acc, eval/loss"])
    page.go_back()
    until(page, lambda: series(page) == ["eval/loss", "train/loss", "acc"])
    choose(page, "Actions for acc", "Duplicate")
    until(page, lambda: series(page) == ["eval/loss", "train/loss", "acc", "acc"])
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("saved", exact=True).wait_for()
    assert [one.width for one in stored(tmp_path, "keys").blocks] == [6, 8, 6, 6]


def test_a_board_begins_by_keyboard_with_the_charts_of_the_page(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    page = open_page(f"{serve(tmp_path).url}#place=board")
    page.locator('[data-metric="acc"]').wait_for()
    keys = page.keyboard
    page.get_by_role("button", name="+ chart").focus()
    keys.press("Enter")
    until(page, lambda: focused(page, "input"))
    keys.type("train/los")
    keys.press("Enter")
    page.get_by_text("Did you mean `train/loss`?").wait_for()
    keys.press("Enter")  # a metric may be logged later
    charts = ["train/loss", "eval/loss", "acc"]
    until(page, lambda: series(page) == ["train/los", *charts])
    page.get_by_text("This is a new board.").wait_for()
    page.locator(".block").get_by_text("Did you mean `train/loss`?").wait_for()
    until(page, lambda: focused(page, ".block"))
    keys.press("e")
    until(page, lambda: focused(page, "input"))
    keys.press("Backspace")
    keys.type("train/loss * 2")
    keys.press("Control+Enter")
    until(page, lambda: series(page) == ["train/loss * 2", *charts])
    until(page, lambda: focused(page, ".block"))
    choose(page, "Actions for train/loss * 2", "Join with…")
    until(page, lambda: focused(page, "dialog .menu-item"))
    keys.press("Enter")
    until(page, lambda: series(page) == ["train/loss * 2, train/loss", "eval/loss", "acc"])
    until(page, lambda: focused(page, ".block"))
    page.get_by_role("button", name="Share").click()
    page.get_by_role("menuitem", name="Save as HTML Save the board first.").wait_for()
    keys.press("Escape")
    save_as(page, "by keyboard")
    until(page, lambda: focused(page, ".board-bar button"))


def test_an_outdated_board_is_not_saved_over_a_newer_one(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    folder = tmp_path / PROJECT
    first = save_board(
        folder, PROJECT, Board("shared", [Block(kind="chart", series=["acc"])]), None
    )
    page = open_page(f"{serve(tmp_path).url}#place=board&board=shared")
    page.locator('[data-metric="acc"]').wait_for()
    newer = Board("shared", [Block(kind="text", text="From somebody else")])
    save_board(folder, PROJECT, newer, first.revision)
    choose(page, "Actions for acc", "Wider")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("alert").get_by_text(
        "The board 'shared' was changed by somebody else"
    ).wait_for()
    assert stored(tmp_path, "shared") == newer
    page.get_by_role("button", name="Save as a copy").click()
    page.get_by_role("dialog").get_by_role("button", name="Save the copy").click()
    page.get_by_text("saved", exact=True).wait_for()
    assert stored(tmp_path, "shared copy").blocks[0].width == 8
    page.go_back()
    page.get_by_role("button", name="Load the newer one").click()
    page.get_by_text("From somebody else").wait_for()


def test_a_report_keeps_its_runs_and_is_read_from_a_file(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    blocks = [Block(kind="chart", series=["acc"]), Block(kind="text", text="A note")]
    save_board(tmp_path / PROJECT, PROJECT, Board("report", blocks, smooth=0.5), None)
    page = open_page(f"{serve(tmp_path).url}#place=board&board=report")
    until(page, lambda: "smooth=0.5" in page.url)
    choose(page, "Actions for the board", "Freeze the runs")
    page.get_by_text("1 frozen run").wait_for()
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("saved", exact=True).wait_for()
    journal = Journal(tmp_path, project=PROJECT, name="later")
    journal.add({"log": "metrics", "step": 0, "m": {"acc": 9.0}})
    journal.finish()
    page.reload()
    wait_for_lines(page, "acc", 1)

    file = tmp_path / "saved.html"
    assert main(["export", "--board", "report", "--dir", str(tmp_path), "-o", str(file)]) == 0
    saved = open_page(file.as_uri())
    wait_for_lines(saved, "acc", 1)
    assert saved.title() == "report · Epochal"
    saved.get_by_text("A note").wait_for()
    until(saved, lambda: "smooth=0.5" in saved.url)
    assert saved.get_by_role("button", name="+ chart").count() == 0


def test_a_broken_draft_and_a_bad_formula_are_explained(
    tmp_path: Path, serve: Serve, open_page: OpenPage
) -> None:
    write(tmp_path)
    url = serve(tmp_path).url
    draft = {"blocks": [{"kind": "chart", "series": [one]} for one in ("acc + ", "acc")]}
    page = open_page(f"{url}#place=board&draft={quote(json.dumps(draft))}")
    page.locator(".block .metric-problem").wait_for()
    wait_for_lines(page, "acc", 1)
    page = open_page(f"{url}#place=board&draft=no")
    page.locator('[data-metric="acc"]').wait_for()
