"""A sender that notes each acknowledgement, so that somebody else can count what must be there.

``python -m tests.drills.sender RUN LEDGER RATE OVER URL...`` speaks the protocol itself. It asks
the next hub as soon as one fails, as a balancer would. When it is killed and started again, it goes
on where the hub says. A part has some hundred lines; their contents follow from their numbers. When
the file OVER is there, it sends the end of the run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from epochal.shipping.client import HubClient, HubError

PROJECT = "drill"
# The first line of a part is not one of a step.
LINES_PER_PART = 401
_FINISH = b'{"log":"finish","t":99.0,"status":"finished"}\n'
_PAUSE_S = 0.1
_REST_S = 0.1


class Noted(NamedTuple):
    """An acknowledgement: when it came, and up to which step."""

    t: float
    steps: int


def read_ledger(path: Path) -> list[Noted]:
    """What a sender has noted so far."""
    if not path.exists():
        return []
    lines = path.read_text().splitlines(keepends=True)
    pairs = (line.split() for line in lines if line.endswith("\n"))
    return [Noted(float(t), int(steps)) for t, steps in pairs]


def _stem(number: int) -> str:
    return f"loop.0001.{number:04d}"


def _line(run_id: str, part: int, ordinal: int) -> bytes:
    if not ordinal:
        head = {"log": "run", "t": 1.0, "v": 1, "id": run_id, "writer": "loop", "attempt": 1}
        return json.dumps({**head, "part": part}, separators=(",", ":")).encode() + b"\n"
    step = part * (LINES_PER_PART - 1) + ordinal - 1
    return b'{"log":"metrics","t":%d.5,"step":%d,"m":{"loss":%d.25}}\n' % (step, step, step)


@dataclass
class Sender:
    """Sends one run; ``part`` and ``have`` are where it goes on, None before a hub was asked."""

    run_id: str
    clients: Sequence[HubClient]
    ledger: int
    part: int | None = None
    have: int = 0

    def send(self, most_lines: int) -> None:
        """Send some lines to the first hub, and make the other one the first if it fails."""
        try:
            if self.part is None:
                self._ask()
            else:
                self._append(most_lines)
        except HubError:
            self.clients = [*self.clients[1:], self.clients[0]]
            self.part = None
            time.sleep(_PAUSE_S)

    def _ask(self) -> None:
        """Ask a hub where to go on."""
        identity = {"v": 1, "id": self.run_id, "name": self.run_id, "project": PROJECT}
        state = self.clients[0].register(self.run_id, {**identity, "created": 1.0})
        lines = {stem: part.lines for stem, part in state.parts.items()}
        self.part = max((int(stem.rpartition(".")[2]) for stem in lines), default=0)
        self.have = lines.get(_stem(self.part), 0)

    def _append(self, most_lines: int) -> None:
        assert self.part is not None
        if self.have >= LINES_PER_PART:
            self.part, self.have = self.part + 1, 0
        end = min(self.have + most_lines, LINES_PER_PART)
        block = b"".join(_line(self.run_id, self.part, one) for one in range(self.have, end))
        have = self.clients[0].append(self.run_id, _stem(self.part), first=self.have, lines=block)
        self._note(have)
        if have == end:
            self.have = have
        else:
            self.part = None

    def _note(self, have: int) -> None:
        """Write down an acknowledgement; the write survives the end of this process."""
        assert self.part is not None
        steps = self.part * (LINES_PER_PART - 1) + max(have - 1, 0)
        os.write(self.ledger, f"{time.time():.3f} {steps}\n".encode())

    def finish(self) -> None:
        """Send the end of the run, until a hub has it."""
        while True:
            while self.part is None or not self.have:
                self.send(1)
            try:
                last = self.clients[0].append(
                    self.run_id, _stem(self.part), first=self.have, lines=_FINISH
                )
            except HubError:
                self.send(1)
                continue
            if last == self.have + 1:
                return
            self.part = None


def main() -> int:
    """Send until it is over."""
    parser = argparse.ArgumentParser(prog="python -m tests.drills.sender")
    parser.add_argument("run")
    parser.add_argument("ledger")
    parser.add_argument("rate", type=float, help="lines a second")
    parser.add_argument("over", type=Path)
    parser.add_argument("urls", nargs="+")
    args = parser.parse_args()
    token = os.environ["EPOCHAL_HUB_TOKEN"]
    ledger = os.open(args.ledger, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    with contextlib.ExitStack() as stack:
        clients = [HubClient(url, token) for url in args.urls]
        for client in clients:
            stack.callback(client.close)
        sender = Sender(args.run, clients, ledger)
        sent_s = time.monotonic()
        while not args.over.exists():
            time.sleep(_REST_S)
            before_s, sent_s = sent_s, time.monotonic()
            sender.send(max(1, round((sent_s - before_s) * args.rate)))
        sender.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
