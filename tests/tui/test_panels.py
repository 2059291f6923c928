from __future__ import annotations

from pathlib import Path

import pytest

from epochal.store.local.store import LocalStore
from epochal.tui.app_state import AppState
from epochal.tui.panels import tip
from tests.store.journals import Journal
from tests.tui.screens import shown


def tip_of(root: Path, *, is_paused: bool = False) -> str | None:
    state = AppState(LocalStore(root))
    assert state.run is not None
    return tip(state.run.info, state.run_log(), is_paused=is_paused)


def test_a_run_that_goes_well_needs_no_advice(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert tip_of(tmp_path) is None


def test_a_run_that_ended_early_can_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Journal(tmp_path, "a b").metrics(1, loss=1.0).finish("failed")
    said = "epochal resume 'p/a b'  prints the command that continues it"
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path))
    assert tip_of(tmp_path) == said
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "others"))
    monkeypatch.chdir(tmp_path.parent)
    assert tip_of(tmp_path) == said.replace("b'", f"b' --dir {tmp_path.name}")


def test_a_grave_finding_points_to_the_doctor(tmp_path: Path) -> None:
    finding = {"log": "finding", "id": "1", "rule": "nonfinite", "severity": "error"}
    Journal(tmp_path).metrics(1, loss=1.0).add(
        {**finding, "sentence": "nan", "state": "open"}, writer="findings"
    )
    assert "epochal doctor p/x" in (tip_of(tmp_path) or "")


def test_a_held_picture_says_how_to_go_on(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0)
    assert "p shows the newest values" in (tip_of(tmp_path, is_paused=True) or "")


def test_the_tip_is_on_the_screen_where_there_is_room(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, loss=1.0).finish("failed")
    state = AppState(LocalStore(tmp_path))
    assert any(line.startswith("tip epochal resume") for line in shown(state).splitlines())
    assert not any(line.startswith("tip") for line in shown(state, size="60x12").splitlines())
