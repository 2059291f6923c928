"""An event stream of a hub ends with the link or the token that opened it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from epochal.hub.documents import FolderDocuments
from epochal.hub.ledger import Ledger, Links
from epochal.shipping.client import HubClient
from epochal.shipping.worker import ship_now
from tests.hub.hub_process import serving_hub
from tests.hub.test_shipping import record
from tests.server.live import Event, Server, until


@dataclass
class Hub:
    """A hub in this process with one run, and a clock that a test sets."""

    root: Path
    ledger: Ledger
    server: Server
    client: HubClient
    run: str
    now: list[float]
    token: str
    guest: str

    def link(self) -> str:
        return Links(FolderDocuments(self.root), clock=lambda: self.now[0]).make(
            [self.run], until=self.now[0] + 60
        )

    def log(self, step: int) -> None:
        line = b'{"log":"metrics","t":1,"step":%d,"m":{"loss":0}}\n' % step
        ((stem, part),) = self.client.state(self.run).parts.items()
        self.client.append(self.run, stem, first=part.lines, lines=line)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    root, now = tmp_path / "hub", [1_000_000.0]
    with contextlib.closing(Ledger(root)) as ledger:
        token, guest = ledger.add_token("machine", "write"), ledger.add_token("guest", "read")
        with (
            serving_hub(root, ledger, clock=lambda: now[0]) as server,
            contextlib.closing(HubClient(f"http://127.0.0.1:{server.port}", token)) as client,
        ):
            ship_now(record(tmp_path / "runs"), client)
            run = client.get_json("/api/runs")["rows"][0]["id"]
            yield Hub(root, ledger, server, client, run, now, token, guest)


def rest_of(events: Iterator[Event]) -> list[str]:
    """The names of the events until the stream ends; heartbeats show that it does not."""
    names: list[str] = []
    for event in events:
        names.append(event.name)
        assert names.count("heartbeat") < 4
    return names


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


def test_a_stream_of_a_link_ends_when_the_link_ends(hub: Hub) -> None:
    headers = bearer(hub.link())
    with hub.server.listen(run=hub.run, name="loss", headers=headers) as events:
        until(events, "ready")
        hub.now[0] += 59
        hub.log(100)
        until(events, "records")
        hub.now[0] += 2
        hub.log(101)  # nothing that comes later is sent
        assert "records" not in rest_of(events)
    assert hub.server.ask("/api/runs", headers=headers).status == 401


def test_a_stream_without_anything_to_send_ends_too(hub: Hub) -> None:
    # The run has ended, so this stream has sent everything and only stays open.
    with hub.server.listen("/events", headers=bearer(hub.link()), run=hub.run) as events:
        until(events, "complete")
        hub.now[0] += 61
        assert rest_of(events) == []


@pytest.mark.parametrize(
    "end",
    [
        lambda hub: hub.ledger.revoke_token("guest"),
        lambda hub: (hub.ledger.revoke_token("guest"), hub.ledger.add_token("guest", "read")),
    ],
    ids=["revoked", "replaced"],
)
def test_a_stream_of_a_token_ends_when_the_token_is_revoked(
    hub: Hub, end: Callable[[Hub], object]
) -> None:
    with (
        hub.server.listen(run=hub.run, name="loss", headers=bearer(hub.guest)) as events,
        hub.server.listen(run=hub.run, name="loss", headers=bearer(hub.token)) as others,
    ):
        until(events, "ready")
        until(others, "ready")
        end(hub)
        rest_of(events)
        hub.log(100)
        until(others, "records")  # only the stream of that token has ended


def test_streams_of_links_end_when_all_links_are_revoked(hub: Hub) -> None:
    with hub.server.listen(run=hub.run, headers=bearer(hub.link())) as events:
        until(events, "ready")
        Links(FolderDocuments(hub.root)).revoke_all()
        rest_of(events)
