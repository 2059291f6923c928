"""The base class of rules: a rule sees records and returns verdicts, which become findings."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, TypeVar, get_args

import msgspec

from epochal.health.finding import Severity, fill
from epochal.health.observation import Observation
from epochal.journal.diagnosis import Certainty

if TYPE_CHECKING:
    from epochal.health.context import Context


T = TypeVar("T", bound="RuleThresholds")


class RuleThresholds(msgspec.Struct, forbid_unknown_fields=True):
    """The thresholds of one rule.

    A rule declares its own in a nested ``class Thresholds(RuleThresholds)``; each field has a type,
    a default and a comment with its reason. Windows are in logged points, and shares are of 1,
    unless a name says otherwise.
    """


def with_values(kind: type[T], values: Mapping[str, Any]) -> T:
    """A rule's thresholds with some replaced by name.

    Raises ``ValueError`` for a name that the rule does not declare or a value of another type.
    """
    try:
        return msgspec.convert(dict(values), kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"{kind.__qualname__}: {error}") from error


def declared(thresholds: RuleThresholds) -> dict[str, Any]:
    """Return the values of a rule's thresholds by name."""
    return msgspec.structs.asdict(thresholds)


# What a rule is about, in the order in which rules look at a record: a rule that an error silences
# comes after the rule that finds the error.
Group = Literal[
    "values",
    "loss",
    "gradients",
    "learning rate",
    "evaluation",
    "data",
    "layers",
    "speed",
    "memory",
    "experts",
    "operation",
]
GROUPS: tuple[Group, ...] = get_args(Group)

# What a fault leads to. A rule that finds a cause declares its effects; a rule that sees an effect
# reports nothing while such a cause is open as a warning or an error.
Effect = Literal[
    "lost values",  # NaN and what is computed from it
    "divergence",  # the loss has risen, and with it everything else
    "instability",  # losses, gradients and weights grow
    "standstill",  # nothing falls and nothing moves
    "poor evaluation",  # evaluations are not those of the model that was trained
    "memorising",  # training is far better than evaluation
    "implausible results",  # losses and scores that are too good
    "idle layers",  # parts of the model have no gradient or do not change
    "unread gradients",  # no optimizer reads or resets them, so that their norm grows
    "slow steps",
]


class Message(NamedTuple):
    """One thing that a rule can report; sentence and advice are templates.

    A placeholder such as ``{level}`` or ``{ratio:times}`` names a piece of evidence or a threshold
    of the rule. ``text.py`` has the formats. ``certainty`` is that of the rule unless given.
    """

    sentence: str
    advice: str
    severity: Severity = "warning"
    certainty: Certainty | None = None


# The extent of a verdict that is certain by itself, such as that a silent run logs again.
CONCLUSIVE = math.inf


class Verdict(NamedTuple):
    """Whether a rule sees its fault in one subject now.

    ``subject`` is the series (or GPU, rank, layer) it is about: a rule has at most one open finding
    for each. Sentence, evidence and advice matter only where ``active``. ``steps`` is where the
    fault lies; without it, the steps from the first active verdict to the last.

    ``extent`` is the amount of evidence, in a unit of the rule such as points, evaluations, samples
    or seconds. For an active verdict it is everything that the verdict is based on. For another one
    it is what has come since the last verdict. A finding is resolved once verdicts that are not
    active add up to the extent that opened it. What proves nothing gets no verdict.
    """

    subject: str
    active: bool
    severity: Severity = "warning"
    sentence: str = ""
    steps: tuple[int, int] | None = None
    evidence: Mapping[str, float | int | str] = MappingProxyType({})
    advice: str = ""
    extent: float = 1.0
    certainty: Certainty | None = None


