"""How long nothing was acknowledged, or could be read, while something went wrong."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import psycopg

from epochal.shipping.client import HubClient, HubError

_EVERY_S = 0.2
_TIMEOUT_S = 10.0


def longest_gap_s(times: Sequence[float], begin: float, end: float) -> float:
    """The longest time without an event that began before a period ended, and ended within it."""
    inside = [t for t in times if begin <= t <= end]
    before = max((t for t in times if t < begin), default=begin)
    marks = [before, *inside, end]
    return max(later - earlier for earlier, later in itertools.pairwise(marks))


@dataclass
class Probe:
    """Does something all the time, in the next way where one fails; notes each success."""

    ways: Sequence[Callable[[], object]]
    errors: tuple[type[Exception], ...]
    times: list[float] = field(default_factory=list)

    def work(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.is_set():
            try:
                self.ways[number % len(self.ways)]()
            except self.errors:
                number += 1
                stopping.wait(_EVERY_S / 4)
                continue
            self.times.append(time.time())
            stopping.wait(_EVERY_S)


@contextlib.contextmanager
def read_probe(
    urls: Sequence[str], token: str, read: Callable[[HubClient], object]
) -> Iterator[Probe]:
    """A probe that reads from the hubs, while the block runs."""
    with contextlib.ExitStack() as stack:
        clients = [HubClient(url, token, timeout_s=_TIMEOUT_S) for url in urls]
        for client in clients:
            stack.callback(client.close)
        ways = [partial(read, client) for client in clients]
        yield stack.enter_context(_working(Probe(ways, (HubError,))))


@contextlib.contextmanager
def write_probe(address: str) -> Iterator[Probe]:
    """A probe that writes to the database without a hub, while the block runs."""

    def write() -> None:
        with psycopg.connect(address, connect_timeout=2, autocommit=True) as connection:
            connection.execute("create table if not exists probe (t timestamptz)")
            connection.execute("insert into probe values (now())")

    with _working(Probe([write], (psycopg.Error,))) as probe:
        yield probe


@contextlib.contextmanager
def _working(probe: Probe) -> Iterator[Probe]:
    stopping = threading.Event()
    thread = threading.Thread(target=probe.work, args=(stopping,), daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        stopping.set()
        thread.join()
