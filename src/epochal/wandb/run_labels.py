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
        recorder = recorder_of(run)
        self._run, self._facts = run, dict(facts)
        self.id, self.project, self.sync_dir = run.id, run.project, str(run.dir)
        # These are empty when they were not given.
        self.entity, self.group, self.job_type = (
            str(facts.get(name) or "") for name in ("entity", "group", "job_type")
        )
        self.sweep_id: str | None = facts.get("sweep_id")
        self.path = "/".join(part for part in (self.entity, self.project, self.id) if part)
        # In Unix seconds.
        self.start_time = float(recorder.identity.get("created") or 0.0)
        self.resumed = run.attempt > 1
        self.disabled = not recorder.is_recorded
        self.offline = not self.disabled

    @property
    def name(self) -> str:
        """The run's name; can be set."""
        return str(self._facts.get("name") or self._run.name)

    @name.setter
    def name(self, name: str) -> None:
        self._set_label(name=str(name))

    @property
    def notes(self) -> str | None:
        """Notes on the run; can be set."""
        return self._facts.get("notes")

    @notes.setter
    def notes(self, notes: str) -> None:
        self._set_label(notes=str(notes))

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags of the run; can be set."""
        return tuple(self._facts.get("tags") or ())

    @tags.setter
    def tags(self, tags: Sequence[str]) -> None:
        self._set_label(tags=tuple(str(tag) for tag in tags))

    @property
    def dir(self) -> str:
        """The folder for files of the run, which programs may write into."""
        folder = Path(self._run.dir) / "files"
        if recorder_of(self._run).is_recorded:
            folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    @property
    def url(self) -> str | None:
        """The address of the run's page, if it is served; ``epochal ui`` serves all runs."""
        return recorder_of(self._run).page_url

    def _label(self, *args: Any, **options: Any) -> None:
        """Accept what frameworks tell W&B about themselves."""

    def _set_label(self, **changes: Any) -> None:
        """Write labels.json, the file of what people change later."""
        from epochal.store.local.run_files import edit_labels

        self._facts.update(changes)
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
