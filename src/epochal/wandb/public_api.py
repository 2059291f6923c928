"""``wandb.Api``: reads the runs of the local store with the calls of W&B's public API."""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from epochal.api.reading import RunData, Runs
from epochal.api.reading import open as open_runs
from epochal.records.values import as_float
from epochal.run.provenance import user_name
from epochal.settings import read_settings
from epochal.wandb.errors import CommError, UsageError
from epochal.wandb.files import ArtifactEntry, artifacts_below, find_artifact
from epochal.wandb.metrics import with_aggregates
from epochal.wandb.notices import ExplainsMissingMembers, not_supported
from epochal.wandb.settings import read_environment
from epochal.wandb.submodules import get_module

# W&B's names of Epochal's states, where they differ.
_STATES = {
    **dict.fromkeys(("interrupted", "terminated"), "killed"),
    **dict.fromkeys(("silent", "unreadable"), "crashed"),
    "waiting": "pending",
}


class Api(ExplainsMissingMembers):
    """The runs of a folder, by default the one that runs are recorded in.

    ``overrides`` may name another: ``Api(overrides={"dir": "runs"})``.
    """

    def __init__(self, overrides: Mapping[str, Any] | None = None, **ignored: Any) -> None:
        given = {**read_environment(), **(overrides or {})}
        self.settings = given
        self.default_entity = given.get("entity") or user_name()
        self._project = given.get("project")
        folder = given.get("dir")
        self._folder = Path(read_settings().dir if folder is None else Path(folder) / "runs")
        if folder is not None and not self._folder.is_dir():
            self._folder = Path(folder)

    def runs(
        self,
        path: str | None = None,
        filters: Mapping[str, Any] | None = None,
        order: str = "+created_at",
        **ignored: Any,
    ) -> ApiRuns:
        """The runs of a project (``entity/project`` or ``project``) that filters select."""
        project = self._project if path is None else path.strip("/").rpartition("/")[2]
        found = [run for run in self._all() if not project or run.project == project]
        return ApiRuns(ordered((run for run in found if matches(run, filters)), order))

    def run(self, path: str = "") -> ApiRun:
        """A run by ``entity/project/id``, ``project/id`` or its id; raises ``CommError``."""
        *front, run_id = path.strip("/").split("/")
        for run in self._all():
            is_meant = run.id == run_id or run.name == run_id
            if is_meant and (not front or run.project == front[-1]):
                return run
        raise CommError(f"Could not find run {path!r} below {self._folder}.")

    def projects(self, entity: str | None = None, **ignored: Any) -> list[SimpleNamespace]:
        """The projects that have runs, each with its name."""
        names = dict.fromkeys(run.project for run in self._all())
        return [SimpleNamespace(name=name, id=name) for name in names]

    def sweep(self, path: str = "") -> ApiSweep:
        """A sweep by its id, with the runs that belong to it."""
        from epochal.wandb.sweeps import Sweep

        sweep = Sweep.load(path.strip("/").rpartition("/")[2])
        runs = [run for run in self._all() if run.sweep_name == sweep.id]
        return ApiSweep(sweep.id, sweep.config, runs)

    def artifact(self, name: str, type: str | None = None) -> Any:  # noqa: A002 (W&B's name)
        """An artifact that a run has logged, by its name."""
        return find_artifact(self._folder, name)

    def _all(self) -> list[ApiRun]:
        if not self._folder.is_dir():
            return []
        runs: Runs = open_runs(self._folder)
        with runs:
            return [ApiRun(run, self) for run in runs]


class ApiRuns(ExplainsMissingMembers, list["ApiRun"]):
    """Runs in order."""


