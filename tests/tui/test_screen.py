from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.recipes.demo.every_kind.write import write_every_kind
from epochal.store.local import LocalStore
from epochal.tui.app_state import AppState
from epochal.tui.cells import plain, width
from epochal.tui.control import press
from epochal.tui.glyphs import ASCII, UNICODE, Glyphs
from epochal.tui.screen import compose
from epochal.tui.snapshot import snapshot
from epochal.tui.view import TABS, Tab, Typing, View
from epochal.tui.zoom import Zoom
from tests.store.journals import Journal


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppState]:
    root = tmp_path_factory.mktemp("demo")
    for seed in range(2):
        write_every_kind(root, seed=seed)
    with LocalStore(root) as store:
        yield AppState(store)


@pytest.fixture
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def screen(
    state: AppState, view: View | None = None, *, size: str = "100x30", glyphs: Glyphs = UNICODE
) -> str:
    columns, rows = map(int, size.split("x"))
    lines = compose(state, view or View(), columns=columns, rows=rows, glyphs=glyphs)
    assert [width(one) for one in lines] == [columns] * rows
    return "\n".join(plain(one).rstrip() for one in lines)


@pytest.mark.parametrize("size", ["60x20", "80x24", "100x30", "132x43", "200x50"])
def test_the_overview_has_its_parts_at_every_size(demo: AppState, size: str) -> None:
    text = screen(demo, size=size)
    assert "○ finished demo/every-kind" in text
    for part in ("train/loss", "◆ eval/loss", "grad norm", "tok/s", "SOL", "GPU 1", "CPU", "RAM"):
        assert part in text, part
    assert "GPU 1 slowed itself down for heat" in text
    assert "100 %" in text


@pytest.mark.usefixtures("utc")
def test_a_small_screen_line_by_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "tiny", totals={"steps": 60})
    for step in range(60):
        loss = 2 + 6 * math.exp(-step / 12)
        journal.add({"log": "step", "step": step, "loss": loss, "lr": 1e-3 * (60 - step)})
    journal.add({"log": "eval", "step": 59, "loss": 2.5}, {"log": "message", "text": "saved"})
    journal.finish()
    state = AppState(LocalStore(tmp_path))
    assert screen(state, size="60x16").splitlines() == [
        "○ finished p/tiny  ━━━━━━━  100 %  step 60/60  1m 03s in all",
        " 1 overview  2 charts  3 system  4 log  5 text  6 config",
        "train/loss 2.0439  ◆ eval/loss",
        "8┤⠑⠤⡀",
        "6┤  ⠈⠉⠢⡀",
        " │     ⠈⠉⠉⠢⢄⣀",
        "4┤           ⠉⠑⠒⠤⠤⠤⢄⣀",
        " │                   ⠉⠉⠉⠉⠑⠒⠒⠒⠒⠒⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⠤⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀⣀◆",
        " └┬──────────────────┬───────────────────┬──────────────────",
        "  0                 20                  40              step",
        "loss      ↘ 2.0439    █▇▆▅▄▃▃▂▂▂▂▂▁▁▁▁▁▁▁▁▁ best 2.0439 @ 59",
        "eval loss   2.5000    ▄                          gap -22.9 %",
        "lr          0.0010    ████▇▇▇▇▇▆▆▆▆▆▅▅▅▅▅▄▄▄▄▄▃▃▃▃▃▂▂▂▂▂▁▁▁▁",
        "00:17:42 saved",
        "00:17:43 finished",
        "? keys  q quit  / filter  c compare  + - zoom  s smooth",
    ]


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_tab_fits_every_screen(demo: AppState, tab: Tab, glyphs: Glyphs) -> None:
    for size in ("10x3", "40x10", "61x21", "129x30", "131x31"):
        screen(demo, View(tab=tab, shows_runs=True), size=size, glyphs=glyphs)
        text = screen(demo, View(tab=tab, scroll=3), size=size, glyphs=glyphs)
        if glyphs is ASCII and tab == "system":
            assert text.replace("°", "").replace("…", "").isascii()


@given(st.integers(1, 150), st.integers(1, 50), st.sampled_from(TABS), st.booleans())
def test_a_screen_has_exactly_its_size(
    demo: AppState, columns: int, rows: int, tab: Tab, shows_help: bool
) -> None:
    screen(demo, View(tab=tab, shows_help=shows_help), size=f"{columns}x{rows}")


