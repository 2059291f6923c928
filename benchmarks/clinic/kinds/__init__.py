"""The kinds of trainings, and which half of them rules may be tuned on."""

from __future__ import annotations

from benchmarks.clinic.kinds import (
    experts,
    generative,
    language,
    play,
    ranks,
    tables,
    transfer,
    vision,
)
from benchmarks.clinic.task import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for room in (tables, vision, language, generative, play, transfer, experts, ranks)
    for kind in room.KINDS
}
