"""``wandb.Settings``: takes every setting, and hands on those that mean something here."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

# Settings that are called otherwise than the argument of ``init`` that they stand for.
RENAMED = {
    "run_name": "name",
    "run_id": "id",
    "run_group": "group",
    "run_job_type": "job_type",
    "run_tags": "tags",
    "run_notes": "notes",
    "root_dir": "dir",
}


class Settings(SimpleNamespace):
    """Settings by name. All names are accepted; one that was not given is None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """A setting, or a default where it was not given."""
        return self.__dict__.get(name, default)

    def update(self, values: Mapping[str, Any] | None = None, **more: Any) -> None:
        """Set several settings."""
        self.__dict__.update({**(values or {}), **more})

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of ``init`` that these settings stand for."""
        given = self.__dict__.items()
        return {RENAMED.get(name, name): value for name, value in given if value is not None}


def as_settings(settings: Any) -> Settings:
    """What ``init(settings=...)`` was given, as settings of ours."""
    if settings is None or isinstance(settings, Settings):
        return settings or Settings()
    given = settings if isinstance(settings, Mapping) else vars(settings)
    return Settings(**{name: value for name, value in given.items() if value is not None})
