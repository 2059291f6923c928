"""What a ``wandb.Run`` says of itself: id, name, project, group, tags, addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError
from epochal.journal.layout import read_json
from epochal.provenance import user_name
from epochal.run.run import Run as EpochalRun
from epochal.run.run import recorder_of
from epochal.wandb.notices import ExplainsMissingMembers


class RunLabels(ExplainsMissingMembers):
    """The properties of ``wandb.Run`` that say what the run is; some can be set."""

    def __init__(self, run: EpochalRun, facts: Mapping[str, Any]) -> None:
        self._run = run
        self._facts = dict(facts)

    @property
    def id(self) -> str:
        """The run's id."""
        return self._run.id

    @property
    def name(self) -> str:
        """The run's name; can be set."""
        return str(self._facts.get("name") or self._run.name)

    @name.setter
    def name(self, name: str) -> None:
        self._facts["name"] = str(name)
        self._write_labels(name=str(name))

    @property
    def notes(self) -> str | None:
        """Notes on the run; can be set."""
        notes = self._facts.get("notes")
        return None if notes is None else str(notes)

    @notes.setter
    def notes(self, notes: str) -> None:
        self._facts["notes"] = str(notes)
        self._write_labels(notes=str(notes))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the run; can be set."""
        return tuple(self._facts.get("tags") or ())

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self._facts["tags"] = tuple(str(tag) for tag in tags)
        self._write_labels(tags=self.tags)

    @property
    def project(self) -> str:
        """The project the run belongs to."""
        return self._run.project

    @property
    def entity(self) -> str:
        """Who the run belongs to; empty when not given."""
        return str(self._facts.get("entity") or "")

    @property
    def group(self) -> str:
        """The group of runs it belongs to; empty when not given."""
        return str(self._facts.get("group") or "")

    @property
    def job_type(self) -> str:
        """What kind of job it is; empty when not given."""
        return str(self._facts.get("job_type") or "")

    @property
    def path(self) -> str:
        """Entity, project and id."""
        return "/".join(part for part in (self.entity, self.project, self.id) if part)

    @property
    def dir(self) -> str:
        """The folder for files of the run, which programs may write into."""
        folder = Path(self._run.dir) / "files"
        if recorder_of(self._run).is_recorded:
            folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    @property
    def sync_dir(self) -> str:
        """The run's folder."""
        return str(self._run.dir)

    @property
    def url(self) -> str | None:
        """The address of the run's page, if it is served; ``epochal ui`` serves all runs."""
        return recorder_of(self._run).page_url

    @property
    def sweep_id(self) -> str | None:
        """The sweep that the run belongs to."""
        sweep = self._facts.get("sweep_id")
        return None if sweep is None else str(sweep)

    @property
    def start_time(self) -> float:
        """When the run began, in Unix seconds."""
        return float(recorder_of(self._run).identity.get("created") or 0.0)

    @property
    def resumed(self) -> bool:
        """Whether the run goes on with an earlier one."""
        return self._run.attempt > 1

    @property
    def offline(self) -> bool:
        """Whether nothing is sent: always, unless disabled."""
        return not self.disabled

    @property
    def disabled(self) -> bool:
        """Whether nothing is recorded."""
        return not recorder_of(self._run).is_recorded

    def _label(self, *args: Any, **options: Any) -> None:
        """Accept what frameworks tell W&B about themselves."""

    def _write_labels(self, **changes: Any) -> None:
        """Write labels.json, the file of what people change later."""
        from epochal.store.local.run_files import edit_labels

        recorder = recorder_of(self._run)
        if not recorder.is_recorded or recorder.rank != 0:
            return
        try:
            edit_labels(recorder.folder, lambda labels: replace(labels, **changes))
        except (OSError, EpochalError) as error:
            recorder.console.notice(f"the labels of the run could not be written: {error}")


def facts_of_resumed(run: EpochalRun) -> dict[str, Any]:
    """What a run that is resumed was called before: name, tags, notes, group, job type, entity."""
    recorder = recorder_of(run)
    if run.attempt < 2 or not recorder.is_recorded:
        return {}
    from epochal.store.local.run_files import read_labels

    told = read_json(recorder.folder.identity)
    known = {key: told.get(key) for key in ("name", "tags", "notes", "group", "job_type")}
    if told.get("owner") != user_name():  # without an entity the owner is the user
        known["entity"] = told.get("owner")
    try:
        labels = read_labels(recorder.folder)
    except EpochalError:  # damaged: readers report that
        return known
    changed = {"name": labels.name, "tags": labels.tags, "notes": labels.notes}
    return {**known, **{key: value for key, value in changed.items() if value is not None}}
