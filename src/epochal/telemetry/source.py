"""What a telemetry source is: something on the machine that may be there, and can be read.

One file per source, one frozen dataclass per noun it reads. The rules every source keeps, and that
``tests/conformance/test_source.py`` checks:

- ``probe()`` says whether the thing is there. It never raises for absence; the reason is then in
  ``why_absent``, and nobody is told unless they ask.
- ``sample()`` gives one dataclass per thing read (one host, several GPUs), and an empty tuple where
  ``probe()`` is false. A field that cannot be read is ``None``. Rates and shares cover the time
  since the previous ``sample()``; the first has none, or the moment's where the device keeps one.
- ``close()`` gives back what was taken, may be called twice, and ends the source.

``metrics`` declares the numbers of a sample as a table, so that whoever writes, labels or plots
them needs to know nothing else. A source belongs to one thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeVar

from epochal.errors import UsageError
from epochal.records import Field

# A reading takes milliseconds, the first of eight GPUs some seconds: one that takes longer hangs.
SOURCE_BUDGET_S = 10.0

SampleT_co = TypeVar("SampleT_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Metric:
    """One line of a source's table: the sample's attribute, and the field it becomes.

    ``steady`` marks what hardly moves or only counts up: of several samples the newest says it all.
    ``averaged`` marks what a full reading gives as a mean since the last one.
    """

    attribute: str
    field: Field
    steady: bool = False
    averaged: bool = False

    @property
    def name(self) -> str:
        """The name of the record's field."""
        return self.field.name

    @property
    def unit(self) -> str:
        """The unit that the field is declared in."""
        return self.field.unit


class Source(Protocol[SampleT_co]):
    """Something on the machine that can be read again and again."""

    @property
    def kind(self) -> str:
        """The kind of record its samples become."""

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """The table of the fields of a sample."""

    @property
    def why_absent(self) -> str | None:
        """Why ``probe()`` last returned False, in one sentence; else ``None``."""

    def probe(self) -> bool:
        """Return whether the source is there."""

    def sample(self) -> tuple[SampleT_co, ...]:
        """Read it now; empty where it is absent. A closed source raises ``UsageError``."""

    def close(self) -> None:
        """Release everything; a second call does nothing."""


def closed_error(source: object) -> UsageError:
    """The error every source raises when it is sampled after ``close()``."""
    return UsageError(f"{type(source).__name__} is closed: make a new one to sample again")
