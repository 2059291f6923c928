"""What can make one run differ from another, read from a run at once.

Config, code, data, packages and hardware are facts by name; the metric, the learning rate and the
speed are curves; findings say what the rules saw.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
import numpy as np

from epochal.errors import MetricNotFoundError
from epochal.health.finding import Finding, Severity, is_more_severe
from epochal.series.aggregate import Points
from epochal.series.series import Series, X
from epochal.series.trend import Goal
from epochal.store.answers import Entry, Metric, RunInfo
from epochal.store.data_facts import SplitFacts, split_facts
from epochal.store.groups import points_of, read_series
from epochal.store.metrics import in_order, resolve
from epochal.store.store import RunView
from epochal.values import flat_items

# fmt: off
Area = Literal[
    "config", "schedule", "code", "command", "data", "packages", "hardware", "progress",
    "throughput", "findings",
]
# fmt: on
# Those with facts by name.
FACT_AREAS: tuple[Area, ...] = ("config", "code", "command", "data", "packages", "hardware")

_DEFAULT_ROLES = ("eval_loss", "loss")
_DATASET_FIELDS = ("files", "tokens", "seed")
_PATCH_FILE = re.compile(rb"^diff --git a/.* b/(.*)$", re.MULTILINE)


class SeenFinding(msgspec.Struct, frozen=True):
    """The gravest finding of a rule, and the first step that the rule found anything at."""

    rule: str
    severity: Severity
    sentence: str
    advice: str
    step: int | None


class RunFacts(msgspec.Struct, frozen=True, eq=False):
    """Everything about one run that may explain its metric.

    An area that the run says nothing about is not in ``facts``. ``curve`` is the metric along
    ``x``, ``rates`` the learning rate by step. ``speeds`` has the usual tokens per second and
    milliseconds of a step. ``splits`` are the watched data loaders.
    ``findings`` is None where they were not read.
    """

    info: RunInfo
    facts: Mapping[Area, Mapping[str, Any]]
    metric: Metric | None
    curve: Points | None
    x: X
    rates: Points | None
    speeds: Mapping[str, float]
    findings: Mapping[str, SeenFinding] | None
    splits: Mapping[str, SplitFacts]

    @property
    def goal(self) -> Goal | None:
        """Which way is better."""
        return None if self.metric is None else self.metric.goal


def common_metric(metrics: Sequence[Sequence[Metric]], name: str | None = None) -> str:
    """The metric to explain: the named one, else the evaluation loss, else the loss.

    Without a loss, the first metric of all runs with a known goal. Raises ``MetricNotFoundError``.
    """
    if name is not None:
        if any(resolve(name, own) is None for own in metrics):
            raise MetricNotFoundError(f"not every one of these runs has logged {name!r}.")
        return name
    for role in _DEFAULT_ROLES:
        if all(any(one.role == role for one in own) for own in metrics):
            return role
    for metric in in_order(metrics[0]):
        is_shared = all(any(one.name == metric.name for one in own) for own in metrics[1:])
        if metric.goal is not None and metric.axis != "time" and is_shared:
            return metric.name
    raise MetricNotFoundError(
        "these runs share no metric whose goal is known: name one, or declare it with"
        " run.define(name, goal='min')."
    )


def read_facts(run: RunView, metric: str, *, with_findings: bool = True) -> RunFacts:
    """Read a run; ``metric`` may be a role."""
    curve = read_series(run, metric)
    found = points_of(curve) if curve is not None and len(curve) else None
    rates = read_series(run, "lr") if run.role("lr") is not None else None
    return RunFacts(
        info=run.info,
        facts={area: facts for area, facts in _facts(run).items() if facts},
        metric=run.metric(metric),
        curve=found,
        x="step" if curve is None else curve.x,
        rates=points_of(rates) if rates is not None and len(rates) and rates.x == "step" else None,
        speeds=_speeds(run, curve),
        findings=_findings(run.findings()) if with_findings else None,
        splits=split_facts(run.entries("data")),
    )


def _facts(run: RunView) -> dict[Area, dict[str, Any]]:
    told = run.facts
    packages = told.get("packages")
    return {
        "config": dict(flat_items(run.config)),
        "code": _code(run, told.get("git")),
        "command": _command(told.get("command")),
        "data": _data(run),
        "packages": dict(packages) if isinstance(packages, Mapping) else {},
        "hardware": _hardware(run, told),
    }


def _code(run: RunView, git: Any) -> dict[str, Any]:
    if not isinstance(git, Mapping) or not isinstance(git.get("commit"), str):
        return {}
    patch = run.patch() if git.get("dirty") else b""
    changes = patch_text(patch)
    if git.get("dirty") and not patch:  # the patch of a run on a hub stays where the run was made
        changes = f"not stored here ({str(git.get('patch_sha256', 'unknown'))[:8]})"
    return {"commit": git["commit"][:12], "uncommitted changes": changes}


def code_of(run: RunView) -> str:
    """The commit and the changes that were not committed, as one text; empty if not known."""
    return json.dumps(_code(run, run.facts.get("git")))


def patch_text(patch: bytes) -> str:
    """The files of a patch with the number of lines added and removed, and a hash of it."""
    if not patch:
        return "none"
    starts = list(_PATCH_FILE.finditer(patch))
    ends = [one.start() for one in starts[1:]] + [len(patch)]
    files = []
    for start, end in zip(starts, ends, strict=False):
        lines = patch[start.end() : end].split(b"\n")
        added = sum(line.startswith(b"+") and not line.startswith(b"+++ ") for line in lines)
        removed = sum(line.startswith(b"-") and not line.startswith(b"--- ") for line in lines)
        files.append(f"{start.group(1).decode('utf-8', 'replace')} +{added} -{removed}")
    return f"{', '.join(files)} ({hashlib.sha256(patch).hexdigest()[:8]})"


def patch_files(text: str) -> list[str]:
    """The files that ``patch_text`` names."""
    return re.findall(r"(?:^|, )(\S+) \+\d+ -\d+", text)


def _command(command: Any) -> dict[str, Any]:
    """The program and its options; the interpreter and its folder say nothing of the training."""
    if not isinstance(command, Sequence) or isinstance(command, str) or len(command) < 2:
        return {}
    return {"arguments": " ".join(map(str, command[1:]))}


def _data(run: RunView) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in run.entries("dataset"):
        record, split = entry.record, str(entry.record.get("split") or "data")
        found |= {f"{split} {name}": record[name] for name in _DATASET_FIELDS if name in record}
        if names := record.get("names"):
            found[f"{split} names"] = f"{len(names)} paths ({_digest(sorted(map(str, names)))})"
    return found


def _hardware(run: RunView, told: Mapping[str, Any]) -> dict[str, Any]:
    models = [entry.record for entry in run.entries("gpu-model", rank=None)]
    unique = {one.get("uuid") or (one.get("rank"), one.get("id")): one for one in models}
    counted = Counter(str(one.get("name")) for one in unique.values())
    gpus = ", ".join(f"{count} × {name}" for name, count in sorted(counted.items()))
    drivers = sorted({str(one["cuda_driver"]) for one in models if "cuda_driver" in one})
    found = {
        "GPUs": gpus or None,
        "CUDA driver": ", ".join(drivers) or None,
        "processes": told.get("world_size"),
        "CPUs": told.get("cpu_count"),
        "Python": told.get("python"),
        "platform": told.get("platform"),
        "host": told.get("host"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _speeds(run: RunView, curve: Series | None) -> dict[str, float]:
    found = {}
    for name, metric in (("tokens per second", "throughput"), ("ms per step", "train/duration_ms")):
        if run.metric(metric) is None:
            continue
        series = read_series(run, metric)
        values = np.empty(0) if series is None else series.floats[np.isfinite(series.floats)]
        if values.size:
            found[name] = float(np.median(values))
    if "ms per step" not in found and curve is not None and curve.x == "step" and len(curve) > 1:
        times, steps = np.diff(curve.times), np.diff(curve.steps)
        found["ms per step"] = float(np.median(times / np.maximum(steps, 1))) * 1000
    return found


def _findings(entries: Iterable[Entry]) -> dict[str, SeenFinding]:
    newest: dict[str, Finding] = {}
    for entry in entries:
        finding = Finding.from_record(entry.record)
        if finding is not None:
            newest[finding.id] = finding
    found: dict[str, SeenFinding] = {}
    for one in newest.values():
        step = None if one.steps is None else one.steps[0]
        seen = SeenFinding(one.rule, one.severity, one.sentence, one.advice, step)
        before = found.get(one.rule)
        if before is None:
            found[one.rule] = seen
            continue
        steps = [each for each in (before.step, step) if each is not None]
        gravest = seen if is_more_severe(one.severity, before.severity) else before
        found[one.rule] = SeenFinding(
            one.rule, gravest.severity, gravest.sentence, gravest.advice, min(steps, default=None)
        )
    return found


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]
