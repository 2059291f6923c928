"""The finding of a run that did not end as it was meant to: how it ended, and how to go on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

from epochal.format import format_bytes
from epochal.health.finding import Finding, Severity, finding_id

BadEnding = Literal["crashed", "failed", "terminated", "interrupted"]
BAD_ENDINGS: tuple[BadEnding, ...] = get_args(BadEnding)

# Whoever presses Ctrl-C knows that the run has ended; whoever is preempted may not.
_SEVERITIES: Mapping[BadEnding, Severity] = {
    "crashed": "error",
    "failed": "error",
    "terminated": "warning",
    "interrupted": "info",
}
_SENTENCES: Mapping[BadEnding, str] = {
    "crashed": "The run crashed",
    "failed": "The run failed",
    "terminated": "The run was ended from outside",
    "interrupted": "The run was stopped by hand",
}
_PLACE = re.compile(r'^\s*File "([^"]+)", line (\d+)', re.MULTILINE)
_LONGEST = 200  # characters of a reason: some errors are pages long


def ending_severity(state: str) -> Severity | None:
    """How grave it is that a run stands like this; None for one that goes on or ended well."""
    return next((_SEVERITIES[how] for how in BAD_ENDINGS if how == state), None)


def ending_finding(
    how: BadEnding,
    *,
    run: str,
    attempt: int,
    step: int | None,
    t: float,
    reason: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> Finding:
    """The finding of an attempt's end; its rule is named like the run's status.

    ``reason`` is what is known of it in words, ``facts`` the fields of the event that told it
    (``traceback``, ``oom_kills``, ``rss``); ``t`` in Unix seconds.
    """
    told = dict(facts or {})
    return Finding(
        id=finding_id(how, "", attempt),
        rule=how,
        severity=_SEVERITIES[how],
        sentence=_sentence(how, step, reason),
        series=None,
        steps=None if step is None else (step, step),
        evidence=_evidence(told),
        advice=_advice(run, reason or "", told),
        state="open",
        t=t,
    )


def _sentence(how: BadEnding, step: int | None, reason: str | None) -> str:
    where = "before its first step" if step is None else f"after step {step:,}"
    said = (reason or "").strip().splitlines()
    words = said[0].rstrip(".") if said else ""
    if words.startswith("the training process vanished"):
        return f"T{words[1:]}."  # it says where by itself
    if how == "interrupted" and words == "KeyboardInterrupt":
        words = ""
    if len(words) > _LONGEST:
        words = f"{words[:_LONGEST]} …"
    return f"{_SENTENCES[how]} {where}{f': {words}' if words else ''}."


def _evidence(facts: Mapping[str, Any]) -> dict[str, float | int | str]:
    found: dict[str, float | int | str] = {}
    places = _PLACE.findall(str(facts.get("traceback") or ""))
    if places:
        file, line = places[-1]
        found["at"] = f"{file}, line {line}"
    for name in ("pid", "oom_kills"):
        value = facts.get(name)
        if isinstance(value, int):
            found[name] = value
    rss = facts.get("rss")
    if isinstance(rss, (int, float)):
        found["memory"] = format_bytes(rss)
    return found


def _advice(run: str, reason: str, facts: Mapping[str, Any]) -> str:
    go_on = f"'epochal resume {run}' gives the command that goes on from the last checkpoint."
    if facts.get("oom_kills"):
        return (
            "Use fewer loader workers, a smaller batch or a machine with more memory, or it will "
            f"be killed again. {go_on}"
        )
    if "out of memory" in reason.lower() or "OutOfMemory" in reason:
        return (
            "Use a smaller batch with gradient accumulation, shorter sequences or activation "
            f"checkpointing. {go_on}"
        )
    return go_on
