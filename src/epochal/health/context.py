"""The facts about the run that all rules share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from epochal.health.course import Course
from epochal.health.curve import Curve
from epochal.health.data_window import label_range
from epochal.health.evaluations import num_classes
from epochal.health.finding import Finding
from epochal.health.phase import Phase
from epochal.health.rate import LearningRate
from epochal.records import Record

# Kinds of which the newest record is kept for rules to look up.
FACT_KINDS = frozenset({"run", "sol", "gpu-model", "dataset", "epoch", "finish", "resume"})
# Events about the whole run that are kept in the same way, by their name.
FACT_EVENTS = frozenset({"optimizer", "model"})
# How far the first loss may be from that of a guess among the classes.
_NEAR_GUESS = 0.1


@dataclass(slots=True)
class Context:
    """The run so far, kept by the engine; rules read it and never write to it.

    ``step`` is the newest step of rank 0, ``last`` the newest finite value of each role there.
    ``hosts`` has the name of each rank's machine, from the first record of the rank.
    ``facts`` has the newest record of each of ``FACT_KINDS`` and ``FACT_EVENTS``, and the newest
    ``data`` record with labels; ``gpus`` the
    ``gpu-model`` record by GPU id. ``open`` has the open findings by rule and subject. ``curves``
    are rank 0's, by role; ``updated_curves`` those that the record at hand has a point of.
    ``course`` describes the loss. Times are Unix seconds.

    ``phase`` is judged from the training loss alone. It is "warm-up" for the first 50 losses
    (``phase.py``), whatever the length of the run, and stays so in a run without a
    loss. A rule about something else counts its own first points. ``is_game``: the run has rewards,
    or the losses of two players, so that its loss need not fall.
    """

    config: dict[str, Any] = field(default_factory=dict)
    role_names: Mapping[str, str] = field(default_factory=dict)
    step: int | None = None
    first_step: int | None = None
    started: float | None = None
    now: float = 0.0
    attempt: int = 1
    resumed_at: int | None = None
    last: dict[str, float] = field(default_factory=dict)
    facts: dict[str, Record] = field(default_factory=dict)
    gpus: dict[int, Record] = field(default_factory=dict)
    ranks: set[int] = field(default_factory=set)
    hosts: dict[int, str] = field(default_factory=dict)
    open: dict[tuple[str, str], Finding] = field(default_factory=dict)
    phase: Phase = "warm-up"
    is_game: bool = False
    curves: dict[str, Curve] = field(default_factory=dict)
    updated_curves: dict[str, Curve] = field(default_factory=dict)
    course: Course | None = None
    rate: LearningRate = field(default_factory=LearningRate)

    @property
    def is_resumed(self) -> bool:
        """Whether an older attempt came before this one."""
        return self.attempt > 1 or self.resumed_at is not None

    @property
    def num_outputs(self) -> int | None:
        """The number of classes in the configuration, or of outputs of a watched model."""
        outputs = self.facts.get("model", {}).get("outputs")
        return num_classes(self.config) or (outputs if isinstance(outputs, int) else None)

    @property
    def num_classes(self) -> int | None:
        """The number of classes; None if it is not known, or the task may be another.

        It is in the configuration, or it is the number of the model's outputs or of the labels. A
        regression has outputs as well, so these two must agree, or training must start from the
        loss of a guess.
        """
        if (known := num_classes(self.config)) is not None:
            return known
        labels, loss = label_range(self.facts.get("data", {})), self.curves.get("loss")
        counts = [self.num_outputs or 0, 0 if labels is None else labels[1] + 1]
        start = math.inf if loss is None or loss.start is None else loss.start
        for count in counts:
            if count > 1 and abs(start / math.log(count) - 1) < _NEAR_GUESS:
                return count
        return counts[0] if counts[0] == counts[1] > 1 else None

    def rank_name(self, rank: int) -> str:
        """Name a rank in a sentence: "rank 3 on node-b", or "rank 3" if there is a single host."""
        return " on ".join((f"rank {rank}", *self._host(rank).values()))

    def of_rank(self, rank: int) -> str:
        """Return " of rank 3 on node-b" for a sentence; nothing in a run of one rank."""
        return f" of {self.rank_name(rank)}" if self.rank_evidence(rank) else ""

    def rank_evidence(self, rank: int) -> dict[str, Any]:
        """The rank, and its host if the run has several; nothing in a run of one rank."""
        is_one_of_several = rank > 0 or (rank == 0 and len(self.ranks - {-1}) > 1)
        return {"rank": rank, **self._host(rank)} if is_one_of_several else {}

    def _host(self, rank: int) -> dict[str, str]:
        is_named = rank in self.hosts and len(set(self.hosts.values())) > 1
        return {"host": self.hosts[rank]} if is_named else {}

    def is_open(self, rule: str, subject: str) -> bool:
        """Whether a rule has an open finding about a subject."""
        return (rule, subject) in self.open

    def has_open(self, rule: str) -> bool:
        """Whether a rule has an open finding, of any subject."""
        return any(name == rule for name, _ in self.open)

    def take(self, record: Record, kind: str) -> None:
        """Store the facts of a record that concern the whole run."""
        if kind == "run" and isinstance(record.get("config"), dict):
            self.config.update(record["config"])
        elif kind == "option" and "name" in record:
            self.config[str(record["name"])] = record.get("value")
        elif kind == "gpu-model":
            gpu = record.get("id", 0)
            self.gpus[gpu if isinstance(gpu, int) else 0] = record
        if kind in FACT_KINDS or (kind == "data" and "label_range" in record):
            self.facts[kind] = record
        elif kind == "event" and record.get("name") in FACT_EVENTS:
            self.facts[str(record["name"])] = record
