"""``save``, ``restore`` and ``log_code``: files that are copied into the folder of a run."""

from __future__ import annotations

import glob as globbing
import os
import re
import shutil
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

from epochal.run.run import Run, recorder_of

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
