"""Rows of ``log``, ``define_metric``, ``run.config`` and ``run.summary`` as W&B has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from epochal.exchange.media.types import Table, sample_of
from epochal.integrations.rollouts import readable_rollouts
from epochal.records.values import as_float, element_count, is_step_name, plain_json, whole_step
from epochal.run.run import Run
from epochal.wandb.data_types import Image, is_matplotlib
from epochal.wandb.errors import ConfigError, Error
from epochal.wandb.notices import ByAttribute, say_once

# Keys that W&B computes itself.
RESERVED = frozenset({"_step", "_runtime", "_timestamp", "_wandb"})
_PLAIN = frozenset({float, int, bool})


def write_row(run: Run, data: Mapping[str, Any], step: int) -> bool:
    """Record what a ``log`` call holds at a step; True if these are plain numbers only."""
    if all(type(value) in _PLAIN for value in data.values()) and not RESERVED & data.keys():
        run.log(data, step)
        return True
    values = flatten({name: value for name, value in data.items() if name not in RESERVED})
    run.log({name: _accepted(value) for name, value in values if value is not None}, step)
    return False


def flatten(data: Mapping[Any, Any], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Names and values; those of nested dicts are joined with dots."""
    for key, value in data.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and depth < 32:
            yield from flatten(value, f"{name}.", depth + 1)
        else:
            yield name, value


def _accepted(value: Any) -> Any:
    """What ``epochal.Run.log`` takes, of what W&B's takes."""
    if isinstance(value, (list, tuple)):
        values = [_accepted(item) for item in value]
        return ", ".join(map(str, value)) if any(isinstance(v, str) for v in values) else values
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Table) or hasattr(value, "itertuples"):  # a table, or a frame of pandas
        return readable_rollouts(value)
    return Image(value) if is_matplotlib(value) else value


_SUMMARIES = frozenset({"min", "max", "mean", "best", "last", "copy", "none", "first"})
_GOALS = {None: None, "minimize": "min", "min": "min", "maximize": "max", "max": "max"}


@dataclass(frozen=True, slots=True)
class Metric:
    """What ``define_metric`` returns."""

    name: str
    step_metric: str | None = None
    step_sync: bool | None = None
    summary: str | None = None
    goal: str | None = None

    @property
    def wanted(self) -> list[str]:
        """The parts of ``summary``."""
        return [part.strip() for part in (self.summary or "").lower().split(",") if part.strip()]