class ApiRun(ExplainsMissingMembers):
    """One run of the store, with the members of W&B's public ``Run``."""

    def __init__(self, data: RunData, api: Api) -> None:
        self._data, self._api = data, api
        info = data.info
        self.id, self.project = info.id, info.project
        self.entity, self.group, self.job_type = info.owner or "", info.group, info.job_type
        # In UTC: when the run began, and when it last recorded something.
        self.created_at, self.heartbeat_at = _iso(info.created), _iso(info.updated)
        # These can be changed; ``update`` writes them.
        self.name, self.tags, self.notes = info.name, list(info.tags), info.notes
        self.config: dict[str, Any] = dict(data.config)

    def __repr__(self) -> str:
        return f"<Run {'/'.join(self.path)} ({self.state})>"

    @property
    def path(self) -> list[str]:
        """Entity, project and id."""
        return [part for part in (self.entity, self.project, self.id) if part]

    @property
    def url(self) -> str:
        """The run's folder: ``epochal serve`` shows it."""
        return Path(self._data.info.folder).as_uri()

    @property
    def state(self) -> str:
        """What became of the run, in W&B's words."""
        state = self._data.info.status.state
        return _STATES.get(state, str(state))

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The last value of each metric, and what the program set, which wins."""
        names = [m.name for m in self._data.metrics() if m.axis != "time" and 0 in m.ranks]
        last = {name: self._data.summary(name).last for name in names}
        step = self._data.info.step
        own = {} if step is None else {"_step": step}
        texts = {one["name"]: one.get("text") for one in self._texts()}
        return with_aggregates({**own, **texts, **last, **self._data.info.summary})

    summary_metrics = property(lambda self: self.summary, doc="The summary.")

    def _texts(self) -> list[Mapping[str, Any]]:
        return [entry.record for entry in self._data.view.texts()]

    @property
    def lastHistoryStep(self) -> int:  # noqa: N802 (W&B's name)
        """The last step; -1 where there is none."""
        return -1 if self._data.info.step is None else self._data.info.step

    @property
    def sweep_name(self) -> str | None:
        """The sweep that the run belongs to."""
        events = [entry.record for entry in self._data.view.events()]
        found = [record for record in events if record.get("name") == "sweep"]
        return str(found[-1].get("sweep_id")) if found else None

    @property
    def sweep(self) -> ApiSweep | None:
        """The sweep that the run belongs to, with its runs."""
        return None if self.sweep_name is None else self._api.sweep(self.sweep_name)

    def load(self, force: bool = False) -> None:
        """Read what was recorded since."""
        self._data.refresh()
        self.__dict__.pop("summary", None)

    def wait_until_finished(self) -> None:
        """Return when the run has ended, however."""
        self.load()
        while self.state == "running":
            time.sleep(1.0)
            self.load()

    def logged_artifacts(self, **ignored: Any) -> list[Any]:
        """The artifacts that the run logged."""
        return artifacts_below(Path(self._data.info.folder))

    @property
    def metadata(self) -> dict[str, Any]:
        """Where the run came from: command, machine, Python, code."""
        return dict(self._data.view.facts)

    def history(self, samples: int = 500, keys: list[str] | None = None, **options: Any) -> Any:
        """Rows of metrics by step, at most ``samples``: a data frame, or a list of dicts."""
        rows = list(self.scan_history(keys))
        if len(rows) > samples > 0:
            rows = [rows[round(i * (len(rows) - 1) / max(samples - 1, 1))] for i in range(samples)]
        pandas = options.get("pandas", True)
        frames = get_module("pandas") if pandas else None
        if pandas and frames is None:
            not_supported("history(pandas=True) without pandas", "a list of dicts is returned")
        return rows if frames is None else frames.DataFrame.from_records(rows)

    def scan_history(
        self, keys: list[str] | None = None, min_step: int = 0, max_step: Any = None, **ignored: Any
    ) -> Iterator[dict[str, Any]]:
        """Every row by step; with ``keys``, only rows that have all of them."""
        begun = self._data.info.created
        rows: dict[int, dict[str, Any]] = {}

        def add(name: str, step: int, value: Any, t: float) -> None:
            row = rows.setdefault(step, {"_step": step, "_timestamp": t})
            row["_runtime"] = t - (begun or t)
            row[name] = value

        for one in self._texts():
            if (keys is None or one["name"] in keys) and isinstance(one.get("step"), int):
                add(one["name"], one["step"], one.get("text"), one["t"])
        for metric in self._data.metrics():
            is_row = metric.axis == "step" and 0 in metric.ranks
            if is_row and (keys is None or metric.name in keys):
                series = self._data.series(metric.name, axis="step")
                columns = (part.tolist() for part in (series.steps, series.values, series.times))
                for step, value, t in zip(*columns, strict=True):
                    add(metric.name, step, value, t)
        for step in sorted(rows):
            is_inside = step >= min_step and (max_step is None or step < max_step)
            if is_inside and (keys is None or all(key in rows[step] for key in keys)):
                yield rows[step]

    def files(self, names: list[str] | None = None, **ignored: Any) -> list[ApiFile]:
        """The files that the run saved."""
        base = Path(self._data.info.folder) / "files"
        paths = [path for path in sorted(base.rglob("*")) if path.is_file()]
        found = [ApiFile(path.relative_to(base).as_posix(), path) for path in paths]
        return [file for file in found if names is None or file.name in names]

    def file(self, name: str) -> ApiFile:
        """One file that the run saved."""
        return ApiFile(name, Path(self._data.info.folder) / "files" / name)

    def update(self) -> None:
        """Write a changed name, tags and notes; the configuration cannot be changed here."""
        name, tags, notes = self.name, tuple(self.tags), self.notes
        self._data.view.relabel(lambda old: replace(old, name=name, tags=tags, notes=notes))

    save = update


class ApiFile(ArtifactEntry):
    """One file of a run."""

    def download(  # type: ignore[override]
        self, root: str = ".", replace: bool = False, exist_ok: bool = False
    ) -> Any:
        """Copy the file below a folder; gives it open for reading."""
        target = Path(root) / self.name
        if target.exists() and not (replace or exist_ok):
            raise CommError(f"File already exists, pass `replace=True` to overwrite: {target}")
        return open(super().download(root), encoding="utf-8", errors="replace")


class ApiSweep(ExplainsMissingMembers):
    """A sweep with its runs."""

    def __init__(self, id: str, config: dict[str, Any], runs: list[ApiRun]) -> None:  # noqa: A002
        self.id = self.name = id
        self.config = config
        self.runs = ApiRuns(runs)

    def best_run(self, order: str | None = None) -> ApiRun | None:
        """The run with the best value of the sweep's metric."""
        metric = self.config.get("metric") or {}
        sign = "-" if metric.get("goal") == "maximize" else "+"
        wanted = order or f"{sign}summary_metrics.{metric.get('name', '_step')}"
        found = ordered(list(self.runs), wanted)
        return found[0] if found else None


