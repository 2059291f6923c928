"""The list of runs and the table: filters, groups, many runs at once, and honest words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from epochal.cli.main import main
from epochal.store.local.catalog import folder_store
from tests.e2e.browsing import OpenPage, Serve, until
from tests.store.journals import Journal

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Twelve runs: two learning rates, two models, three seeds."""
    for number in range(12):
        lr, model, seed = (3e-5, 1e-3)[number % 2], "ab"[number // 2 % 2], number // 4
        name = f"sweep-of-runs-{model}-lr{lr}-seed{seed}"
        config = {"lr": lr, "model": {"name": model}, "seed": seed}
        journal = Journal(tmp_path, name, id=f"r{number:02}", config=config)
        for step in range(4):
            journal.metrics(step, loss=3.0 - step - number / 100)
        journal.finish()
    return tmp_path


def count(page: Page) -> str:
    return page.locator(".runs-count").inner_text()


def names(root: Path) -> set[str]:
    return {run.id for run in folder_store(root).runs()}


def test_one_box_filters_by_words_and_by_a_query_with_completed_fields(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url)
    until(page, lambda: "of 12 shown" in count(page))
    box = page.get_by_label("Filter runs")
    box.fill("seed1")
    until(page, lambda: "of 4 shown" in count(page))
    box.fill("")
    page.keyboard.type("config.l")
    offered = page.locator("datalist option").first
    until(page, lambda: offered.get_attribute("value") == "config.lr ")
    page.keyboard.type("r < 1e-4")
    until(page, lambda: "of 6 shown" in count(page))
    page.keyboard.type(" and cofnig.lr < 1")
    page.get_by_text("cofnig").first.wait_for()
    until(page, lambda: page.locator(".search.is-wrong").count() == 1)


def test_checked_runs_are_tagged_deleted_and_brought_back(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url)
    until(page, lambda: "8 of 12 shown" in count(page))
    marks = page.locator(".run-mark")
    # Eight are shown at first: four of them are taken away at once.
    marks.nth(4).click()
    marks.nth(7).click(modifiers=["Shift"])
    until(page, lambda: "4 of 12 shown" in count(page))
    page.get_by_role("button", name="Edit 4 runs").click()
    page.get_by_role("menuitem", name="Tags…").click()
    page.get_by_label("Tags, with commas between").fill("good, late")
    page.get_by_role("button", name="Add", exact=True).click()
    until(page, lambda: len(folder_store(sweep).runs('"good" in tags')) == 4)
    page.get_by_role("button", name="Undo").click()
    until(page, lambda: not folder_store(sweep).runs('"good" in tags'))
    page.get_by_role("button", name="Edit 4 runs").click()
    page.get_by_role("menuitem", name="Delete 4 runs").click()
    asked = page.get_by_role("dialog", name="Delete 4 runs?")
    assert asked.get_by_role("listitem").count() == 4
    asked.get_by_role("button", name="Delete 4 runs").click()
    until(page, lambda: len(names(sweep)) == 8)
    until(page, lambda: "of 8 shown" in count(page))
    page.get_by_role("button", name="Undo").last.click()
    until(page, lambda: len(names(sweep)) == 12)
    until(page, lambda: "of 12 shown" in count(page))


def test_the_list_is_one_stop_of_the_tab_key(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url + "#place=board")
    until(page, lambda: "8 of 12 shown" in count(page))
    mark = page.locator(".run-mark").nth(1)
    label = "document.activeElement.ariaLabel"
    page.get_by_label("Which runs are listed and shown").focus()
    for key in ("Tab", "ArrowDown", "ArrowDown", "ArrowLeft", "Space"):
        page.keyboard.press(key)
    until(page, lambda: mark.get_attribute("aria-checked") == "false")
    for key in ("ArrowRight", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    page.get_by_role("menuitem", name="Show alone").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    until(page, lambda: page.evaluate(label) == "Width of the list")
    page.keyboard.press("c")
    until(page, lambda: page.evaluate("document.activeElement.id") == "panel")
    page.keyboard.press("Tab")
    assert page.evaluate(label) == "Board: All metrics"


def test_note_and_tags_of_a_run_are_read_and_written_in_the_list(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url + "#place=board&run=r03")
    row = page.locator('.run[data-run="r03"]')
    row.get_by_role("button", name="Add a note").click()
    page.keyboard.type("Keep for")
    page.keyboard.press("Enter")
    page.keyboard.type("the paper.")
    page.keyboard.press("Control+Enter")
    note = row.get_by_role("button", name="Keep for the paper.")
    until(page, lambda: note.evaluate("button => button === document.activeElement"))
    row.get_by_role("button", name="Add a tag").click()
    page.keyboard.type("keep")
    page.keyboard.press("Enter")
    row.locator(".chip", has_text="keep").wait_for()
    store = folder_store(sweep)
    until(page, lambda: [run.id for run in store.runs('"keep" in tags')] == ["r03"])
    row.get_by_text("Keep for the paper.").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("Thrown away.")
    page.keyboard.press("Escape")
    row.get_by_text("Keep for the paper.").wait_for()
    row.get_by_role("button", name="Remove the tag keep").click()
    row.locator(".chip", has_text="keep").wait_for(state="detached")


def test_a_hidden_run_leaves_the_list_until_it_is_shown_again(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(serve(sweep).url)
    row = page.locator('.run[data-run="r03"]')
    row.hover()
    row.get_by_role("button", name="Actions for").click()
    page.get_by_role("menuitem", name="Hide from the list").click()
    until(page, lambda: "of 11 shown" in count(page))
    page.get_by_role("button", name="Which runs are listed and shown").click()
    page.get_by_role("menuitemcheckbox", name="List hidden runs").click()
    until(page, lambda: "of 12 shown" in count(page))


def test_runs_are_grouped_by_everything_but_the_seed(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(sweep).url}#place=compare&compare=groups")
    page.get_by_role("button", name="group by everything but seed").click()
    groups = page.locator(".run-group")
    until(page, lambda: groups.count() == 4)
    until(page, lambda: groups.first.inner_text().startswith("lr=3e-5, name=a"))
    page.get_by_role("tab", name="Table").click()
    heads = page.locator(".compare-group")
    until(page, lambda: heads.count() == 4)
    # Losses of runs 3, 7 and 11 end at -0.03, -0.07 and -0.11.
    until(page, lambda: "-0.0700 ± 0.0994" in heads.first.inner_text())
    page.get_by_role("button", name="lr=0.001, name=b").click()
    until(page, lambda: page.locator(".compare-space .compare-row").count() == 13)


def test_a_note_and_tags_are_edited_in_the_table(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(sweep).url}#place=compare&filter=r03")
    row = page.locator(".compare-space .compare-row")
    until(page, lambda: row.count() == 1)
    assert row.get_by_role("checkbox").count() == 1
    row.get_by_role("button", name="Add a note").click()
    page.keyboard.type("Keep for the paper.")
    page.keyboard.press("Control+Enter")
    until(page, lambda: folder_store(sweep).run("r03").info.notes == "Keep for the paper.")
    row.get_by_role("button", name="Add a tag").click()
    page.keyboard.type("keep, late")
    page.keyboard.press("Enter")
    until(page, lambda: folder_store(sweep).run("r03").info.tags == ("keep", "late"))
    until(page, lambda: row.locator(".chip").count() == 3)


def test_the_table_shows_small_rates_with_few_digits(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    page = open_page(f"{serve(sweep).url}#place=compare")
    cell = page.locator(".compare-cell", has_text=re.compile("^3e-5$")).first
    cell.wait_for()
    until(page, lambda: cell.get_attribute("title") == "0.00003")


def test_numbers_that_a_program_set_are_columns(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    for number in (0, 1):
        journal = Journal(sweep, f"set-{number}", config={"lr": number})
        journal.metrics(1, loss=1.0).add(
            {"log": "summary", "name": "best_acc", "value": number / 3}
        )
        journal.finish()
    path = sweep / "saved.html"
    keys = ("set-0", "set-1")
    assert main(["export", "--dir", str(sweep), *keys, "--format", "html", "-o", str(path)]) == 0
    for url in (serve(sweep).url, path.as_uri()):
        page = open_page(f"{url}#place=compare&filter=set-")
        page.get_by_role("columnheader", name="best_acc").wait_for()
        until(page, lambda page=page: page.get_by_role("cell", name="0.3333").count() == 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#run=nobody", "There is no run “nobody” here"),
        ("#project=nobody", "There is no project “nobody”"),
        ("#filter=zzz", "No run matches this filter"),
    ],
)
def test_words_for_what_is_not_there(
    sweep: Path, serve: Serve, open_page: OpenPage, address: str, words: str
) -> None:
    page = open_page(f"{serve(sweep).url}{address}")
    page.get_by_text(words).first.wait_for()


def test_a_link_to_a_deleted_run_offers_to_restore_it(
    sweep: Path, serve: Serve, open_page: OpenPage
) -> None:
    store = folder_store(sweep)
    store.remove(store.run("r05"))
    page = open_page(f"{serve(sweep).url}#run=r05")
    page.get_by_role("button", name="Restore it").click()
    until(page, lambda: "r05" in names(sweep))
    until(page, lambda: page.locator('.run[data-run="r05"]').count() == 1)
