"""The kinds of trainings, and which of them rules may be tuned on.

Kinds of the tuning half and of the unseen half have been looked at while rules were tuned. The
blind kinds have not: rules and the table of accepted findings are older. Once a rule is changed
because of a blind kind, that kind is one of the unseen half. Each later group of blind kinds is for
a verdict on rules that the groups before it have been judged by. The rates of the last group were
chosen by experiment (`rates.py`) before any rule saw one of its trainings.
"""

from __future__ import annotations

from benchmarks.clinic.kinds import (
    actor_critic,
    attention,
    choices,
    embeddings,
    experts,
    flow,
    generative,
    horizons,
    language,
    laws,
    meeting,
    multitask,
    places,
    play,
    ranks,
    restoring,
    sequences,
    signals,
    tables,
    teaching,
    transfer,
    vision,
)
from benchmarks.clinic.task import Kind

KINDS: dict[str, Kind] = {
    kind.name: kind
    for room in (
        *(tables, vision, language, generative, play, transfer, experts, ranks),
        *(attention, sequences, embeddings, flow, multitask, actor_critic),  # blind
        *(teaching, signals, restoring, choices),  # blind2
        *(places, laws, horizons, meeting),  # blind3
    )
    for kind in room.KINDS
}
