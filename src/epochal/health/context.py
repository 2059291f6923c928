"""The facts about the run that all rules share, such as which series plays which role."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from epochal.health.course import Course, LearningRate
from epochal.health.curve import Curve
from epochal.health.data_window import label_range
from epochal.health.families.family import UNKNOWN, Family
from epochal.health.finding import Finding
from epochal.health.phase import Phase
from epochal.records import ROLE_GUESSES, Record
from epochal.series.goals import is_evaluation as is_evaluation_name

_ACCURACIES = ("acc", "accuracy", "top1", "top_1", "top-1", "exact_match")
# The same names come with every record; a run with more of them is judged all the same.
_MOST_NAMES = 4096
_REWARDS = frozenset(
    "reward rewards return returns mean_reward reward_mean mean_return return_mean episode_reward "
    "episode_return ep_rew_mean ep_ret_mean rlhf_reward".split()
)
_CLASS_KEYS = ("num_classes", "num_labels", "n_classes", "nb_classes", "classes", "num_class")


@lru_cache(maxsize=_MOST_NAMES)
def is_evaluation(name: str, kind: str) -> bool:
    """Whether a series is of an evaluation, by its record's kind or its name."""
    if kind == "eval":
        return not name.endswith(("eval_tokens", "duration_ms", "tokens_per_second"))
    return is_evaluation_name(name)


@lru_cache(maxsize=64)
def evaluation_names(names: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """Return the series of an evaluation among those of a record: most records are alike."""
    return tuple(name for name in names if is_evaluation(name, kind))


@lru_cache(maxsize=_MOST_NAMES)
def is_accuracy(name: str) -> bool:
    """Whether a series is a share of right answers, by its name."""
    words = name.lower().replace(".", "/").split("/")[-1]
    return words in _ACCURACIES or any(part in ("acc", "accuracy") for part in words.split("_"))


@lru_cache(maxsize=64)
def reward_name(names: tuple[str, ...], kind: str) -> str | None:
    """Return the series of the whole reward in training among those of a record, by its name.

    Other names with a reward in them are of its parts, its deviation or of pairs of answers.
    """
    for name in names:
        words = name.lower().replace(".", "/").removesuffix("/mean").split("/")
        if words[-1] in _REWARDS and not is_evaluation(name, kind):
            return name
    return None


def accuracy_of(value: float, classes: int | None) -> float | None:
    """An accuracy as a share of 1; None where it might as well be per cent.

    Programs log either. Above 1 it is per cent; next to 100/classes it may be a guess in per cent.
    """
    if value > 1:
        return value / 100
    if classes is not None and abs(value * classes / 100 - 1) < 0.3:
        return None
    return value


def num_classes(config: Mapping[str, Any]) -> int | None:
    """The number of classes in the configuration; None if it is not there."""
    for value in configured(config, _CLASS_KEYS):
        count = len(value) if isinstance(value, (list, tuple, dict)) else value
        if isinstance(count, int) and not isinstance(count, bool) and count >= 2:
            return count
    return None


def configured(
    config: Mapping[str, Any], keys: Collection[str] = (), *, part: str | None = None
) -> Iterator[Any]:
    """The values of some keys in a configuration: those of an object before those inside it.

    ``keys`` are last parts of names; ``part`` is anything in one, such as ``optim``.
    """
    for key, value in config.items():
        name = str(key).lower()
        if name.rsplit(".", 1)[-1] in keys or (part is not None and part in name):
            yield value
    for value in config.values():
        if isinstance(value, Mapping):
            yield from configured(value, keys, part=part)


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
    loss. A rule about something else counts its own first points. ``family`` is what kind of
    training it is; ``family.loss_falls`` is False where a loss need not fall.
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
    family: Family = UNKNOWN
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


# The roles whose series are followed as curves, point by point.
CURVE_ROLES = ("loss", "eval_loss", "norm")
_GUESSED = frozenset(name for guesses in ROLE_GUESSES.values() for name in guesses)


class Roles:
    """Role by defined meaning, else by the first guess among the names met so far.

    The same choice as that of a finished run's reader, except that a better name that turns up late
    takes its role from then on only.
    """

    def __init__(self) -> None:
        self.names: dict[str, str] = {}  # series name by role
        self._met: set[str] = set()
        self._defined: dict[str, str] = {}  # role by series name

    def define(self, record: Record) -> None:
        """Take in a ``define`` record."""
        name, role = record.get("name"), record.get("role")
        if isinstance(name, str) and isinstance(role, str):
            self._defined[name] = role
            self._resolve()

    def meet(self, values: Mapping[str, Any]) -> bool:
        """Take in the series names of one record; returns whether one of them is new."""
        if values.keys() <= self._met:
            return False
        new = values.keys() - self._met
        self._met |= new
        if not _GUESSED.isdisjoint(new) or not self._defined.keys().isdisjoint(new):
            self._resolve()
        return True

    def _resolve(self) -> None:
        taken = {name: role for name, role in self._defined.items() if name in self._met}
        for role, guesses in ROLE_GUESSES.items():
            if role in taken.values():
                continue
            guess = next((g for g in guesses if g in self._met and g not in taken), None)
            if guess is not None:
                taken[guess] = role
        self.names = {}
        for name, role in taken.items():
            self.names.setdefault(role, name)
