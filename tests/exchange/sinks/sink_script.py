"""Sends a run to one sink; run as a script, in a tracker's own environment."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from pathlib import Path
from typing import Any

from epochal.exchange.sinks.registry import make_sink
from epochal.exchange.sinks.reporting import options_from
from epochal.exchange.sinks.sink import Entry, Sink, SinkContext
from epochal.exchange.sinks.worker import Forwarding
from epochal.journal.layout import RunFolder


class Crashing(Sink):
    """A sink whose process dies after the first batch, before its position is stored."""

    name = "crashing"

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        type(self).holds = sink.holds
        self._is_sending = False

    def open(self, context: SinkContext) -> bool:
        return self._sink.open(context)

    def write(self, entry: Entry) -> None:
        self._is_sending = True
        self._sink.write(entry)

    def flush(self) -> dict[str, Any]:
        state = self._sink.flush()
        if self._is_sending:
            os._exit(9)
        return state

    def close(self, status: str | None) -> dict[str, Any]:
        return self._sink.close(status)


def main() -> None:
    asked = json.loads(sys.argv[1])
    make = (lambda name: Crashing(make_sink(name))) if asked["crash"] else make_sink
    reporting = options_from({"report_to": asked["sink"], **asked["options"]})
    forwarding = Forwarding(RunFolder(Path(asked["folder"])), reporting, tries=1, make=make)
    forwarding.finish()
    forwarding.start()
    forwarding.wait()
    sys.stdout.write(
        json.dumps(dataclasses.asdict(forwarding.progress_by_sink()[asked["sink"]])) + "\n"
    )


if __name__ == "__main__":
    main()
