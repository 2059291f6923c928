"""How a training is: one answer for the terminal, Python, notebooks, agents and the page.

It is made from the findings as they were told last and from what was observed of the program. It
needs nothing but these facts, so the companion writes it into ``summary.json``, and whoever reads a
run without that file gets the same answer from the same function.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from epochal.records import Axis, whole_number
from epochal.records.format import format_bytes, format_significant, plural
from epochal.series.goals import is_evaluation

Condition = Literal["healthy", "suspicious", "broken", "unknown"]
Area = Literal["program", "optimizer", "gradients", "data", "evaluation", "machine"]
AREAS: tuple[Area, ...] = get_args(Area)
# How sure a finding is: an exact fact of the program, a measurement against a bound, or a guess
# from the shape of curves.
Certainty = Literal["fact", "measured", "inferred"]
CERTAINTIES: tuple[Certainty, ...] = get_args(Certainty)
Confidence = Literal["certain", "likely", "possible"]
Gravity = Literal["error", "warning", "note"]

# What would add each area, in one line.
WAYS: Mapping[Area, str] = {
    "program": "epochal.watch(model)",
    "optimizer": "epochal.watch(model)",
    "gradients": "epochal.watch(model)",
    "data": 'epochal.watch_data(loader, "train")',
    "evaluation": 'run.log({"eval/loss": loss}, step=step)',
    "machine": "epochal.init(companion=True)",
}
# What has to be seen for so many steps before a run without a cause is healthy.
_NEEDED: tuple[Area, ...] = ("program", "gradients", "evaluation")
_LEAST_STEPS = 200
# Families whose trainings have no evaluation beside their own curves.
_WITHOUT_EVALUATION = frozenset({"reinforcement", "generative"})
# Events and kinds of records that show an area.
_BY_EVENT: Mapping[str, tuple[Area, ...]] = {
    "preflight": ("program",),
    "model": ("program",),
    "optimizer": ("optimizer",),
}
_BY_KIND: Mapping[str, Area] = {"data": "data", "dataset": "data"}
_BY_PREFIX: Mapping[str, Area] = {
    "grads/": "gradients",
    "update_ratio/": "gradients",
    "gpu/": "machine",
    "system/": "machine",
}
OBSERVED_EVENTS = frozenset(_BY_EVENT)
# Rules whose fault would keep the training loss from falling by much.
_DOUBTED_BY_PROGRESS = frozenset(
    "never-fell plateau no-better-than-baseline lr-too-low lr-too-high gradient-vanishing"
    " loss-sign input-scale init-scale".split()
)
_NUM_CAUSES, _NUM_NOTES = 3, 3
_LONGEST_TEXT = 300
_MOST_EVIDENCE = 5
_BYTES = "_bytes"
_NAMES = {
    "lr-too-high": "learning rate too high",
    "lr-too-low": "learning rate too low",
    "nonfinite": "values that are not finite",
    "eval-mode": "evaluation in training mode",
    "eval-flat": "evaluation does not change",
    "eval-gap": "evaluation far from training",
    "never-fell": "the loss never fell",
    "low-sol": "far from the speed of light",
    "init-scale": "scale of the initial weights",
    "rate-ended": "the learning rate has ended",
    "crashed": "the run crashed",
    "failed": "the run failed",
    "terminated": "the run was ended from outside",
}


class Remark(msgspec.Struct, frozen=True, gc=False):
    """A finding in one line: a note, what was resolved, or a consequence of a cause."""

    rule: str
    severity: Gravity
    sentence: str
    steps: tuple[int, int] | None = None
    is_resolved: bool = False
    id: str = ""


class Cause(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Something that is wrong now, with the evidence for and against it and what to try.

    ``steps`` are the first and the last step at which it was seen. ``apart`` says by rule what
    tells this cause and that one apart; ``experiment`` what would confirm or refute it.
    """

    rule: str
    severity: Gravity
    sentence: str
    confidence: Confidence = "likely"
    supports: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    advice: str = ""
    steps: tuple[int, int] | None = None
    id: str = ""
    series: str | None = None
    experiment: str = ""
    apart: Mapping[str, str] = {}
    consequences: tuple[Remark, ...] = ()


