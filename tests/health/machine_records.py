"""Records of made-up runs for the rules on machine, layers and experts, and a way to feed them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.rule import Rule
from epochal.records import Record

GIB = 1024.0**3
START = 1_700_000_000.0
Entry = Record | tuple[int, Record]


def opened(
    rule: type[Rule], entries: Iterable[Entry], *, config: Mapping[str, Any] | None = None
) -> list[Finding]:
    """The findings a rule opens over some records; a pair is a rank and its record."""
    return [finding for finding in updated(rule, entries, config=config) if finding.state == "open"]


def updated(
    rule: type[Rule], entries: Iterable[Entry], *, config: Mapping[str, Any] | None = None
) -> list[Finding]:
    """Everything a rule says over some records: opened, grown graver, closed.

    Fails with the traceback if the rule raised, which a run would only record.
    """
    health = Health(rules=[rule], config=config)
    found: list[Finding] = []
    for entry in entries:
        rank, record = entry if isinstance(entry, tuple) else (0, entry)
        is_telemetry = record["log"] in ("gpu", "system") or record.get("name") == "gpu-throttle"
        writer = "telemetry-node" if is_telemetry else "loop" if rank == 0 else f"rank-{rank:04d}"
        found.extend(health.feed(record, rank=rank, writer=writer))
    assert not health.guard.faults, next(iter(health.guard.faults.values())).traceback
    return found


def step(number: int, *, t: float | None = None, **fields: Any) -> Record:
    """A step record, one second after the last unless told."""
    return {"log": "step", "t": START + number if t is None else t, "step": number, **fields}


def metrics(number: int, values: Mapping[str, float]) -> Record:
    """A record of free metrics."""
    return {"log": "metrics", "t": START + number, "step": number, "m": dict(values)}


def event(name: str, **fields: Any) -> Record:
    """An event of the training, as a watched model writes them."""
    return {"log": "event", "t": START, "name": name, **fields}


def layers(number: int, family: str, values: Sequence[float]) -> dict[str, float]:
    """The values of one family of series (``grads/{}/norm``) for the layers a, b, c, …"""
    return {family.format("abcdefgh"[place]): value for place, value in enumerate(values)}


def gpu(number: int, **fields: Any) -> Record:
    """A GPU's record of the companion, the ``number``th of one each ten seconds."""
    return {"log": "gpu", "t": START + 10 * number, "id": 0, "interval_s": 10.0, **fields}


def system(number: int, **fields: Any) -> Record:
    """A host's record of the companion, the ``number``th of one each ten seconds."""
    return {"log": "system", "t": START + 10 * number, "interval_s": 10.0, **fields}


def noisy(level: float, share: float, count: int, *, seed: int = 0) -> list[float]:
    """A level with normal noise, a share of it."""
    chance = random.Random(seed)
    return [level * (1 + chance.gauss(0, share)) for _ in range(count)]
