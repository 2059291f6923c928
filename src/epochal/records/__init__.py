"""What a record is: its kinds and fields, values, numbers as text, and redaction of secrets.

``docs/explanation/journal.md`` is the specification; its tables are generated from the
declarations here.
"""

from epochal.records.kind import ROLES, Axis, Event, Field, Kind, Record
from epochal.records.kinds import DENSE_KINDS, KINDS, LOG_KINDS, declared_series
from epochal.records.kinds.machine import ALLOCATOR_PLACES
from epochal.records.series import (
    FORMAT_VERSION,
    GUESSED_ROLE,
    HEARTBEAT_EVERY_S,
    ROLE_GUESSES,
    Position,
    axis_of,
    finite,
    moment_of,
    numbers_of,
    scalars_by_name,
    scalars_of,
    stored_numbers_of,
    unit_of,
    whole_number,
    word_key,
)

__all__ = [
    "ALLOCATOR_PLACES",
    "DENSE_KINDS",
    "FORMAT_VERSION",
    "GUESSED_ROLE",
    "HEARTBEAT_EVERY_S",
    "KINDS",
    "LOG_KINDS",
    "ROLES",
    "ROLE_GUESSES",
    "Axis",
    "Event",
    "Field",
    "Kind",
    "Position",
    "Record",
    "axis_of",
    "declared_series",
    "finite",
    "moment_of",
    "numbers_of",
    "scalars_by_name",
    "scalars_of",
    "stored_numbers_of",
    "unit_of",
    "whole_number",
    "word_key",
]
