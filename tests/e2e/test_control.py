"""The page of a hub controls a training that runs elsewhere."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.e2e.browsing import OpenPage, Serve
from tests.hub.hub_process import HubProcess
from tests.hub.test_control import TRAINS, shipped_training
from tests.hub.test_shipping import wait_until
from tests.store.journals import Journal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")


def test_a_person_stops_a_training_on_the_page(
    tmp_path: Path, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_CONTROL", "1")
    hub = HubProcess(tmp_path / "hub", "--allow-control")
    try:
        with shipped_training(hub, tmp_path / "runs", monkeypatch, TRAINS) as process:
            page = open_page(f"{hub.url}/?token={hub.token}")
            card = page.get_by_role("region", name="Control")
            card.get_by_role("button", name="Save a checkpoint").click()
            card.get_by_text("has no Checkpoints").wait_for()
            if picture := os.environ.get("PICTURE"):
                page.screenshot(path=picture)
            card.get_by_role("button", name="Stop", exact=True).click()
            assert process.poll() is None  # it asks first
            card.get_by_role("button", name="Stop it now?").click()
            wait_until(lambda: process.poll() is not None)
            page.locator(".run", has_text="run").first.wait_for()
    finally:
        hub.stop()


def test_other_servers_have_no_buttons(tmp_path: Path, serve: Serve, open_page: OpenPage) -> None:
    Journal(tmp_path / "runs", "a").metrics(1, loss=1.0)
    page = open_page(serve(tmp_path / "runs").url)
    page.get_by_role("region", name="Findings").wait_for()
    assert page.get_by_role("region", name="Control").count() == 0
