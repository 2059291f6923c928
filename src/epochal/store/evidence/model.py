"""The model and its optimizer: gradients, weights and updates by layer, settings, passes, modes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from epochal.records import Record
from epochal.records.kinds.events import EVENTS
from epochal.series.summary import Summary
from epochal.store.evidence.material import Fact, Material, digits, fields_text, listed, short

# Models with so many parameters are shown one by one, others by families.
_FEW_PARAMETERS = 12
_MOST_GROUPS = 4
_NUMBER = re.compile(r"\d+")
_SETTINGS = ("lr", "momentum", "betas", "weight_decay")
# Events with a line of their own, and those that say nothing of what is learnt.
_ELSEWHERE = {"model", "optimizer", "inputs", "preflight", "checkpoint", "alert", "artifact"}
_NOTED = {
    event.name: event.meaning
    for event in EVENTS
    if event.writer == "training" and event.name not in _ELSEWHERE
}


def program(material: Material) -> Iterator[Fact]:
    """What the model is, which of its parameters have gradients, and what was noted of it."""
    model = material.newest("model")
    if model:
        yield Fact(f"model: {fields_text(model)}", 0)
    yield from _preflight(material.newest("preflight"))
    yield from _gradients(material)
    for name, records in material.events.items():
        if name in _NOTED:
            times = f", {len(records):,} times" if len(records) > 1 else ""
            fields = fields_text(records[-1], without=("traceback",))
            yield Fact(f"{name}{times} ({_NOTED[name]}), newest: {fields}", 0)
    yield from _modes(material.events.get("inputs", ()))


def _preflight(record: Record) -> Iterator[Fact]:
    """The answers of preflight: those that passed in one line."""
    passed: list[str] = []
    for answer in record.get("answers") or ():
        state, question = answer.get("state"), short(str(answer.get("question")))
        if state == "pass":
            passed.append(question)
        else:
            text = f"preflight, {question}: {state}. {answer.get('reason')}"
            yield Fact(text, 0 if state == "fail" else 2)
    if passed:
        yield Fact(f"preflight passed: {listed(passed, 20)}", 2)


def _gradients(material: Material) -> Iterator[Fact]:
    weights = material.by_prefix("params/", "/norm")
    gradients = material.by_prefix("grads/", "/norm")
    if not weights:
        return
    without = [name for name in weights if name not in gradients]
    zero = [name for name, summary in gradients.items() if summary.max == 0]
    ended = [name for name, s in gradients.items() if s.last == 0 and name not in zero]
    have = f"{len(weights) - len(without):,} of {len(weights):,} parameters"
    yield Fact(f"gradients: {have} have one in the measured steps", 0)
    if without:
        yield Fact(f"no gradient recorded: {listed(without)}", 0)
    for when, names in (("every", zero), ("the last", ended)):
        if names:
            yield Fact(f"gradient exactly 0 at {when} measurement: {listed(names)}", 0)
    still = [name for name, s in weights.items() if s.count > 1 and s.min == s.max]
    if still:
        yield Fact(f"norm of the weights never changed: {len(still):,}: {listed(still)}", 0)


def _modes(readings: Sequence[Record]) -> Iterator[Fact]:
    """In which mode passes ran, with the scale of what the model got."""
    counts = Counter(str(record.get("mode")) for record in readings)
    if counts:
        both = ", ".join(f"{mode} {counts.get(mode, 0)}" for mode in ("train", "eval"))
        steps = [s for record in readings if isinstance(s := record.get("at_step"), int)]
        when = f", steps {min(steps):,} to {max(steps):,}" if steps else ""
        yield Fact(
            f"passes whose inputs were read: {both}{when}"
            " (eval: the model in eval mode, or no gradients wanted)",
            0,
        )
    latest = {(r.get("mode"), r.get("where")): r for r in readings}
    for (mode, where), record in latest.items():
        parts = fields_text(record, without=("at_step", "mode", "where", "after_norm"))
        yield Fact(f"inputs of {short(str(where))} in {mode}: {parts}", 2)


def optimizer(material: Material) -> Iterator[Fact]:
    """The settings of each optimizer as they were applied, and the rates that were logged."""
    for record in material.events.get("optimizer", ())[:_MOST_GROUPS]:
        name = short(str(record.get("optimizer")))
        yield Fact(f"{name}: {record.get('parameters')} parameters of the model", 0)
        groups = [g for g in record.get("groups") or () if isinstance(g, Mapping)]
        for number, group in enumerate(groups[:_MOST_GROUPS], 1):
            yield Fact(f"{name} group {number} of {len(groups)}: {_group_text(group)}", 0)
    rate = material.of_role("lr")
    if rate is not None:
        yield Fact(f"{short(rate[0])} as logged: {_course(rate[1])}", 1)


def _group_text(group: Mapping[str, Any]) -> str:
    parts = [f"{digits(group.get('parameters'))} parameters"]
    parts += [f"{digits(group.get('elements'))} elements"]
    parts += [fields_text({key: group[key] for key in _SETTINGS if key in group})]
    rate, decay = group.get("lr"), group.get("weight_decay")
    if isinstance(rate, (int, float)) and isinstance(decay, (int, float)) and decay:
        parts.append(f"lr × weight_decay {digits(rate * decay)} a step")
    return ", ".join(part for part in parts if part)


def _course(summary: Summary) -> str:
    text = f"first {digits(summary.first)}, last {digits(summary.last)}"
    return f"{text}, largest {digits(summary.max)} at {digits(summary.max_step)}"


def layers(material: Material) -> Iterator[Fact]:
    """Weights, gradients and updates of each layer, or of each family of layers."""
    weights = material.by_prefix("params/", "/norm")
    gradients = material.by_prefix("grads/", "/norm")
    updates = material.by_prefix("update_ratio/")
    # What starts at zero moves by all of its norm.
    started = {n: s for n, s in updates.items() if n not in weights or weights[n].first}
    if started:
        largest = max(started, key=lambda name: started[name].max or 0.0)
        middle = median([s.last for s in started.values() if s.last is not None] or [0.0])
        peak = started[largest]
        yield Fact(
            f"a step moved the weights by {digits(middle)} of their norm (median of the last"
            f" measurement), at most by {digits(peak.max)} ({short(largest)}, step"
            f" {digits(peak.max_step)})",
            0,
        )
    if weights:
        yield Fact("norms at the first → last measured step; updates as a share of the weights:", 1)
    families = _families(list(weights))
    for family, names in families.items():
        parts = [f"weights {_from_to(weights, names)}"]
        parts += [f"gradients {_from_to(gradients, names)}"] if _any_of(gradients, names) else []
        parts += [f"updates {_from_to(updates, names)}"] if _any_of(updates, names) else []
        count = f" ×{len(names)}" if len(names) > 1 else ""
        rank = 2 if family.endswith("weight") else 3
        yield Fact(f"{short(family)}{count}: {', '.join(parts)}", rank)


def _families(names: Sequence[str]) -> dict[str, list[str]]:
    """Names that differ in numbers alone, with ``*`` for each number."""
    if len(names) <= _FEW_PARAMETERS:
        return {name: [name] for name in names}
    families: dict[str, list[str]] = {}
    for name in names:
        families.setdefault(_NUMBER.sub("*", name), []).append(name)
    return families


def _any_of(series: Mapping[str, Summary], names: Sequence[str]) -> bool:
    return any(name in series for name in names)


def _from_to(series: Mapping[str, Summary], names: Sequence[str]) -> str:
    """The median of a family at its first and at its last measurement."""
    known = [series[name] for name in names if name in series]
    first = [s.first for s in known if s.first is not None]
    last = [s.last for s in known if s.last is not None]
    if not first or not last:
        return "not finite"
    return f"{digits(median(first))} → {digits(median(last))}"
