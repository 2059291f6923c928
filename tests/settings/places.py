"""Files of settings below a test's own folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.settings import read_settings


class Places:
    """A project that is the working folder, and a user's folder of configuration."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.project = folder / "project"
        self.config = folder / "config"
        self.project.mkdir()
        monkeypatch.chdir(self.project)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(self.config))

    def write(self, text: str, *, name: str = "epochal.toml") -> Path:
        path = self.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def write_user(self, text: str) -> Path:
        path = self.config / "epochal" / "epochal.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def mistake(self, text: str) -> str:
        """What is said about a project file."""
        self.write(text)
        with pytest.raises(UsageError) as caught:
            read_settings()
        return str(caught.value)
