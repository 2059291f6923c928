"""What a question is answered with, and the table of all answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from epochal.records.format import plural

State = Literal["pass", "fail", "cannot tell"]
_STATES: tuple[State, ...] = ("pass", "fail", "cannot tell")
# So many names stand in a sentence.
_MOST_NAMES = 3
_MOST_RECORDED = 20


class CannotTellError(Exception):
    """Ends a question that has no exact answer; its words say why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one question: its state, the reason in a sentence, and the numbers.

    Attributes:
        state: ``pass``, ``fail`` or ``cannot tell``.
        reason: The reason, with names and numbers.
        facts: The same names and numbers by key.
    """

    state: State
    reason: str
    facts: Mapping[str, Any] = field(default_factory=dict)


def passed(reason: str, **facts: Any) -> Answer:
    """Answer that nothing is wrong."""
    return Answer("pass", reason, facts)


def failed(reason: str, **facts: Any) -> Answer:
    """Answer that something is wrong, for certain."""
    return Answer("fail", reason, facts)


def unknown(reason: str, **facts: Any) -> Answer:
    """Answer that there is no exact answer."""
    return Answer("cannot tell", reason, facts)


@dataclass(frozen=True, slots=True, repr=False)
class Preflight:
    """What `preflight` returns: the answer to each question, printed as a table.

    Attributes:
        answers: The answers by the name of their question.
        seconds: How long the questions took.
        changed: What code outside of the model had changed in it, and was put back.
    """

    answers: Mapping[str, Answer]
    seconds: float
    changed: tuple[str, ...] = ()

    @property
    def failed(self) -> dict[str, Answer]:
        """The answers that say that something is wrong, by the name of their question."""
        return {name: one for name, one in self.answers.items() if one.state == "fail"}

    def to_dict(self) -> dict[str, Any]:
        """Return the answers as plain values, as the run records them."""
        return {
            "answers": [
                {"question": name, "state": one.state, "reason": one.reason, **_facts(one)}
                for name, one in self.answers.items()
            ],
            "seconds": round(self.seconds, 3),
            "changed": list(self.changed),
        }

    def __str__(self) -> str:
        counts = {s: sum(one.state == s for one in self.answers.values()) for s in _STATES}
        summary = ", ".join(f"{count} {state}" for state, count in counts.items())
        width = max(map(len, self.answers), default=0)
        lines = [f"[Preflight] {summary}, in {self.seconds:.1f} s"]
        for name, one in self.answers.items():
            lines.append(
                f"  {one.state.upper() if one.state == 'fail' else one.state:<11} "
                f"{name:<{width}}  {one.reason}"
            )
        if self.changed:
            lines.append(
                f"  The model had changed meanwhile, and was put back: "
                f"{some_names(list(self.changed))}."
            )
        return "\n".join(lines)

    __repr__ = __str__


def _facts(answer: Answer) -> dict[str, Any]:
    facts = {
        key: value[:_MOST_RECORDED] if isinstance(value, list) else value
        for key, value in answer.facts.items()
    }
    return {"facts": facts} if facts else {}


def some_names(names: list[str]) -> str:
    """The first names, and how many follow."""
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def count_of(names: list[str], what: str = "parameter") -> str:
    """How many names there are, and the first of them."""
    return f"{plural(len(names), what)} ({some_names(names)})"
