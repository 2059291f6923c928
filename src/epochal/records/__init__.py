"""What a record is: its kinds and their fields, its place in a journal, and the series in it.

``spec/journal.md`` is the specification; this package is the part of it that programs need.
"""

from epochal.records.series import (
    FORMAT_VERSION,
    HEARTBEAT_EVERY_S,
    KINDS,
    ROLE_GUESSES,
    ROLES,
    Axis,
    Kind,
    Position,
    Record,
    axis_of,
    finite,
    moment_of,
    numbers_of,
    scalars_of,
    word_key,
)

__all__ = [
    "FORMAT_VERSION",
    "HEARTBEAT_EVERY_S",
    "KINDS",
    "ROLES",
    "ROLE_GUESSES",
    "Axis",
    "Kind",
    "Position",
    "Record",
    "axis_of",
    "finite",
    "moment_of",
    "numbers_of",
    "scalars_of",
    "word_key",
]
