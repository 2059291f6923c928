"""Two hubs over PostgreSQL under Patroni and over Swift, for drills."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hub.shared_hubs import SharedHub
from tests.servers import patroni, swift
from tests.servers.patroni import PatroniCluster, patroni_cluster
from tests.servers.processes import free_port
from tests.servers.swift import SwiftCluster, swift_cluster


@dataclass
class DrillHubs:
    """The hubs with their servers; ``bucket`` is the address of their objects."""

    database: PatroniCluster
    objects: SwiftCluster
    bucket: str
    hubs: Sequence[SharedHub]
    folder: Path
    token: str = ""

    @property
    def urls(self) -> list[str]:
        return [hub.url for hub in self.hubs]

    @property
    def environment(self) -> Mapping[str, str]:
        """What senders and readers need."""
        return {**self.objects.environment, "EPOCHAL_HUB_TOKEN": self.token}

    def start_hub(self, number: int) -> None:
        """Start a hub, again and again while its servers are away, as a supervisor does."""
        hub = self.hubs[number]
        while True:
            try:
                hub.start()
            except AssertionError:
                hub.kill()
                time.sleep(0.5)
            else:
                break
        self.token = self.token or hub.first_token or ""
        assert hub.process is not None
        threading.Thread(target=_drain, args=(hub, self.folder / f"hub-{number}.log")).start()


def _drain(hub: SharedHub, log: Path) -> None:
    """Write what a hub prints to a file, until it ends."""
    assert hub.process is not None
    assert hub.process.stdout is not None
    with open(log, "a", encoding="utf-8") as file, contextlib.suppress(ValueError):
        for line in hub.process.stdout:
            file.write(line)
            file.flush()


def check_installed() -> None:
    """End with a sentence where something is not installed."""
    if missing := [*patroni.missing(), *swift.missing()]:
        sys.exit(f"the drills need what is not installed here: {', '.join(missing)}.")


@contextlib.contextmanager
def drill_hubs(folder: Path) -> Iterator[DrillHubs]:
    """All servers and two hubs, while the block runs."""
    with contextlib.ExitStack() as stack:
        database = stack.enter_context(patroni_cluster())
        objects = stack.enter_context(swift_cluster())
        bucket = f"{objects.make_bucket('runs')}/team"
        environment = {**os.environ, **objects.environment}
        hubs = [
            SharedHub(database.address, bucket, folder / f"cache-{number}", environment)
            for number in range(2)
        ]
        opened = DrillHubs(database, objects, bucket, hubs, folder)
        for number, hub in enumerate(hubs):
            hub.port = free_port()
            stack.callback(hub.kill)
            opened.start_hub(number)
        yield opened
