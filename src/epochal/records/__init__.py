"""What a record is: its kinds and fields, values, numbers as text, and redaction of secrets.

``docs/explanation/journal.md`` is the specification; its tables are generated from the
declarations here.
"""

from epochal.records.kind import ROLES as ROLES
from epochal.records.kind import Axis as Axis
from epochal.records.kind import Event as Event
from epochal.records.kind import Field as Field
from epochal.records.kind import Kind as Kind
from epochal.records.kind import Record as Record
from epochal.records.kinds import DENSE_KINDS as DENSE_KINDS
from epochal.records.kinds import KINDS as KINDS
from epochal.records.kinds import LOG_KINDS as LOG_KINDS
from epochal.records.kinds import declared_series as declared_series
from epochal.records.kinds.machine import ALLOCATOR_PLACES as ALLOCATOR_PLACES
from epochal.records.series import FORMAT_VERSION as FORMAT_VERSION
from epochal.records.series import GUESSED_ROLE as GUESSED_ROLE
from epochal.records.series import HEARTBEAT_EVERY_S as HEARTBEAT_EVERY_S
from epochal.records.series import ROLE_GUESSES as ROLE_GUESSES
from epochal.records.series import Position as Position
from epochal.records.series import axis_of as axis_of
from epochal.records.series import finite as finite
from epochal.records.series import moment_of as moment_of
from epochal.records.series import numbers_of as numbers_of
from epochal.records.series import scalars_by_name as scalars_by_name
from epochal.records.series import scalars_of as scalars_of
from epochal.records.series import stored_numbers_of as stored_numbers_of
from epochal.records.series import unit_of as unit_of
from epochal.records.series import whole_number as whole_number
from epochal.records.series import word_key as word_key
