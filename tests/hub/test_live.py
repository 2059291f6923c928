"""A value that a training logs reaches the event stream of its hub's page."""

from __future__ import annotations

from pathlib import Path

import pytest

import epochal
from tests.hub.hub_process import HubProcess
from tests.hub.test_shipping import wait_until
from tests.server.live import Server, until

# Real processes of a hub; `tests/hub/test_inbox.py` and `test_access.py` are quick.
pytestmark = pytest.mark.slow


def test_a_logged_value_reaches_the_page_of_the_hub(
    hub: HubProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_HUB", hub.url)
    monkeypatch.setenv("EPOCHAL_HUB_TOKEN", hub.token)
    run = epochal.init("p", "live", dir=tmp_path / "runs", console=False, companion=True)
    run.log({"loss": -1.0}, step=0)
    client = hub.client()
    wait_until(lambda: client.get_json("/api/runs")["total"] == 1)
    headers = {"Authorization": f"Bearer {hub.token}"}
    with Server(hub.port).listen(headers=headers, run=run.id, name="loss") as events:
        until(events, "ready")
        for step in range(1, 4):
            run.log({"loss": float(step)}, step=step)
            seen: list[float] = []
            while float(step) not in seen:
                for series in until(events, "records").data["points"]:
                    seen += series["value"]
    run.finish()
