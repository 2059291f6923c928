"""How long nothing was acknowledged, or could be read, while something went wrong."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

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
class ReadProbe:
    """Reads something all the time, from the next hub where one fails; notes each success."""

    clients: Sequence[HubClient]
    read: Callable[[HubClient], object]
    times: list[float] = field(default_factory=list)

    def work(self, stopping: threading.Event) -> None:
        number = 0
        while not stopping.is_set():
            try:
                self.read(self.clients[number % len(self.clients)])
            except HubError:
                number += 1
                stopping.wait(_EVERY_S / 4)
                continue
            self.times.append(time.time())
            stopping.wait(_EVERY_S)


@contextlib.contextmanager
def read_probe(
    urls: Sequence[str], token: str, read: Callable[[HubClient], object]
) -> Iterator[ReadProbe]:
    """A probe in a thread, while the block runs."""
    stopping = threading.Event()
    probe = ReadProbe([HubClient(url, token, timeout_s=_TIMEOUT_S) for url in urls], read)
    thread = threading.Thread(target=probe.work, args=(stopping,), daemon=True)
    thread.start()
    try:
        yield probe
    finally:
        stopping.set()
        thread.join()
        for client in probe.clients:
            client.close()