def _iso(at: float | None) -> str | None:
    utc = None if at is None else datetime.fromtimestamp(at, timezone.utc)
    return None if utc is None else utc.strftime("%Y-%m-%dT%H:%M:%SZ")


# -- filters and orders ----------------------------------------------------------------------------

_MISSING = object()
# Names of W&B for the attributes of a run, where they differ.
_FIELDS = {
    "name": "id",
    "display_name": "name",
    "displayName": "name",
    "jobType": "job_type",
    "username": "entity",
    "createdAt": "created_at",
    "sweep": "sweep_name",
}


def matches(run: ApiRun, filters: Mapping[str, Any] | None) -> bool:
    """Whether a run has what filters of MongoDB ask for; raises ``UsageError`` for unknown ones."""
    for key, wanted in (filters or {}).items():
        if key == "$and":
            found = all(matches(run, one) for one in wanted)
        elif key == "$or":
            found = any(matches(run, one) for one in wanted)
        else:
            found = _has(_value_of(run, key), wanted)
        if not found:
            return False
    return True


def ordered(runs: Iterable[ApiRun], order: str) -> list[ApiRun]:
    """Runs by a field, ascending with ``+`` and descending with ``-``; those without it last."""
    values = [(_rank(_value_of(run, order.lstrip("+-"))), run) for run in runs]
    known = [pair for pair in values if pair[0] is not None]
    # Runs of the same second, or the same value, are in the order in which they began.
    known.sort(
        key=lambda pair: (pair[0] or (), pair[1]._data.info.created or 0.0),
        reverse=order.startswith("-"),
    )
    return [run for _, run in known] + [run for rank, run in values if rank is None]


def _value_of(run: ApiRun, key: str) -> Any:
    """The value of a field by its name in a filter; a marker where the run has none."""
    prefix, _, path = key.partition(".")
    values = {"config": "config", "summary_metrics": "summary", "summary": "summary"}.get(prefix)
    if not path and (name := _FIELDS.get(key, key)) in dir(run):
        return getattr(run, name)
    if values is None or not path:
        raise UsageError(
            f"the filter {key!r} is not known: use config.NAME, summary_metrics.NAME or a property"
            " of runs such as state, tags, group or created_at."
        )
    return _inner(getattr(run, values), path.removesuffix(".value"))


def _inner(values: Any, path: str) -> Any:
    """The value at a path with dots."""
    if not isinstance(values, Mapping):
        return _MISSING
    if path in values:
        return values[path]
    head, dot, rest = path.partition(".")
    return _inner(values.get(head), rest) if dot else _MISSING


def _has(value: Any, wanted: Any) -> bool:
    if not isinstance(wanted, Mapping) or not any(str(key).startswith("$") for key in wanted):
        wanted = {"$eq": wanted}
    for name, operand in wanted.items():
        test = _OPERATORS.get(name)
        if test is None:
            raise UsageError(f"{name!r} is not known: use {', '.join(_OPERATORS)}.")
        try:
            if not test(value, operand):
                return False
        except TypeError:  # a value that is missing, or of another type
            return False
    return True


def _equals(value: Any, wanted: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return list(value) == list(wanted) if isinstance(wanted, (list, tuple)) else wanted in value
    return wanted is None if value is _MISSING else bool(value == wanted)


def _in(value: Any, operand: Any) -> bool:
    values = value if isinstance(value, (list, tuple)) else [value]
    return any(one in operand for one in values)


def _regex(value: Any, operand: Any) -> bool:
    texts = value if isinstance(value, (list, tuple)) else [value]
    return any(isinstance(text, str) and re.search(str(operand), text) for text in texts)


_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "$eq": _equals,
    "$ne": lambda value, operand: not _equals(value, operand),
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
    "$in": _in,
    "$nin": lambda value, operand: not _in(value, operand),
    "$exists": lambda value, operand: (value is not _MISSING) == bool(operand),
    "$regex": _regex,
}


def _rank(value: Any) -> tuple[int, Any] | None:
    if value is _MISSING or value is None:
        return None
    if isinstance(value, (bool, int, float)):
        return (0, as_float(value)) if value == value else None
    return 1, str(value)