class Rule(ABC):
    """One kind of fault.

    A rule keeps its own history, begins it in ``reset``, and returns a verdict when it has enough
    data. Without a verdict,
    an open finding stays open. The same records must give the same verdicts: a rule uses neither
    the clock nor random numbers.
    """

    name: ClassVar[str]
    group: ClassVar[Group]
    # What people read: on the page, and in ``docs/reference/findings.md``.
    # ``healthy`` and ``reports`` are templates with the rule's thresholds.
    meaning: ClassVar[str]  # what is behind it: the first paragraph of the class's docstring
    healthy: ClassVar[str]  # the range in which a run is well
    reports: ClassVar[Mapping[Severity, str]]  # when a finding has which severity
    messages: ClassVar[Mapping[str, Message]] = MappingProxyType({})
    needs: ClassVar[str] = ""  # the values it looks at, where they are not in every run
    kinds: ClassVar[frozenset[str]]  # the record kinds it wants; empty for all
    every_rank: ClassVar[bool] = True  # False: only what rank 0 and its children logged
    # Whether it gets extremes: of records that come too fast to see all, those with the smallest
    # and largest loss, evaluation loss and gradient norm. They may open a finding, and close none.
    wants_extremes: ClassVar[bool] = False
    # A piece of evidence of which an open finding keeps the largest value, as a spike does.
    peak: ClassVar[str] = ""
    patience: int = 1  # active verdicts in a row before a finding opens
    release: int = 1  # verdicts in a row that are not active before it closes, at the least
    cooldown_steps: int = 0  # for so many steps after closing it is not opened again
    # What its findings rest on: an exact fact of the program, a measurement against a bound, or a
    # guess from the shape of curves. A wrong guess costs more than none, so facts are ranked first.
    certainty: ClassVar[Certainty] = "measured"
    # What would confirm or refute its finding; and by rule, what tells apart that cause and this.
    experiment: ClassVar[str] = ""
    apart: ClassVar[Mapping[str, str]] = MappingProxyType({})

    # Its numbers: a rule that has any declares a nested class of this name, and annotates
    # ``thresholds`` with it.
    Thresholds: ClassVar[type[RuleThresholds]] = RuleThresholds
    thresholds: RuleThresholds
    # What its fault leads to, and of which effects it is a symptom.
    causes: ClassVar[frozenset[Effect]] = frozenset()
    symptom_of: ClassVar[frozenset[Effect]] = frozenset()
    # The families of trainings that it does not hold for, and the only ones if it names any.
    not_in: ClassVar[frozenset[str]] = frozenset()
    only_in: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls) -> None:
        cls.meaning = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())

    def __init__(self, thresholds: RuleThresholds) -> None:
        self.thresholds = thresholds
        self.reset()

    @classmethod
    def holds_in(cls, family: str) -> bool:
        """Return True if the rule judges trainings of a family."""
        return family not in cls.not_in and (not cls.only_in or family in cls.only_in)

    def reset(self) -> None:  # noqa: B027
        """Set what the rule remembers to what it is at the start of a run."""

    @abstractmethod
    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        """Process one record of the wanted kinds; returns verdicts."""

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        """Check by the clock alone, in Unix seconds; called about once a second for a live run."""
        return ()

    def forget_from(self, step: int, context: Context) -> None:
        """A new attempt takes over at ``step``: forget what lies there and after, here all."""
        self.reset()

    def finish(self, context: Context) -> Iterable[Verdict]:
        """Report what only the end of the run shows."""
        return ()

    def found(
        self,
        message: str,
        subject: str,
        *,
        steps: tuple[int, int] | None = None,
        severity: Severity | None = None,
        words: Mapping[str, str] = MappingProxyType({}),
        extent: float = 1.0,
        **evidence: float | int | str,
    ) -> Verdict:
        """Return an active verdict with a message of this rule, filled with the evidence.

        ``words`` fill placeholders without becoming evidence. ``severity`` replaces that of the
        message, and ``extent`` is the amount of evidence (see ``Verdict``).
        """
        template = self.messages[message]
        values = {**declared(self.thresholds), **evidence, **words}
        return Verdict(
            subject,
            True,
            template.severity if severity is None else severity,
            fill(template.sentence, values),
            steps,
            evidence,
            fill(template.advice, values),
            extent,
            template.certainty,
        )

    @classmethod
    def described(cls, text: str) -> str:
        """Fill ``healthy`` or one of ``reports`` with the default thresholds."""
        return fill(text, declared(cls.Thresholds()))


class CurveRule(Rule):
    """A rule about a series that rank 0 logs point by point, such as the loss."""

    kinds = frozenset({"step", "metrics", "eval", "epoch"})
    every_rank = False
