"""Artifacts, as far as they exist: files that are copied into the run's folder, with their facts.

There is no registry: an artifact is found again by its name in the folder of runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from epochal.journal.layout import read_json, write_json
from epochal.run.run import Run as EpochalRun
from epochal.run.run import recorder_of
from epochal.wandb.errors import CommError
from epochal.wandb.notices import ExplainsMissingMembers

_ABOUT = "artifact.json"
# What W&B accepts; a name is a folder.
_NAME = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_\-.]*")


class Artifact(ExplainsMissingMembers):
    """Files under one name, with a type, a description and metadata."""

    def __init__(
        self,
        name: str,
        type: str,  # noqa: A002 (W&B's name)
        description: str | None = None,
        metadata: dict[str, Any] | None = None,
        **ignored: Any,
    ) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(
                "Artifact name may only contain alphanumeric characters, dashes, underscores, and"
                f" dots. Invalid name: {name!r}"
            )
        self.name = name
        self.type = type
        self.description = description
        self.metadata = dict(metadata or {})
        self.aliases: list[str] = []
        self.files_by_name: dict[str, Path] = {}
        self._made: Path | None = None

    def add_file(
        self, local_path: str | os.PathLike[str], name: str | None = None, **ignored: Any
    ) -> Path:
        """Add a file."""
        path = Path(local_path).absolute()
        if not path.is_file():
            raise ValueError(f"Path is not a file: {str(local_path)!r}")
        self.files_by_name[_inner(name or path.name)] = path
        return path

    def add_dir(
        self, local_path: str | os.PathLike[str], name: str | None = None, **ignored: Any
    ) -> None:
        """Add every file below a folder."""
        base = Path(local_path).absolute()
        if not base.is_dir():
            raise ValueError(f"Path is not a directory: {str(local_path)!r}")
        for path in sorted(base.rglob("*")):
            if path.is_file():
                inner = path.relative_to(base).as_posix()
                self.files_by_name[_inner(f"{name}/{inner}" if name else inner)] = path

    def add(self, obj: Any, name: str, overwrite: bool = False) -> None:
        """Add a table, a picture or another value as a file."""
        for inner, file in obj.artifact_files(name):
            with self.new_file(inner, mode="wb") as out:
                out.write(file.data)

    @contextlib.contextmanager
    def new_file(
        self, name: str, mode: str = "x", encoding: str | None = None
    ) -> Iterator[IO[Any]]:
        """Open a new file of the artifact for writing."""
        if self._made is None:
            self._made = Path(tempfile.mkdtemp(prefix="epochal-artifact-"))
            weakref.finalize(self, shutil.rmtree, self._made, ignore_errors=True)
        path = self._made / _inner(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding=encoding) as file:
            yield file
        self.files_by_name[name] = path

    def files(self) -> list[Path]:
        """The files."""
        return list(self.files_by_name.values())

    def get_path(self, name: str) -> Path:
        """The path of one file."""
        return self.files_by_name[name]

    def download(self, root: str | None = None, **ignored: Any) -> str:
        """Copy the files into a folder, by default ``artifacts/NAME``; give its path."""
        target = Path(root or Path("artifacts") / self.name.replace(":", "-"))
        for name, path in self.files_by_name.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / name)
        return str(target)

    def wait(self, timeout: int | None = None) -> Artifact:
        """Return at once: a copy is complete when ``log_artifact`` returns."""
        return self


class ArtifactCalls:
    """The calls of a run about artifacts."""

    _run: EpochalRun

    def log_artifact(
        self,
        artifact_or_path: Artifact | str | os.PathLike[str],
        name: str | None = None,
        type: str | None = None,  # noqa: A002 (W&B's name)
        aliases: list[str] | None = None,
        **ignored: Any,
    ) -> Artifact:
        """Copy the files of an artifact into the run's folder, and record what it is."""
        artifact = _as_artifact(artifact_or_path, name or f"run-{self._run.id}-artifact", type)
        recorder = recorder_of(self._run)
        artifact.aliases = list(dict.fromkeys([*(aliases or []), "latest"]))
        if recorder.is_recorded:
            folder = recorder.folder.path / "files" / "artifacts" / artifact.name
            folder.mkdir(parents=True, exist_ok=True)
            artifact.download(str(folder))
            about = {"name": artifact.name, "type": artifact.type, "aliases": artifact.aliases}
            write_json(folder / _ABOUT, {**about, "metadata": artifact.metadata})
            about["artifact"] = about.pop("name")
            self._run.event("artifact", **about, files=list(artifact.files_by_name))
        return artifact

    def use_artifact(
        self,
        artifact_or_name: Artifact | str,
        type: str | None = None,  # noqa: A002
        **ignored: Any,
    ) -> Artifact:
        """Find an artifact that a run of this folder has logged; record that it is used."""
        if isinstance(artifact_or_name, Artifact):
            return artifact_or_name
        artifact = find_artifact(self._run.dir.parent.parent, artifact_or_name, type)
        self._run.event("artifact-used", artifact=artifact.name)
        return artifact

    def log_model(
        self,
        path: str | os.PathLike[str],
        name: str | None = None,
        aliases: list[str] | None = None,
    ) -> None:
        """Copy the files of a model into the run's folder."""
        self.log_artifact(
            path, name=name or f"run-{self._run.id}-model", type="model", aliases=aliases
        )

    def use_model(self, name: str) -> str:
        """The path of a model that a run of this folder has logged."""
        artifact = self.use_artifact(name)
        files = artifact.files()
        return str(files[0]) if len(files) == 1 else artifact.download()


def _as_artifact(given: Any, name: str, kind: str | None) -> Artifact:
    if isinstance(given, Artifact):
        return given
    artifact = Artifact(name, kind or "unspecified")
    path = Path(given)
    if path.is_dir():
        artifact.add_dir(path)
    else:
        artifact.add_file(path)
    return artifact


def _inner(name: str) -> str:
    """The name of a file inside an artifact; raises for one that leads out of it."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"a file of an artifact cannot be named {name!r}: it leads out of it.")
    return name


def find_artifact(root: Path, name: str, kind: str | None = None) -> Artifact:
    """The artifact of that name that a run below a folder logged last; raises ``CommError``."""
    plain = name.rpartition("/")[2].partition(":")[0]
    if not _NAME.fullmatch(plain):
        raise CommError(f"{name!r} is not the name of an artifact.")
    found = list(root.glob(f"*/*/files/artifacts/{plain}/{_ABOUT}"))
    if not found:
        raise CommError(f"no run below {root} has logged an artifact {plain!r}.")
    return _read_artifact(max(found, key=lambda path: path.stat().st_mtime), kind)


def artifacts_below(folder: Path) -> list[Artifact]:
    """The artifacts that the run of a folder logged."""
    return [_read_artifact(path) for path in sorted(folder.glob(f"files/artifacts/*/{_ABOUT}"))]


def _read_artifact(path: Path, kind: str | None = None) -> Artifact:
    about = read_json(path)
    kind = str(about.get("type") or kind)
    artifact = Artifact(path.parent.name, kind, metadata=about.get("metadata"))
    artifact.add_dir(path.parent)
    artifact.files_by_name.pop(_ABOUT, None)
    return artifact
