"""The kinds of trainings, and which of them rules may be tuned on.

Kinds of the tuning half and of the unseen half have been looked at while rules were tuned. The
blind kinds have not: rules and the table of accepted findings are older. Once a rule is changed
because of a blind kind, that kind is one of the unseen half, as those of two earlier groups are.
The rates of the last six groups were chosen by experiment (`rates.py`) before any rule saw one of
their trainings.
"""

from __future__ import annotations

from benchmarks.clinic.kinds import (
    acting,
    actor_critic,
    attention,
    business,
    choices,
    choosing,
    deciding,
    drawing,
    embeddings,
    experts,
    flow,
    generative,
    glances,
    horizons,
    instruments,
    language,
    laws,
    letters,
    machines,
    making,
    measuring,
    meeting,
    motion,
    multitask,
    people,
    phrases,
    pictures,
    places,
    play,
    policies,
    ranks,
    reading,
    records,
    restoring,
    seeing,
    selfplay,
    sensors,
    sentences,
    sequences,
    signals,
    steering,
    structure,
    surveys,
    tables,
    teaching,
    trading,
    transfer,
    viewing,
    vision,
    wards,
    wording,
    writing,
)
from benchmarks.clinic.task import Kind

ROOMS = (
    *(tables, vision, language, generative, play, transfer, experts, ranks),
    *(attention, sequences, embeddings, flow, multitask, actor_critic),  # blind until a verdict
    *(teaching, signals, restoring, choices),  # blind until the next one
    *(places, laws, horizons, meeting),  # blind until a third one
    *(pictures, writing, sensors, structure),  # blind until a fourth one
    *(glances, people, motion),  # blind until a fifth one
    *(seeing, sentences, business, acting, selfplay),  # blind until a sixth one
    *(making, instruments, reading, deciding),  # blind until a seventh one
    *(viewing, phrases, records, choosing),  # blind until an eighth one
    *(drawing, wording, measuring, steering),  # blind until a ninth one
    *(surveys, letters, machines, policies, wards, trading),  # blind
)
KINDS: dict[str, Kind] = {kind.name: kind for room in ROOMS for kind in room.KINDS}