class StepSync:
    """Adds the last value of a step metric to rows that hold a metric drawn against it.

    A step metric that is named after steps is also the step at which its rows are recorded.
    """

    def __init__(self) -> None:
        self._rules: list[tuple[str, str]] = []
        self._last: dict[str, Any] = {}
        self._axes: dict[str, None] = {}
        self._step: int | None = None

    def add(self, metric: Metric) -> None:
        """Follow a definition; with ``step_sync=False`` rows get no last value."""
        if metric.step_metric is None:
            return
        if metric.step_sync is not False:
            self._rules.append((metric.name, metric.step_metric))
        if is_step_name(metric.step_metric):
            self._axes[metric.step_metric] = None

    def step_of(self, data: Mapping[str, Any], row: int) -> int:
        """The step of a row: that of its step metric, or of the last row that has one."""
        steps = (whole_step(data.get(axis)) for axis in self._axes)
        self._step = next((step for step in steps if step is not None), self._step)
        return row if self._step is None else self._step

    def complete(self, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """A row with the step metrics that it lacks."""
        if not self._rules:
            return data
        flat = dict(flatten(data))
        self._last.update({x: flat[x] for _, x in self._rules if x in flat})
        lacking = {
            x: self._last[x]
            for pattern, x in self._rules
            if x in self._last
            and x not in flat
            and any(fnmatchcase(name, pattern) for name in flat if name != x)
        }
        return {**data, **lacking} if lacking else data


def define(run: Run, metric: Metric) -> None:
    """Record the definition of a metric; raises for what W&B does not accept."""
    unknown = [part for part in metric.wanted if part not in _SUMMARIES]
    if not metric.name or unknown or metric.goal not in _GOALS:
        raise Error(f"Unhandled define_metric() argument: {metric}")
    # ``summary="min"`` says that less is better.
    by_summary = next((part for part in metric.wanted if part in ("min", "max")), None)
    goal = _GOALS[metric.goal] or by_summary
    if metric.step_metric is not None or goal is not None:
        run.define(metric.name, x=metric.step_metric, goal=goal)


# What W&B's summary has beside last numbers: texts, short lists, dicts, and ``define_metric``'s.
#
# A call of ``log`` that holds plain numbers only costs nothing here unless a metric was defined
# with ``summary=``.

# The parts of ``define_metric(summary=...)`` that are computed; "copy" is the last value.
COMPUTED = ("min", "max", "mean", "last", "first")
# Longer lists and arrays are histograms in W&B's summary, too.
_LONGEST = 32


class SubDict(dict[str, Any]):
    """A dict in a summary; its entries are attributes too."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"the summary has no entry {name!r}.")
        return self[name]


class SummaryValues:
    """What the calls of one run's ``log`` leave for its summary."""

    def __init__(self) -> None:
        self.rules: list[tuple[str, list[str]]] = []
        self._computed: dict[str, dict[str, float]] = {}
        self._others: dict[str, Any] = {}
        self._nested: set[str] = set()

    def define(self, name: str, parts: list[str]) -> None:
        """Follow ``define_metric(name, summary=...)``; the name may end with ``*``."""
        if parts:
            self.rules.append((name, parts))

    def take(self, data: Mapping[str, Any]) -> None:
        """Note what a row holds that is not just a last number."""
        self._nested.update(key for key, value in data.items() if isinstance(value, Mapping))
        for name, value in flatten(data):
            if isinstance(value, str):
                self._others[name] = value
            elif isinstance(value, (list, tuple)) or (element_count(value) or 1) > 1:
                plain = value.tolist() if hasattr(value, "tolist") else plain_json(value)
                is_short = isinstance(plain, list) and len(plain) <= _LONGEST
                if is_short and sample_of(value) is None:
                    self._others[name] = plain
            elif self._parts_of(name) and hasattr(value, "__float__"):
                _add(self._computed.setdefault(name, {}), as_float(value))

    def aggregates(self) -> dict[str, SubDict]:
        """What was asked for of each metric that was defined with ``summary=``."""
        found = {}
        for name, known in self._computed.items():
            parts = [part for part in COMPUTED if part in self._parts_of(name) and part in known]
            if parts:
                found[name] = SubDict({part: known[part] for part in parts})
        return found

    def merged(self, last: Mapping[str, Any], set_by_user: set[str]) -> dict[str, Any]:
        """The whole summary, of the last numbers and of what the program set, which wins."""
        flat = {**self._others, **with_aggregates(last)}
        flat |= {k: v for k, v in self.aggregates().items() if k not in set_by_user}
        for name in list(flat):
            if self._parts_of(name) == ["none"] and name not in set_by_user:
                del flat[name]
        for top in self._nested:
            inside = {name: flat.pop(name) for name in list(flat) if name.startswith(f"{top}.")}
            if inside and top not in flat:
                flat[top] = nested({name[len(top) + 1 :]: v for name, v in inside.items()})
        return flat

    def _parts_of(self, name: str) -> list[str]:
        """What the summary has of a metric: by its own definition, or by the last pattern."""
        exact = [parts for pattern, parts in self.rules if pattern == name]
        globs = [parts for pattern, parts in self.rules if fnmatchcase(name, pattern)]
        return next(reversed(exact or globs), [])


def _add(known: dict[str, float], value: float) -> None:
    """Count one more value; one that is not a number counts as the last only."""
    known["last"] = value
    if value == value:
        known["first"] = known.get("first", value)
        known["min"] = min(known.get("min", value), value)
        known["max"] = max(known.get("max", value), value)
        known["count"] = known.get("count", 0) + 1
        known["total"] = known.get("total", 0.0) + value
        known["mean"] = known["total"] / known["count"]


def nested(flat: Mapping[str, Any]) -> SubDict:
    """Names joined with dots as dicts in dicts."""
    found = SubDict()
    for name, value in flat.items():
        *folders, last = name.split(".")
        inner = found
        for folder in folders:
            deeper = inner.get(folder)
            inner[folder] = inner = deeper if isinstance(deeper, SubDict) else SubDict()
        inner[last] = value
    return found


def with_aggregates(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary that was read: ``acc.max``, written for a metric ``acc``, is ``acc["max"]``."""
    found = dict(summary)
    for name, value in summary.items():
        metric, dot, part = name.rpartition(".")
        if not dot or part not in COMPUTED or isinstance(summary.get(metric, {}), dict):
            continue
        if not isinstance(found[metric], SubDict):
            found[metric] = SubDict()
        found[metric][part] = value
        del found[name]
    return found


class Summary(ByAttribute):
    """The last value of each metric, and what the program sets, which wins."""

    def __init__(self, run: Run, values: SummaryValues) -> None:
        object.__setattr__(self, "_run", run)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_set", set())

    def __getitem__(self, key: str) -> Any:
        # What was set comes from the run itself, so that changes inside it are recorded.
        return self._run.summary[key] if key in self._set else self._as_dict()[key]

    def __delitem__(self, key: str) -> None:
        del self._run.summary[key]
        self._set.discard(key)

    def __setitem__(self, key: str, value: Any) -> None:
        self.update({key: value})

    def __iter__(self) -> Iterator[str]:
        return iter(self._as_dict())

    def update(self, d: Mapping[str, Any] | None = None, **more: Any) -> None:  # type: ignore[override]
        """Set entries; they are recorded, and win over the last values."""
        given = {**(d or {}), **more}
        self._run.summary.update(given)
        self._set.update(given)

    def _as_dict(self) -> dict[str, Any]:
        merged: dict[str, Any] = self._values.merged(self._run.summary.copy(), self._set)
        return merged


class Config(ByAttribute):
    """Entries by attribute and by item; a change is recorded in the run."""

    def __init__(self, run: Run | None = None, *, allow_val_change: bool = False) -> None:
        object.__setattr__(self, "_entries", {} if run is None else run.config)
        object.__setattr__(self, "_allow", allow_val_change)
        object.__setattr__(self, "_locked", {})

    def __getitem__(self, key: str) -> Any:
        return self._entries[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._set({key: value}, None)

    def __delitem__(self, key: str) -> None:
        del self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return (key for key in self._entries if not key.startswith("_"))

    def as_dict(self) -> dict[str, Any]:
        """A plain dict, whose changes are not recorded."""
        return dict(self._entries.copy())

    def update(self, d: Any, allow_val_change: bool | None = None) -> None:  # type: ignore[override]
        """Set several entries: of a dict, a namespace, flags, or a YAML file's path."""
        self._set(parse_config(d), allow_val_change)

    def setdefaults(self, d: Any) -> None:
        """Set the entries that are not there yet."""
        self._set({k: v for k, v in parse_config(d).items() if k not in self._entries}, None)

    def _set(self, values: Mapping[str, Any], allow_val_change: bool | None) -> None:
        allowed = self._allow if allow_val_change is None else allow_val_change
        entries, changed = self._entries, {}
        for given, value in values.items():
            key = str(given).strip("-")
            if key in self._locked:
                by = self._locked[key]
                say_once(f"config entry {key!r} was set by {by}; another value is ignored.")
                continue
            plain = plain_json(value)
            if key in entries and entries[key] == plain:
                continue
            if key in entries and not allowed:
                raise ConfigError(
                    f"config entry {key!r} is {entries[key]!r} and would become {plain!r}: pass"
                    " allow_val_change=True to config.update() or to init()."
                )
            changed[key] = plain
        if changed:
            entries.update(changed)


def parse_config(given: Any, exclude: Any = None, include: Any = None) -> dict[str, Any]:
    """A dict, a namespace, flags or the path of a YAML file as a dict of entries."""
    if given is None:
        entries: dict[str, Any] = {}
    elif isinstance(given, (str, Path)):
        entries = config_file(Path(given))
    elif callable(flags := getattr(given, "flag_values_dict", None)):
        entries = dict(flags())
    elif hasattr(given, "keys"):
        entries = {key: given[key] for key in given.keys()}  # noqa: SIM118 (may be no mapping)
    else:
        entries = dict(vars(given))
    wanted = entries if include is None else include
    return {key: entries[key] for key in wanted if key in entries and key not in (exclude or ())}


def config_file(path: Path) -> dict[str, Any]:
    """The entries of a YAML file, plain or as W&B writes them (``lr: {value: 0.1}``)."""
    from epochal.run.request import config_entries

    def value_of(entry: Any) -> Any:
        is_described = isinstance(entry, dict) and "value" in entry
        return entry["value"] if is_described and set(entry) <= {"value", "desc"} else entry

    entries = config_entries(path)
    return {key: value_of(entry) for key, entry in entries.items() if key != "wandb_version"}
