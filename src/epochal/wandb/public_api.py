"""``wandb.Api``: reads the runs of the local store with the calls of W&B's public API."""

from __future__ import annotations

import fnmatch
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, overload

from epochal.errors import EpochalError
from epochal.reading import RunData, Runs
from epochal.reading import open as open_runs
from epochal.settings import read_settings
from epochal.wandb.environment import read_environment
from epochal.wandb.errors import CommError
from epochal.wandb.notices import ExplainsMissingMembers, not_supported
from epochal.wandb.run_filters import matches, ordered
from epochal.wandb.summary_values import with_aggregates

# Epochal's states by W&B's names.
_STATES = {
    "waiting": "pending",
    "running": "running",
    "finished": "finished",
    "failed": "failed",
    "interrupted": "killed",
    "terminated": "killed",
    "crashed": "crashed",
    "silent": "crashed",
    "unreadable": "crashed",
}


class Api(ExplainsMissingMembers):
    """The runs of a folder, by default the one that runs are recorded in.

    ``overrides`` may name another: ``Api(overrides={"dir": "runs"})``.
    """

    def __init__(
        self,
        overrides: Mapping[str, Any] | None = None,
        timeout: int | None = None,
        api_key: str | None = None,
    ) -> None:
        given = {**read_environment(), **(overrides or {})}
        self.settings = given
        self._project = given.get("project")
        folder = given.get("dir")
        self._folder = Path(read_settings().dir if folder is None else Path(folder) / "runs")
        if folder is not None and not self._folder.is_dir():
            self._folder = Path(folder)

    @property
    def default_entity(self) -> str | None:
        """Whose runs are meant: anyone's."""
        return self.settings.get("entity")

    @property
    def viewer(self) -> None:
        """None: nobody is logged in."""

    def flush(self) -> None:
        """Do nothing: every call reads anew."""

    def runs(
        self,
        path: str | None = None,
        filters: Mapping[str, Any] | None = None,
        order: str = "+created_at",
        per_page: int = 50,
        include_sweeps: bool = False,
        lazy: bool = True,
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

    def projects(self, entity: str | None = None, per_page: int = 200) -> list[ApiProject]:
        """The projects that have runs."""
        return [ApiProject(name) for name in dict.fromkeys(run.project for run in self._all())]

    def project(self, name: str, entity: str | None = None) -> ApiProject:
        """A project by its name."""
        return ApiProject(name)

    def sweep(self, path: str = "") -> ApiSweep:
        """A sweep by its id, with the runs that belong to it."""
        from epochal.wandb.sweeps import Sweep

        sweep = Sweep.load(path.strip("/").rpartition("/")[2])
        runs = [run for run in self._all() if run.sweep_name == sweep.id]
        return ApiSweep(sweep.id, sweep.config, runs)

    def artifact(self, name: str, type: str | None = None) -> Any:  # noqa: A002 (W&B's name)
        """An artifact that a run has logged, by its name."""
        from epochal.wandb.artifacts import find_artifact

        return find_artifact(self._folder, name, type)

    def _all(self) -> list[ApiRun]:
        if not self._folder.is_dir():
            return []
        runs: Runs = open_runs(self._folder)
        with runs:
            return [ApiRun(run, self) for run in runs]


class ApiRuns(ExplainsMissingMembers, Sequence["ApiRun"]):
    """Runs in order; iterating, indexing and ``len`` work as for W&B's."""

    def __init__(self, runs: list[ApiRun]) -> None:
        self._runs = runs

    @overload
    def __getitem__(self, index: int) -> ApiRun: ...
    @overload
    def __getitem__(self, index: slice) -> list[ApiRun]: ...
    def __getitem__(self, index: int | slice) -> ApiRun | list[ApiRun]:
        return self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return f"<Runs {len(self._runs)}>"

    def histories(self, *args: Any, **options: Any) -> list[Any]:
        """The history of each run."""
        return [run.history(*args, **options) for run in self._runs]


class ApiRun(ExplainsMissingMembers):
    """One run of the store, with the members of W&B's public ``Run``."""

    def __init__(self, data: RunData, api: Api) -> None:
        self._data, self._api = data, api
        info = data.info
        self.id, self.project, self.state = info.id, info.project, _STATES[info.status.state]
        self.entity, self.group, self.job_type = info.owner or "", info.group, info.job_type
        self.created, self.updated = info.created, info.updated
        # These can be changed; ``update`` writes them.
        self.name, self.tags, self.notes = info.name, list(info.tags), info.notes
        self.config: dict[str, Any] = dict(data.config)

    def __repr__(self) -> str:
        return f"<Run {'/'.join(self.path)} ({self.state})>"

    @property
    def display_name(self) -> str:
        """The run's name."""
        return self.name

    @display_name.setter
    def display_name(self, name: str) -> None:
        self.name = name

    @property
    def path(self) -> list[str]:
        """Entity, project and id."""
        return [part for part in (self.entity, self.project, self.id) if part]

    @property
    def url(self) -> str:
        """The run's folder: ``epochal serve`` shows it."""
        return Path(self._data.info.folder).as_uri()

    @property
    def created_at(self) -> str | None:
        """When the run began, in UTC."""
        return _iso(self.created)

    @property
    def heartbeat_at(self) -> str | None:
        """When the run last recorded something, in UTC."""
        return _iso(self.updated)

    @property
    def rawconfig(self) -> dict[str, Any]:
        """The configuration."""
        return self.config

    @cached_property
    def summary(self) -> dict[str, Any]:
        """The last value of each metric, and what the program set, which wins."""
        names = [m.name for m in self._data.metrics() if m.axis != "time" and 0 in m.ranks]
        last = {name: self._data.summary(name).last for name in names}
        view = self._data.view
        step = self._data.info.step
        own = {} if step is None else {"_step": step}
        texts = {entry.record["name"]: entry.record.get("text") for entry in view.texts()}
        return with_aggregates({**own, **texts, **last, **self._data.info.summary})

    @property
    def summary_metrics(self) -> dict[str, Any]:
        """The summary."""
        return self.summary

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
        name = self.sweep_name
        return None if name is None else self._api.sweep(name)

    @property
    def username(self) -> str:
        """Who the run belongs to."""
        return self.entity

    @property
    def json_config(self) -> str:
        """The configuration as W&B writes it."""
        return json.dumps({key: {"value": value} for key, value in self.config.items()})

    def load(self, force: bool = False) -> None:
        """Read what was recorded since."""
        self._data.refresh()
        self.state = _STATES[self._data.info.status.state]
        self.__dict__.pop("summary", None)

    load_full_data = load

    def wait_until_finished(self) -> None:
        """Return when the run has ended, however."""
        self.load()
        while self.state == "running":
            time.sleep(1.0)
            self.load()

    def logged_artifacts(self, per_page: int = 100) -> list[Any]:
        """The artifacts that the run logged."""
        from epochal.wandb.artifacts import artifacts_below

        return artifacts_below(Path(self._data.info.folder))

    @property
    def metadata(self) -> dict[str, Any]:
        """Where the run came from: command, machine, Python, code."""
        return dict(self._data.view.facts)

    def history(
        self,
        samples: int = 500,
        keys: list[str] | None = None,
        x_axis: str = "_step",
        pandas: bool = True,
        stream: str = "default",
    ) -> Any:
        """Rows of metrics by step, at most ``samples``: a data frame, or a list of dicts."""
        rows = list(self.scan_history(keys))
        if len(rows) > samples > 0:
            chosen = sorted(
                {round(i * (len(rows) - 1) / max(samples - 1, 1)) for i in range(samples)}
            )
            rows = [rows[index] for index in chosen]
        if not pandas:
            return rows
        try:
            frames = import_module("pandas")
        except ModuleNotFoundError:
            not_supported("history(pandas=True) without pandas", "a list of dicts is returned")
            return rows
        return frames.DataFrame.from_records(rows)

    def scan_history(
        self,
        keys: list[str] | None = None,
        page_size: int = 1000,
        min_step: int = 0,
        max_step: int | None = None,
        use_cache: bool = True,
    ) -> Iterator[dict[str, Any]]:
        """Every row by step; with ``keys``, only rows that have all of them."""
        found = {m.name for m in self._data.metrics() if m.axis == "step" and 0 in m.ranks}
        own = {"_step", "_timestamp", "_runtime"}
        texts = [entry.record for entry in self._data.view.texts()]
        texts = [one for one in texts if keys is None or one["name"] in keys]
        wanted = found if keys is None else {key for key in keys if key in found}
        if keys is not None and not wanted | own | {one["name"] for one in texts} >= set(keys):
            return
        rows: dict[int, dict[str, Any]] = {}
        for one in texts:
            if isinstance(one.get("step"), int):
                row = rows.setdefault(one["step"], {"_step": one["step"], "_timestamp": one["t"]})
                row["_runtime"] = one["t"] - (self.created or one["t"])
                row[one["name"]] = one.get("text")
        for name in sorted(wanted):
            series = self._data.series(name, axis="step")
            times = series.times.tolist()
            for step, value, t in zip(
                series.steps.tolist(), series.values.tolist(), times, strict=True
            ):
                row = rows.setdefault(step, {"_step": step, "_timestamp": t})
                row["_runtime"] = t - (self.created or t)
                row[name] = value
        for step in sorted(rows):
            is_inside = step >= min_step and (max_step is None or step < max_step)
            if is_inside and (keys is None or all(key in rows[step] for key in keys)):
                yield rows[step]

    beta_scan_history = scan_history

    def files(
        self, names: list[str] | None = None, pattern: str | None = None, per_page: int = 50
    ) -> list[ApiFile]:
        """The files that the run saved."""
        base = Path(self._data.info.folder) / "files"
        found = [path for path in sorted(base.rglob("*")) if path.is_file()]
        listed = [ApiFile(path.relative_to(base).as_posix(), path) for path in found]
        return [
            one
            for one in listed
            if (names is None or one.name in names)
            and (pattern is None or fnmatch.fnmatch(one.name, pattern.replace("%", "*")))
        ]

    def file(self, name: str) -> ApiFile:
        """One file that the run saved."""
        return ApiFile(name, Path(self._data.info.folder) / "files" / name)

    def update(self) -> None:
        """Write a changed name, tags and notes; the configuration cannot be changed here."""
        view = self._data.view
        if self.config != dict(self._data.config):
            not_supported("changing the config of a run that has ended")
        name, tags, notes = self.name, tuple(self.tags), self.notes
        try:
            view.relabel(lambda labels: replace(labels, name=name, tags=tags, notes=notes))
        except EpochalError as error:
            raise CommError(str(error)) from error

    save = update

    def delete(self, delete_artifacts: bool = False) -> None:
        """Accepted: ``epochal rm`` deletes runs."""
        not_supported("Run.delete()", "nothing is deleted; 'epochal rm' does that")


class ApiFile(ExplainsMissingMembers):
    """One file of a run."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self._path = name, path

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._path.stat().st_size

    def download(self, root: str = ".", replace: bool = False, exist_ok: bool = False) -> Any:
        """Copy the file below a folder; gives it open for reading."""
        target = Path(root) / self.name
        if target.exists() and not (replace or exist_ok):
            raise CommError(f"File already exists, pass `replace=True` to overwrite: {target}")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self._path.read_bytes())
        return target.open(encoding="utf-8", errors="replace")


class ApiProject(ExplainsMissingMembers):
    """A project by its name."""

    def __init__(self, name: str) -> None:
        self.name = self.id = name

    def __repr__(self) -> str:
        return f"<Project {self.name}>"


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
    if at is None:
        return None
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
