from __future__ import annotations

from pathlib import Path

import pytest

from epochal.store.local.store import LocalStore
from epochal.tui.app_state import AppState
from tests.store.journals import Journal
from tests.tui.screens import shown, watching


def state_of(root: Path, *names: str) -> AppState:
    for place, name in enumerate(names):
        journal = Journal(root, name, created=1000.0 - place, config={"lr": place})
        journal.metrics(0, loss=1.0)
    return AppState(LocalStore(root))


def names(state: AppState) -> list[str]:
    return [run.info.name for run in state.runs]


def chosen(state: AppState) -> str:
    assert state.run is not None
    return state.run.info.name


def test_arrows_choose_runs_and_stop_at_the_ends(tmp_path: Path) -> None:
    state = state_of(tmp_path, "a", "b", "c")
    with watching(state) as screen:
        screen.press("down", "down", "down", "down", "up")
        assert chosen(state) == "b"
        screen.press("end")
        assert chosen(state) == "c"
        screen.press("home")
        assert chosen(state) == "a"


def test_a_filter_is_applied_letter_by_letter_and_escape_restores_it(tmp_path: Path) -> None:
    state = state_of(tmp_path, "alpha", "beta", "gamma")
    with watching(state) as screen:
        assert "filter runs: Be" in screen.press("/", "B", "e").lines[-1]
        assert (names(state), chosen(state)) == (["beta"], "beta")
        assert "? keys" in screen.press("escape").lines[-1]
        assert names(state) == ["alpha", "beta", "gamma"]


def test_a_filter_may_be_a_query(tmp_path: Path) -> None:
    state = state_of(tmp_path, "a", "b", "c")
    shown(state, "/", *"config.lr>0", "enter")
    assert names(state) == ["b", "c"]


def test_a_filter_is_corrected_and_erased_while_it_is_typed(tmp_path: Path) -> None:
    state = state_of(tmp_path, "a", "b")
    with watching(state) as screen:
        screen.press("/", "b", "b", "backspace", "enter")
        assert names(state) == ["b"]
        screen.press("/", "ctrl+u", "enter")
        assert names(state) == ["a", "b"]


def test_what_is_wrong_with_a_filter_is_said_beside_it(tmp_path: Path) -> None:
    row = shown(state_of(tmp_path, "a"), "/", "(").splitlines()[-1]
    assert row.startswith("filter runs: (")
    assert "expected a closing )" in row


def test_while_typing_q_is_a_letter_and_outside_it_quits(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a")) as screen:
        assert "filter runs: q" in screen.press("/", "q").text
        assert screen.app.return_code is None
        screen.press("enter", "q")
        assert screen.app.return_code == 0


def test_ctrl_c_ends_even_while_typing(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a")) as screen:
        screen.press("/", "q", "ctrl+c")
        assert screen.app.return_code == 130


def test_keys_change_how_charts_are_drawn(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a")) as screen:
        view = screen.press("s", "l", "o", "x", "+").view
        assert (view.smoothing, view.is_log, view.clips_outliers) == (0.6, True, True)
        assert (view.x, view.zoom.share) == ("epoch", 0.5)
        assert screen.press("escape").view.zoom.is_whole
        assert screen.press("=", "+", "-").view.zoom.share == 0.5
        assert screen.press("0").view.zoom.is_whole


def test_what_is_not_as_usual_is_said(tmp_path: Path) -> None:
    keys = ("p", "s", "s", "l", "x", "x", "x", "x", "+", "+")
    row = shown(state_of(tmp_path, "a"), *keys, size="120x30").splitlines()[1]
    assert row.endswith("log smooth 0.9 zoom 4x x relative held")


def test_brackets_go_through_the_series_and_stop_at_the_last(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(0, other=1.0, loss=1.0, more=2.0)
    with watching(AppState(LocalStore(tmp_path))) as screen:
        assert screen.press("]", "]", "]").view.metric == "more"
        assert screen.press("[").view.metric == "other"


def test_series_are_filtered_in_the_charts(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(0, loss=1.0, accuracy=1.0)
    with watching(AppState(LocalStore(tmp_path))) as screen:
        text = screen.press("2", "/", "a", "c", "c", "enter").text
        assert "accuracy" in text
        assert "loss" not in text
        assert "loss" in screen.press("escape").text
        assert "expected a closing )" in screen.press("/", "(").lines[-1]


def test_enter_shows_one_chart_alone_and_escape_all_of_them(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(0, loss=1.0, accuracy=1.0)
    with watching(AppState(LocalStore(tmp_path))) as screen:
        alone = screen.press("2", "j", "enter").text
        assert "accuracy" in alone
        assert "loss" not in alone
        assert "loss" in screen.press("escape").text


def test_compared_runs_are_drawn_behind_the_chosen_one(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a", "b")) as screen:
        assert "━━ a" in screen.press("c", "down").text
        assert "━━ a" not in screen.press("C").text


def test_tab_and_shift_tab_go_through_the_tabs(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a")) as screen:
        assert "This run measured no machine." in screen.press("tab", "tab").text
        assert "This run logged no text." in screen.press(*["shift+tab"] * 4).text


def test_every_tab_has_keys_of_its_own(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a"), size="160x30") as screen:
        last = {key: screen.press(key).lines[-1] for key in "213456"}
    assert all("? keys  q quit  / filter" in text for text in last.values())
    assert last["1"].startswith("? keys  q quit")
    assert last["2"].startswith("j k choose  Enter enlarge")
    assert all(last[key].startswith("j k scroll  g G ends") for key in "3456")


def test_any_key_closes_the_help_and_does_nothing_else(tmp_path: Path) -> None:
    with watching(state_of(tmp_path, "a", "b")) as screen:
        assert "hold the picture" in screen.press("?").text
        assert "hold the picture" not in screen.press("q").text
        assert screen.app.return_code is None


@pytest.mark.parametrize(("key", "verb"), [("X", "Stop"), ("Z", "Suspend")])
def test_nothing_is_done_to_a_run_without_a_second_key(tmp_path: Path, key: str, verb: str) -> None:
    # Its process is this one: were anything sent, the tests would end here.
    Journal(tmp_path).metrics(1, loss=1.0)
    with watching(AppState(LocalStore(tmp_path))) as screen:
        for other in ("q", "escape", "enter"):
            assert f"{verb} p/x?" in screen.press(key).lines[-1]
            assert screen.press(other).lines[-1].startswith("? keys")
            assert "was sent" not in screen.text


def test_a_run_that_has_ended_is_not_asked_about(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish()
    with watching(AppState(LocalStore(tmp_path))) as screen:
        assert "? keys" in screen.press("X").lines[-1]
        assert "? keys" in screen.press("Z").lines[-1]


def test_why_a_run_cannot_be_stopped_is_said(tmp_path: Path) -> None:
    Journal(tmp_path, host="node-7", pid=1).metrics(1, loss=1.0)
    with watching(AppState(LocalStore(tmp_path))) as screen:
        assert "on the machine 'node-7'" in " ".join(screen.press("X", "X").text.split())


def test_an_empty_folder_is_no_error(tmp_path: Path) -> None:
    state = AppState(LocalStore(tmp_path))
    keys = ("down", "c", "]", "left", "+", "left", "j", "enter", "2", "enter", *"3456", "X", "r")
    assert "they appear by themselves" in shown(state, *keys, "r", "1")
    assert state.run is None
    assert state.run_log() is None