class Family(msgspec.Struct, frozen=True):
    """Which kind of training it is, and how that was recognised."""

    name: str
    why: str = ""


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How a training is.

    ``sentence`` says it in one line. ``causes`` are ranked, ``notes`` change nothing; ``more``
    counts causes and notes that were left out. ``observed`` has the steps for which each area was
    seen, null where it has no steps; ``not_observed`` the line of code that would add each. It
    holds for the records up to the step ``as_of``.
    """

    state: Condition = "unknown"
    sentence: str = "unknown: nobody has judged this run"
    causes: tuple[Cause, ...] = ()
    notes: tuple[Remark, ...] = ()
    more: int = 0
    observed: Mapping[str, int | None] = {}
    not_observed: Mapping[str, str] = {}
    family: Family | None = None
    next: str = ""
    as_of: int | None = None
    is_judged: bool = True


NOT_JUDGED = Diagnosis(is_judged=False)


# -- what was observed -----------------------------------------------------------------------------


def area_of(name: str, role: str | None = None) -> Area | None:
    """The area that a series shows; None for one that shows none."""
    if role == "norm":
        return "gradients"
    if role == "eval_loss" or is_evaluation(name):
        return "evaluation"
    start = name.partition("/")[0]
    return _BY_PREFIX.get(f"{start}/")


def steps_covered(axis: Axis, count: int, last_at: float | None) -> int | None:
    """For how many steps a series speaks: its last point stands until the next one is due."""
    if axis != "step" or last_at is None or not math.isfinite(last_at):
        return None
    until_next = last_at / (count - 1) if count > 1 else 0
    return int(last_at + 1 + until_next)


def observed_areas(
    series: Mapping[Area, int | None],
    *,
    kinds: Iterable[str],
    events: Iterable[str],
    step: int | None,
) -> dict[str, int | None]:
    """The areas that were seen, each with the number of steps; null where it has none."""
    steps = None if step is None else step + 1
    by_event = {area: steps for event in events for area in _BY_EVENT.get(event, ())}
    by_kind = {_BY_KIND[kind]: steps for kind in kinds if kind in _BY_KIND}
    found: dict[Area, int | None] = {**by_event, **by_kind}
    for area, covered in series.items():
        found[area] = covered if covered is None or steps is None else min(covered, steps)
    return {area: found[area] for area in AREAS if area in found}


# -- the answer ------------------------------------------------------------------------------------


def diagnose(
    findings: Iterable[Mapping[str, Any]],
    *,
    observed: Mapping[str, int | None],
    is_judged: bool = True,
    step: int | None = None,
    family: Family | None = None,
    progress: tuple[float, float] | None = None,
) -> Diagnosis:
    """The diagnosis of a run from the newest statement of each finding, oldest first.

    ``progress`` is the training loss at first and now: evidence against guesses where it fell.
    """
    every = list(findings)
    held = {str(one.get("id")): one for one in every if _is_cause(one)}
    above = {key: _root(key, held) for key in held}
    roots = [key for key in held if above[key] == key]
    under = {key: [held[one] for one in held if above[one] == key != one] for key in roots}
    roots.sort(key=lambda key: _rank(held[key], under[key]))
    causes = tuple(_cause(held[key], under[key], progress) for key in roots)
    notes = [_remark(one) for one in every if not _is_cause(one)]
    notes.sort(key=lambda one: (one.is_resolved, one.severity == "note"))
    found = Diagnosis(
        causes=causes,
        notes=tuple(notes),
        observed=dict(observed),
        not_observed={area: WAYS[area] for area in AREAS if area not in observed},
        family=family,
        as_of=step,
        is_judged=is_judged,
    )
    return _concluded(found)


def with_finding(known: Diagnosis, finding: Mapping[str, Any]) -> Diagnosis:
    """The same with one more finding, such as how the run ended."""
    if finding.get("rule") in rules_in(known):
        return known
    if not _is_cause(finding):
        return msgspec.structs.replace(known, notes=(*known.notes, _remark(finding)))
    rest = sum(map(_is_error, known.causes))
    place = rest if finding.get("severity") != "error" else 0
    causes = (*known.causes[:place], _cause(finding, (), None), *known.causes[place:])
    return _concluded(msgspec.structs.replace(known, causes=causes))


def shortened(known: Diagnosis) -> Diagnosis:
    """The same for ``summary.json``: the first causes with sentences in full, the rest counted."""
    causes = tuple(map(_short_cause, known.causes[:_NUM_CAUSES]))
    notes = tuple(map(_short_remark, known.notes[:_NUM_NOTES]))
    left = len(known.causes) - len(causes) + len(known.notes) - len(notes)
    return msgspec.structs.replace(known, causes=causes, notes=notes, more=known.more + left)


def in_a_list(known: Diagnosis) -> Diagnosis:
    """The same for a row among many: the state and its sentence; everything else is counted."""
    num_left = len(known.causes) + len(known.notes) + known.more
    return Diagnosis(
        state=known.state,
        sentence=known.sentence,
        more=num_left,
        as_of=known.as_of,
        is_judged=known.is_judged,
    )


def rules_in(known: Diagnosis) -> set[str]:
    """The rules of its causes and notes."""
    return {one.rule for one in known.causes} | {one.rule for one in known.notes}


def as_remark(cause: Cause) -> Remark:
    """A cause in one line."""
    return Remark(cause.rule, cause.severity, cause.sentence, cause.steps, id=cause.id)


def without_last(known: Diagnosis) -> Diagnosis:
    """The same without its last note, or else its last cause: they are counted."""
    if known.notes:
        return msgspec.structs.replace(known, notes=known.notes[:-1], more=known.more + 1)
    return msgspec.structs.replace(known, causes=known.causes[:-1], more=known.more + 1)


def name_of(rule: str) -> str:
    """A rule for people: ``learning rate too high``."""
    return _NAMES.get(rule) or rule.replace("-", " ")


def evidence_text(name: str, value: float | str) -> str:
    """One piece of evidence for people: ``before 468.0 MiB`` for a ``before_bytes``."""
    if isinstance(value, (str, bool)):
        return f"{name} {value}"
    if name.endswith(_BYTES):
        return f"{name.removesuffix(_BYTES)} {format_bytes(value)}"
    text = str(value) if isinstance(value, int) else format_significant(value)
    return f"{name} {text}"


def _concluded(found: Diagnosis) -> Diagnosis:
    """The diagnosis with what follows from its causes and from what was observed."""
    state = _state(found)
    replaced = msgspec.structs.replace
    return replaced(found, state=state, sentence=_sentence(found, state), next=_next(found, state))


def _state(found: Diagnosis) -> Condition:
    if found.causes:
        return "broken" if any(map(_is_error, found.causes)) else "suspicious"
    return "unknown" if not found.is_judged or _missing(found) else "healthy"


def _missing(found: Diagnosis) -> list[Area]:
    """What would have to be seen for longer before the run could be called healthy."""
    has_none = found.family is not None and found.family.name in _WITHOUT_EVALUATION
    needed = [area for area in _NEEDED if not (has_none and area == "evaluation")]
    return [area for area in needed if (found.observed.get(area) or 0) < _LEAST_STEPS]


def _sentence(found: Diagnosis, state: Condition) -> str:
    if found.causes:
        first, *more = found.causes
        beside = f", and {plural(len(more), 'more cause')}" if more else ""
        return f"{state}: {name_of(first.rule)}{beside}"
    if not found.is_judged:
        return "unknown: nobody has judged this run"
    if state == "healthy":
        return "healthy: program, gradients and evaluation were seen, and nothing is wrong"
    if not found.observed:
        return "unknown: nothing wrong in the logged curves, and nothing else was looked at"
    never = [area for area in _missing(found) if area not in found.observed]
    short = [area for area in _missing(found) if area in found.observed]
    why = [f"{_joined(never)} not seen"] if never else []
    why += [f"{_joined(short)} seen for fewer than {_LEAST_STEPS} steps"] if short else []
    return f"unknown: nothing wrong in what was seen ({', '.join(why)})"


def _next(found: Diagnosis, state: Condition) -> str:
    """The experiment that would confirm or refute the first cause, or tell two of them apart."""
    if not found.causes:
        ways = (found.not_observed[one] for one in _missing(found) if one in found.not_observed)
        return next(ways, "") if state == "unknown" else ""
    first, *more = found.causes
    for other in more:
        if (other.severity, other.confidence) == (first.severity, first.confidence):
            apart = first.apart.get(other.rule) or other.apart.get(first.rule)
            if apart:
                return apart
    return first.experiment


# -- causes and notes ------------------------------------------------------------------------------


def _is_cause(finding: Mapping[str, Any]) -> bool:
    return finding.get("state") != "closed" and finding.get("severity") in ("error", "warning")


def _root(key: str, held: Mapping[str, Mapping[str, Any]]) -> str:
    """The cause that a finding is a consequence of, itself if there is none that holds."""
    seen = [key]
    while (above := str(held[seen[-1]].get("under"))) in held and above not in seen:
        seen.append(above)
    return seen[-1]


def _rank(
    finding: Mapping[str, Any], consequences: Iterable[Mapping[str, Any]]
) -> tuple[bool, int]:
    """Severe ones first, by the worst of their consequences, then what is surest."""
    is_error = any(one.get("severity") == "error" for one in (finding, *consequences))
    return not is_error, CERTAINTIES.index(_certainty(finding))


def _is_error(cause: Cause) -> bool:
    return cause.severity == "error" or any(one.severity == "error" for one in cause.consequences)


def _certainty(finding: Mapping[str, Any]) -> Certainty:
    said = finding.get("certainty")
    return said if said in CERTAINTIES else "measured"


def _cause(
    finding: Mapping[str, Any],
    consequences: Sequence[Mapping[str, Any]],
    progress: tuple[float, float] | None,
) -> Cause:
    certainty = _certainty(finding)
    confidence: Mapping[Certainty, Confidence] = dict(
        zip(CERTAINTIES, get_args(Confidence), strict=True)
    )
    evidence, apart = finding.get("evidence"), finding.get("apart")
    supports = _evidence(evidence) if isinstance(evidence, Mapping) else ()
    return Cause(
        rule=_text(finding, "rule") or "finding",
        severity=_gravity(finding),
        sentence=_text(finding, "sentence"),
        confidence=confidence[certainty],
        supports=supports,
        against=_against(progress) if finding.get("rule") in _DOUBTED_BY_PROGRESS else (),
        advice=_text(finding, "advice"),
        steps=_steps(finding),
        id=_text(finding, "id"),
        series=_text(finding, "series") or None,
        experiment=_text(finding, "experiment"),
        apart={str(k): str(v) for k, v in apart.items()} if isinstance(apart, Mapping) else {},
        consequences=tuple(map(_remark, consequences)),
    )


def _against(progress: tuple[float, float] | None) -> tuple[str, ...]:
    """That the loss fell by much speaks against a fault that keeps a model from learning."""
    if progress is None or not 0 < 2 * progress[1] < progress[0]:
        return ()
    first, now = map(format_significant, progress)
    return (f"the training loss fell from {first} to {now}",)


def _evidence(evidence: Mapping[str, Any]) -> tuple[str, ...]:
    known = [(name, one) for name, one in evidence.items() if isinstance(one, (str, int, float))]
    return tuple(evidence_text(str(name), one) for name, one in known[:_MOST_EVIDENCE])


def _remark(finding: Mapping[str, Any]) -> Remark:
    return Remark(
        rule=_text(finding, "rule") or "finding",
        severity=_gravity(finding),
        sentence=_text(finding, "sentence"),
        steps=_steps(finding),
        is_resolved=finding.get("state") == "closed",
        id=_text(finding, "id"),
    )


def _gravity(finding: Mapping[str, Any]) -> Gravity:
    said = finding.get("severity")
    return said if said in ("error", "warning") else "note"


def _text(finding: Mapping[str, Any], name: str) -> str:
    value = finding.get(name)
    return value if isinstance(value, str) else ""


def _steps(finding: Mapping[str, Any]) -> tuple[int, int] | None:
    value = finding.get("steps")
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        return None
    first, last = map(whole_number, value)
    return None if first is None or last is None else (first, last)


def _short_cause(cause: Cause) -> Cause:
    return msgspec.structs.replace(
        cause,
        sentence=_cut(cause.sentence),
        advice=_cut(cause.advice),
        supports=tuple(_cut(one, _LONGEST_TEXT // 4) for one in cause.supports),
        apart={},
        consequences=tuple(map(_short_remark, cause.consequences[:_NUM_NOTES])),
    )


def _short_remark(remark: Remark) -> Remark:
    return msgspec.structs.replace(remark, sentence=_cut(remark.sentence, _LONGEST_TEXT // 2))


def _cut(text: str, longest: int = _LONGEST_TEXT) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _joined(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