KEYS = [*"123456?rcC+-0solx[]jkgGp/(a=", "tab", "shift-tab", "up", "down", "left", "right", "home"]
KEYS += ["end", "enter", "escape", "backspace", "erase", "space", "pageup", "pagedown", "unknown"]


@given(st.lists(st.sampled_from(KEYS), max_size=25))
def test_no_keys_in_any_order_break_the_screen(demo: AppState, keys: list[str]) -> None:
    view = View()
    for key in keys:
        view = press(key, view, demo)
        screen(demo, view, size="90x24")
    demo.filter("")
    demo.compared = []


def test_help_lists_the_keys_even_on_the_smallest_screen(demo: AppState) -> None:
    text = screen(demo, View(shows_help=True), size="60x20")
    assert "leave; what is watched goes on" in text
    assert "draw everything anew" in text


def test_the_list_of_runs_is_beside_where_there_is_room(demo: AppState) -> None:
    assert "Runs 2" in screen(demo, size="140x40")
    assert "Runs 2" not in screen(demo, size="100x30")
    assert "Runs 2" in screen(demo, View(shows_runs=True), size="100x30")


def test_a_bad_run_is_marked_in_the_list(tmp_path: Path) -> None:
    found = {"log": "finding", "id": "1", "rule": "nonfinite", "sentence": "nan"}
    bad = Journal(tmp_path, "bad").metrics(1, loss=1.0).finish()
    bad.add({**found, "severity": "error"}, writer="findings")
    Journal(tmp_path, "good").metrics(1, loss=1.0).finish()
    text = screen(AppState(LocalStore(tmp_path)), View(shows_runs=True))
    assert "○!bad" in text
    assert "○ good" in text


def test_the_tabs_show_what_they_are_called_after(demo: AppState) -> None:
    assert "30.5 GiB of 79.6 GiB" in screen(demo, View(tab="system"))
    assert "resumed at step 200, attempt 2" in screen(demo, View(tab="log"))
    assert "sample @ 399" in screen(demo, View(tab="text"))
    assert "model.experts_per_token" in screen(demo, View(tab="config"))
    charts = screen(demo, View(tab="charts"), size="160x45")
    assert all(name in charts for name in ("train/loss", "train/lr", "train/norm"))


def test_scrolling_turns_round_at_the_end(demo: AppState) -> None:
    for view, to_end, back in ((View(tab="text"), "G", "k"), (View(tab="log"), "g", "j")):
        end = press(to_end, view, demo)
        assert screen(demo, view) != screen(demo, end)
        assert screen(demo, press(back, end, demo)) != screen(demo, end)


def test_names_that_are_hard_to_show_stay_on_their_line(demo: AppState) -> None:
    view = View(tab="charts", metric_filter="two|x{90}|bold|größe")
    text = screen(demo, view, size="160x45")
    assert "two\\nlines and a tab" in text
    assert "<b>bold</b>" in text


def test_what_is_not_as_usual_is_said(demo: AppState) -> None:
    view = View(is_paused=True, smoothing=0.9, is_log=True, zoom=Zoom(0.25), x="relative")
    row = screen(demo, view).splitlines()[1]
    assert row.endswith("log smooth 0.9 zoom 4x x relative held")


def test_a_filter_being_typed_is_shown_with_what_is_wrong_with_it(demo: AppState) -> None:
    demo.filter("(")
    row = screen(demo, View(run_filter="(", typing=Typing("runs", ""))).splitlines()[-1]
    demo.filter("")
    assert row.startswith("filter runs: (")
    assert "expected a closing )" in row


def test_why_a_run_ended_is_said_at_the_top(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, loss=1.0)
    journal.add({"log": "finish", "status": "failed", "reason": "ValueError: no data"})
    assert screen(AppState(LocalStore(tmp_path))).splitlines()[2] == "ValueError: no data"


def test_a_folder_without_runs_says_so(tmp_path: Path) -> None:
    assert "they appear by themselves" in screen(AppState(LocalStore(tmp_path)))


def test_a_snapshot_is_the_run_in_plain_lines(demo: AppState) -> None:
    lines = snapshot(demo, View(), columns=100, now=0.0, glyphs=UNICODE)
    text = "\n".join(plain(one) for one in lines)
    assert all(width(one) <= 100 for one in lines)
    for part in ("finished", "best", "gap +", "Machine", "Findings", "airflow", "Log"):
        assert part in text
