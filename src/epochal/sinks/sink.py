"""The protocol of a sink: it receives the records of a run in order, each once.

A sink runs outside the training process. ``forward.py`` opens it with the facts of the run and its
last state, passes batches of records, and closes it with the status of the run. ``sinks.json`` in
the run's folder stores its state and position. A sink that failed is discarded, and a new one is
opened from the last state.

    open(context)    start, or continue from ``context.state``; False: the sent records are gone
    write(batch)     send these records; after a crash the same batch may come again
    flush()          make the sent records durable; returns the state to continue from
    close(status)    the run ended with this status (None: unknown, or not yet); returns the state

Any method may raise or be slow: other sinks and the training continue. A new sink is one file in
``members/`` with its options, and one line in the conformance test. The training process loads that
file to check options, so a sink imports its tracker in ``open``.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from epochal.errors import EpochalError
from epochal.journal.layout import RunFolder
from epochal.records import Position, Record


class SinkUnavailableError(EpochalError):
    """A sink cannot be used as things are: trying again will not help."""


class SinkBusyError(EpochalError):
    """Another process is sending this run to the same sink."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """What a sink can be told: one field per option, each a text or None.

    The names are flat, as people write them in a configuration file (``wandb_project``).
    """


def option(*, is_path: bool = False, starts_sink: bool = False) -> Any:
    """A field of :class:`SinkOptions` that is None until it is given.

    A path is made absolute when it is read. An option that starts its sink needs no ``report_to``.
    """
    return field(default=None, metadata={"is_path": is_path, "starts_sink": starts_sink})


@dataclass(frozen=True, slots=True)
class Entry:
    """One record on its way out, with what a sink would otherwise have to remember.

    ``step`` is the record's own, else the last one of the training; of an epoch, its number.
    ``node`` names the machine of telemetry that is not rank 0's.
    """

    position: Position
    record: Record
    step: int
    node: str | None = None

    @property
    def kind(self) -> str:
        """The kind of the record."""
        return str(self.record["log"])

    @property
    def t(self) -> float:
        """When it was logged, in Unix seconds."""
        moment = self.record.get("t")
        return float(moment) if isinstance(moment, (int, float)) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What a sink is opened with; ``identity`` is the run's ``run.json``."""

    folder: RunFolder
    identity: Mapping[str, Any]
    options: Any
    state: Mapping[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> dict[str, Any]:
        """The run's configuration."""
        config = self.identity.get("config")
        return dict(config) if isinstance(config, Mapping) else {}

    @property
    def created(self) -> float:
        """When the run was made, in Unix seconds; 0 where that is not known."""
        created = self.identity.get("created")
        return float(created) if isinstance(created, (int, float)) else 0.0

    def fact(self, name: str, otherwise: str) -> str:
        """A text of the run's identity."""
        value = self.identity.get(name)
        return value if isinstance(value, str) and value else otherwise


class Sink(ABC):
    """Something that takes a run's records; used by one thread at a time.

    ``name`` is what ``report_to`` takes; ``options`` declares what the sink can be told.
    """

    name: ClassVar[str]
    options: ClassVar[type[SinkOptions]] = SinkOptions

    @abstractmethod
    def open(self, context: SinkContext) -> bool:
        """Begin or go on; False when nothing of what was sent before is left."""

    @abstractmethod
    def write(self, batch: Sequence[Entry]) -> None:
        """Take a batch of records."""

    @abstractmethod
    def flush(self) -> dict[str, Any]:
        """Make the sent records durable; returns the state for the next ``open``."""

    @abstractmethod
    def close(self, status: str | None) -> dict[str, Any]:
        """End; ``status`` as in the run's ``finish`` record. The state, as ``flush`` gives it."""


def require(package: str, *, extra: str) -> Any:
    """Import a tracker's own package, or say how to install it."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise SinkUnavailableError(
            f"{extra!r} needs the package {package!r}, which cannot be imported ({error}): "
            f"pip install 'epochal[{extra}]'."
        ) from error


def flattened(config: Mapping[str, Any], *, prefix: str = "") -> dict[str, Any]:
    """A configuration as one level with dotted names; lists stay what they are."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            flat.update(flattened(value, prefix=f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat
