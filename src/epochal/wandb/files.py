"""Files of a run: `save`, `restore`, `log_code`, and artifacts.

There is no registry: an artifact is found again by its name in the folder of runs. Logging a name
again makes its next version; each run that logs a name keeps its own copy of the files.
"""

from __future__ import annotations

import contextlib
import glob as globbing
import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import IO, Any

from epochal.base.atomic_file import temporary_folder
from epochal.exchange.media.types import Sample
from epochal.journal.blobs import Pixels, blob_name, encode
from epochal.journal.layout import read_json, write_json
from epochal.run.run import Run, recorder_of
from epochal.run.run import Run as EpochalRun
from epochal.wandb.data_types import Image, Table
from epochal.wandb.errors import CommError
from epochal.wandb.notices import ExplainsMissingMembers, not_supported, say_once

StrPath = str | os.PathLike[str]
_MAGIC = re.compile(r"[*?[]")
_SKIPPED = frozenset({"__pycache__", "wandb", "runs", "node_modules", "venv"})


class SavedFiles:
    """The files that a program asked to keep; they lie below ``files/`` in the run's folder."""

    def __init__(self, run: Run, folder: Path) -> None:
        self._run = run
        self._folder = folder
        self._copies: dict[Path, Path] = {}

    def add(self, pattern: StrPath, base_path: Any, policy: str, is_pattern: bool) -> list[str]:
        """Copy the files that a pattern names; give the paths of the copies."""
        if policy not in ("live", "now", "end"):
            raise ValueError('Only "live" "end" and "now" policies are currently supported.')
        text = os.fspath(pattern)
        found = globbing.glob(text, recursive=True) if is_pattern else [text]
        fixed = _MAGIC.split(text)[0] if is_pattern else text
        base = Path(os.path.abspath(os.path.dirname(fixed) if base_path is None else base_path))
        kept = (self._add_path(Path(os.path.abspath(path)), base, policy) for path in found)
        return [str(copy) for copy in kept if copy is not None]

    def copy_again(self) -> None:
        """Copy once more what may have changed since."""
        for source, copy in self._copies.items():
            if source.is_file():
                self._copy(source, copy)
        self._copies.clear()

    def open(self, name: str) -> Any:
        """A kept file, open for reading; None where there is none of that name."""
        path = self._folder / name
        return path.open(encoding="utf-8", errors="replace") if path.is_file() else None

    def add_code(self, root: str, include: Any, exclude: Any) -> None:
        """Copy the Python files below a folder, or those that ``include`` selects."""
        base = Path(root).absolute()
        for folder, names, files in os.walk(base):
            names[:] = [name for name in names if name not in _SKIPPED and name[0] != "."]
            for path in (Path(folder) / name for name in files):
                is_wanted = path.suffix == ".py" if include is None else _ask(include, path, base)
                if is_wanted and not (exclude is not None and _ask(exclude, path, base)):
                    self._copy(path, self._folder / "code" / path.relative_to(base))

    def _add_path(self, source: Path, base: Path, policy: str) -> Path | None:
        if not source.is_file() or source.is_relative_to(self._folder):
            return None
        inner = source.relative_to(base) if source.is_relative_to(base) else Path(source.name)
        copy = self._folder / inner
        if policy != "now":
            self._copies[source] = copy
        return copy if self._copy(source, copy) else None

    def _copy(self, source: Path, copy: Path) -> bool:
        recorder = recorder_of(self._run)
        if not recorder.is_recorded:
            return False
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy)
        except OSError as error:
            recorder.console.notice(f"{str(source)!r} could not be kept: {error}")
            return False
        return True


def _ask(call: Callable[..., bool], path: Path, base: Path) -> bool:
    """Call a function of the path, or of the path and the folder."""
    arguments = (str(path), str(base))[: max(1, len(signature(call).parameters))]
    return bool(call(*arguments))


# -- artifacts -------------------------------------------------------------------------------------


_TABLE = ".table.json"
# What W&B accepts; a name is a folder.
_NAME = re.compile(r"[a-zA-Z0-9_\-][a-zA-Z0-9_\-.]*")


class ArtifactEntry(ExplainsMissingMembers):
    """One file of an artifact."""

    def __init__(self, path: str, local_path: Path) -> None:
        self.path = self.name = path
        self._local = local_path
        self.local_path = str(local_path)

    @property
    def size(self) -> int:
        """How many bytes the file has."""
        return self._local.stat().st_size

    @property
    def digest(self) -> str:
        """A hash of the file's content."""
        return hashlib.blake2b(self._local.read_bytes(), digest_size=16).hexdigest()

    def download(self, root: str | None = None, **ignored: Any) -> str:
        """Copy the file into a folder, if one is given; return its path."""
        if root is None:
            return self.local_path
        target = Path(root) / self.path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.absolute() != self._local:
            shutil.copyfile(self._local, target)
        return str(target)


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
        self._name = self.name = name
        self.type, self.description = type, description
        self.metadata = dict(metadata or {})
        self.aliases: list[str] = []
        self.tags: list[str] = []
        # Once it is logged, the name has the version: ``v0``, ``v1`` and so on.
        self.version, self.state = "latest", "PENDING"
        self.id: str | None = None
        self._about: Path | None = None
        self._entries: dict[str, ArtifactEntry] = {}
        self._made: Path | None = None

    @property
    def size(self) -> int:
        """How many bytes the files have."""
        return sum(entry.size for entry in self._entries.values())

    @property
    def file_count(self) -> int:
        """How many files there are."""
        return len(self._entries)

    @property
    def digest(self) -> str:
        """A hash of the names and contents of the files."""
        parts = "".join(f"{name}{one.digest}" for name, one in sorted(self._entries.items()))
        return hashlib.blake2b(parts.encode(), digest_size=16).hexdigest()

    def add_file(
        self, local_path: StrPath, name: str | None = None, **ignored: Any
    ) -> ArtifactEntry:
        """Add a file."""
        path = Path(local_path).absolute()
        if not path.is_file():
            raise ValueError(f"Path is not a file: {str(local_path)!r}")
        return self._add(name or path.name, path)

    def add_dir(self, local_path: StrPath, name: str | None = None, **ignored: Any) -> None:
        """Add every file below a folder."""
        base = Path(local_path).absolute()
        if not base.is_dir():
            raise ValueError(f"Path is not a directory: {str(local_path)!r}")
        for path in sorted(base.rglob("*")):
            if path.is_file():
                inner = path.relative_to(base).as_posix()
                self._add(f"{name}/{inner}" if name else inner, path)

    def add(self, obj: Any, name: str, overwrite: bool = False) -> ArtifactEntry:
        """Add a table or a picture as a file; ``get`` reads it."""
        if not isinstance(obj, Sample):
            raise TypeError(f"Found object of type {type(obj)}, expected a table or other media.")
        before = dict(self._entries)
        record = obj.record(_Keep(self))
        stored = self._entries[record["file"]]
        if record["file"] not in before:
            del self._entries[record["file"]]
        suffix = _TABLE if isinstance(obj, Table) else Path(record["file"]).suffix
        return self._add(name if name.endswith(suffix) else name + suffix, Path(stored.local_path))

    @contextlib.contextmanager
    def new_file(self, name: str, mode: str = "x", encoding: Any = None) -> Iterator[IO[Any]]:
        """Open a new file of the artifact for writing."""
        if self._made is None:
            self._made = temporary_folder(self)
        path = self._made / _inner(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode, encoding=encoding) as file:
            yield file
        self._add(name, path)

    def get(self, name: str) -> Any:
        """A table or a picture that was added; None where there is none of that name."""
        if (entry := self._entries.get(f"{name.removesuffix(_TABLE)}{_TABLE}")) is not None:
            content = read_json(Path(entry.local_path))
            rows = [[self._value(cell) for cell in row] for row in content["data"]]
            return Table(columns=content["columns"], data=rows)
        pictures = (one for path, one in self._entries.items() if path.rpartition(".")[0] == name)
        return next((Image(one.local_path) for one in pictures), None)

    def files(self, names: list[str] | None = None, **ignored: Any) -> list[ArtifactEntry]:
        """The files."""
        return [one for name, one in self._entries.items() if names is None or name in names]

    def get_entry(self, name: str) -> ArtifactEntry:
        """One file; raises ``KeyError`` where there is none of that name."""
        if name not in self._entries:
            raise KeyError(f"Path not contained in artifact: {name}")
        return self._entries[name]

    get_path = get_entry

    def file(self, root: str | None = None) -> str:
        """The path of the only file."""
        if len(self._entries) != 1:
            raise ValueError("This artifact contains more than one file: call download().")
        return next(iter(self._entries.values())).download(root)

    def download(self, root: str | None = None, **ignored: Any) -> str:
        """Copy the files into a folder, by default ``artifacts/NAME-VERSION``; give its path."""
        target = Path(root or Path("artifacts") / self.name.replace(":", "-"))
        target.mkdir(parents=True, exist_ok=True)
        for entry in self._entries.values():
            entry.download(str(target))
        return str(target)

    def save(self, *ignored: Any, **more: Any) -> None:
        """Log the artifact in the current run; one that is logged keeps its new facts."""
        from epochal.wandb.session import ACTIVE

        if self._about is None:
            ACTIVE.needed("Artifact.save()").log_artifact(self)
        else:
            self._write_about()

    def wait(self, timeout: int | None = None) -> Artifact:
        """Return at once: a copy is complete when ``log_artifact`` returns."""
        return self

    def _store(self, root: Path, folder: Path) -> None:
        """Copy the files below a run's folder, as the next version of the name below ``root``."""
        number = max((_number(about) for about in _versions(root, self._name)), default=-1) + 1
        target = folder / "files" / "artifacts" / self._name / f"v{number}"
        self.download(str(target))
        self._commit(target.with_name(f"v{number}.json"))
        self._write_about()

    def _commit(self, about: Path) -> None:
        """Become a version: its file, with its folder beside it."""
        self._about, self.version, self.state = about, about.stem, "COMMITTED"
        self.name = self.id = f"{self._name}:{self.version}"
        self._entries.clear()
        self.add_dir(about.with_suffix(""))

    def _write_about(self) -> None:
        names = ("type", "description", "metadata", "aliases", "tags")
        assert self._about is not None
        write_json(self._about, {name: getattr(self, name) for name in names})

    @classmethod
    def _load(cls, about: Path) -> Artifact:
        facts = read_json(about)
        artifact = cls(about.parent.name, facts["type"], facts["description"], facts["metadata"])
        artifact.aliases, artifact.tags = facts["aliases"], facts["tags"]
        artifact._commit(about)
        return artifact

    def _add(self, name: str, path: Path) -> ArtifactEntry:
        self._entries[_inner(name)] = ArtifactEntry(name, path)
        return self._entries[name]

    def _value(self, cell: Any) -> Any:
        is_picture = isinstance(cell, dict) and str(cell.get("media_type")).startswith("image/")
        return Image(self._entries[cell["file"]].local_path) if is_picture else cell


class _Keep:
    """Stores the parts of a table or a picture as files of an artifact."""

    def __init__(self, artifact: Artifact) -> None:
        self._artifact = artifact

    def file(self, data: bytes, media_type: str) -> str:
        """Store some bytes, and return the name of their file."""
        name = f"media/{blob_name(media_type, data)}"
        with self._artifact.new_file(name, mode="wb") as file:
            file.write(data)
        return name

    def pixels(self, pixels: Pixels) -> str:
        """Store pixels as a picture."""
        return self.file(encode(pixels), pixels.media_type)

    def note(self, sentence: str) -> None:
        """Report something about the sample."""
        say_once(sentence)


class ArtifactCalls:
    """The calls of a run about artifacts."""

    _run: EpochalRun

    def log_artifact(
        self,
        artifact_or_path: Artifact | StrPath,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 (W&B's name)
        aliases: list[str] | None = None,
        tags: list[str] | None = None,
    ) -> Artifact:
        """Copy the files of an artifact into the run's folder, and record what it is."""
        artifact = artifact_or_path
        if not isinstance(artifact, Artifact):
            path = Path(artifact)
            artifact = Artifact(name or f"run-{self._run.id}-{path.name}", type or "unspecified")
            artifact.add_dir(path) if path.is_dir() else artifact.add_file(path)
        recorder = recorder_of(self._run)
        artifact.aliases = list(dict.fromkeys([*artifact.aliases, *(aliases or []), "latest"]))
        artifact.tags += [tag for tag in tags or () if tag not in artifact.tags]
        if recorder.is_recorded and artifact.state == "PENDING":
            artifact._store(self._run.dir.parent.parent, recorder.folder.path)
            facts = {"type": artifact.type, "aliases": artifact.aliases}
            names = [entry.path for entry in artifact.files()]
            self._run.event("artifact", artifact=artifact.name, **facts, files=names)
        return artifact

    def link_artifact(self, artifact: Artifact, target_path: str, aliases: Any = None) -> Artifact:
        """Log the artifact, if it is not logged: there is no registry to link it to."""
        not_supported("link_artifact()", "the artifact is kept in the run")
        return self.log_artifact(artifact, aliases=aliases)

    def use_artifact(
        self, artifact_or_name: Artifact | str, *ignored: Any, **more: Any
    ) -> Artifact:
        """Find an artifact that a run of this folder has logged; record that it is used."""
        if isinstance(artifact_or_name, Artifact):
            return self.log_artifact(artifact_or_name)
        artifact = find_artifact(self._run.dir.parent.parent, artifact_or_name)
        self._run.event("artifact-used", artifact=artifact.name)
        return artifact

    def log_model(self, path: StrPath, name: str | None = None, aliases: Any = None) -> Artifact:
        """Copy the files of a model into the run's folder."""
        name = name or f"run-{self._run.id}-{Path(path).name}"
        return self.log_artifact(path, name=name, type="model", aliases=aliases)

    def link_model(self, path: StrPath, registered_model_name: str, **options: Any) -> Artifact:
        """Log the model: there is no registry to link it to."""
        return self.log_model(path, **{"name": registered_model_name, **options})

    def use_model(self, name: str) -> str:
        """The path of a model that a run of this folder has logged."""
        artifact = self.use_artifact(name)
        return artifact.file() if artifact.file_count == 1 else artifact.download()


def find_artifact(root: Path, name: str) -> Artifact:
    """The newest artifact of a name, version or alias below a folder; raises ``CommError``."""
    plain, _, alias = name.rpartition("/")[2].partition(":")
    if not _NAME.fullmatch(plain):
        raise CommError(f"{name!r} is not the name of an artifact.")
    for about in sorted(_versions(root, plain), key=_number, reverse=True):
        if alias in ("", "latest", about.stem) or alias in read_json(about)["aliases"]:
            return Artifact._load(about)
    raise CommError(f"no run below {root} has logged an artifact {name!r}.")


def artifacts_below(folder: Path) -> list[Artifact]:
    """The artifacts that the run of a folder logged."""
    return [Artifact._load(path) for path in sorted(folder.glob("files/artifacts/*/v*.json"))]


def _versions(root: Path, name: str) -> list[Path]:
    """The file of each version of an artifact that runs below a folder logged."""
    return [path for path in root.glob(f"*/*/files/artifacts/{name}/v*.json") if _number(path) >= 0]


def _number(about: Path) -> int:
    digits = about.stem.removeprefix("v")
    return int(digits) if digits.isdigit() else -1


def _inner(name: str) -> str:
    """The name of a file inside an artifact; raises for one that leads out of it."""
    path = Path(name)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError(f"a file of an artifact cannot be named {name!r}: it leads out of it.")
    return name
