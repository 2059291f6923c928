"""Where things lie in a run folder, how names become folders, and how far a search for runs goes.

runs/<project>/boards/<slug>.json    what people arrange; see ``epochal.journal.boards``
runs/<project>/<slug>/
  run.json  labels.json  journal/<writer>.<attempt>.<part>.jsonl  segments/  blobs/
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from epochal.base.atomic_file import replaced_file, sync_folder
from epochal.errors import FormatError, UsageError
from epochal.journal.line import (
    MAX_DEPTH,
    decode_json,
    encode_json,
    nests_too_deeply,
    without_surrogates,
)
from epochal.journal.regular_file import NotRegularFileError, read_regular

LOOP = "loop"
FINDINGS = "findings"
# Companions write as telemetry-<node>.
TELEMETRY = "telemetry-"
_RANK = "rank-"
LAUNCH_FOLDER = ".launch"
# In the folder of a project, beside its runs.
BOARDS_FOLDER = "boards"
# Held by whoever edits labels.json.
LABELS_LOCK = ".labels.lock"
# The blobs with the changes of the code that were not committed.
_PATCH_NAME = re.compile(r"uncommitted(-[0-9a-f]+)?\.patch")
_MAX_SLUG_BYTES = 100
MAX_JSON_BYTES = 16 * 1024 * 1024
_PART_NAME = re.compile(
    r"(?P<writer>[a-z0-9][a-z0-9_-]*)\.(?P<attempt>[0-9]{4,})\.(?P<part>[0-9]{4,})"
)
# Device names that Windows reserves whatever their ending.
_RESERVED = {"con", "prn", "aux", "nul"} | {f"{d}{i}" for d in ("com", "lpt") for i in range(10)}


class JsonFileError(FormatError):
    """A small JSON file that cannot be read; ``fault`` is what is wrong with it."""

    def __init__(self, path: Path, fault: str) -> None:
        super().__init__(f"cannot read {path.parent}: {path.name} {fault}.")
        self.fault = fault


class PartName(NamedTuple):
    """One journal file: who wrote it, in which attempt, which part of it."""

    writer: str
    attempt: int
    part: int

    @property
    def stem(self) -> str:
        """The file name without its suffix; a sealed segment has the same."""
        return f"{self.writer}.{self.attempt:04d}.{self.part:04d}"


def rank_writer(rank: int) -> str:
    """The name a rank writes under."""
    return LOOP if rank == 0 else f"{_RANK}{rank:04d}"


def rank_of_writer(writer: str) -> int | None:
    """The rank in a writer's name; None if only its first record has it."""
    if writer == LOOP:
        return 0
    rank = writer.removeprefix(_RANK)
    return int(rank) if rank != writer and rank.isdigit() else None


class RunFolder(msgspec.Struct, frozen=True):
    """The paths inside one run's folder."""

    path: Path

    @property
    def identity(self) -> Path:
        """run.json: who this run is."""
        return self.path / "run.json"

    @property
    def labels(self) -> Path:
        """labels.json: what people change later."""
        return self.path / "labels.json"

    @property
    def summary(self) -> Path:
        """summary.json: how this run stands."""
        return self.path / "summary.json"

    @property
    def metrics(self) -> Path:
        """metrics.json: the summaries of all series."""
        return self.path / "metrics.json"

    @property
    def journal(self) -> Path:
        """The folder of journal parts."""
        return self.path / "journal"

    @property
    def segments(self) -> Path:
        """The folder of sealed parts."""
        return self.path / "segments"

    @property
    def blobs(self) -> Path:
        """The folder of images and other large things."""
        return self.path / "blobs"

    @property
    def live(self) -> Path:
        """The folder of live readings, while the run is running."""
        return self.path / "live"

    def part_path(self, name: PartName) -> Path:
        """Where a journal part lies."""
        return self.journal / f"{name.stem}.jsonl"

    def sealed_path(self, name: PartName) -> Path:
        """Where the sealed form of a part lies."""
        return self.segments / f"{name.stem}.parquet"

    def parts(self) -> list[PartName]:
        """Every journal part there is, writers by name, attempts and parts in order."""
        return _part_names(self.journal, ".jsonl")

    def sealed_parts(self) -> list[PartName]:
        """Every sealed part there is, in the same order."""
        return _part_names(self.segments, ".parquet")

    def all_parts(self) -> list[PartName]:
        """Every part there is, sealed or not, in the same order."""
        # The journal first: a part goes from there to the segments, never back.
        return sorted({*self.parts(), *self.sealed_parts()})

    def last_attempt(self) -> int:
        """The highest attempt any writer has, 0 when nothing was written."""
        return max((name.attempt for name in self.all_parts()), default=0)


def node_name(host: str) -> str:
    """A machine's name as it can be part of a writer's."""
    return re.sub(r"[^a-z0-9]+", "-", host.lower()).strip("-")[-60:].strip("-") or "node"


@lru_cache(1024)
def slugify(name: str, noun: str = "run") -> str:
    """A file name for any text: lower case, ASCII, at most 100 bytes, safe on every platform."""
    ascii_text = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9._-]+", "-", ascii_text.lower()).strip("-._")
    if not slug:
        return f"{noun}-{_name_digest(name)}"
    if slug.split(".")[0] in _RESERVED:
        slug = f"{slug.replace('.', '-')}-{noun}"
    if len(slug) > _MAX_SLUG_BYTES:
        slug = f"{slug[: _MAX_SLUG_BYTES - 9].rstrip('-._')}-{_name_digest(name)}"
    return slug


def _name_digest(name: str) -> str:
    import hashlib  # OpenSSL takes half a MiB, and most names need none of it

    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def create_run_folder(project_folder: Path, name: str) -> tuple[RunFolder, str]:
    """Make a new folder for a run; a taken name gets the next free number.

    Readers list no run there until its identity is written.
    """
    for target, candidate in free_names(project_folder, name):
        with staged_folder(project_folder) as staged:
            staged.segments.mkdir()
            if claim(staged, target):
                return RunFolder(target), candidate
    raise UsageError(f"no free folder for a run named {name!r} in {project_folder}.")


def free_names(project_folder: Path, name: str) -> Iterator[tuple[Path, str]]:
    """The folders that a new run may get, and its name in each: that name, then with numbers."""
    project_folder.mkdir(parents=True, exist_ok=True)
    taken = {BOARDS_FOLDER, *(entry.name.lower() for entry in project_folder.iterdir())}
    for number in range(1, 1_000_000):
        candidate = name if number == 1 else f"{name}-{number}"
        slug = slugify(candidate)
        if slug not in taken and not (project_folder / slug).exists():
            yield project_folder / slug, candidate


@contextlib.contextmanager
def staged_folder(project_folder: Path) -> Iterator[RunFolder]:
    """A hidden folder beside the runs, which no reader takes for one; gone afterwards."""
    folder = RunFolder(project_folder / f".new-{os.getpid()}-{os.urandom(4).hex()}")
    folder.path.mkdir(parents=True)
    try:
        yield folder
    finally:
        if folder.path.exists():
            import shutil  # a training that starts without a fault needs none

            shutil.rmtree(folder.path, ignore_errors=True)


def claim(staged: RunFolder, target: Path) -> bool:
    """Give a staged folder its name; False if another process has taken that.

    The staged folder must not be empty. A claimed one is never empty then, so no rename replaces
    it: of several processes that claim one name at once, exactly one gets it.
    """
    try:
        os.rename(staged.path, target)
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            return False
        try:
            target.mkdir()  # a mounted bucket may not rename folders
        except FileExistsError:
            return False
        for path in sorted(staged.path.iterdir()):  # run.json is the last one
            os.rename(path, target / path.name)
    return True


def is_patch(blob_name: str) -> bool:
    """Whether a blob has uncommitted changes, which may contain secrets."""
    return _PATCH_NAME.fullmatch(blob_name) is not None


def run_folders(root: Path) -> Iterator[RunFolder]:
    """Every run below a folder: the folder itself, a project's, or a tree of projects'."""
    if is_run_folder(root):
        yield RunFolder(root)
        return
    for entry in _folders_in(root):
        if is_run_folder(entry):
            yield RunFolder(entry)
        else:
            for inner in _folders_in(entry):
                if is_run_folder(inner):
                    yield RunFolder(inner)


def is_run_folder(path: Path) -> bool:
    """Whether a folder is a run: it has an identity, or at least a journal."""
    return (path / "run.json").is_file() or (path / "journal").is_dir()


def write_json(path: Path, value: Any) -> None:
    """Write a small JSON file so that a reader sees the old one or the new one, never a half."""
    with replaced_file(path, durable=True) as temporary:
        temporary.write_bytes(json_bytes(value) + b"\n")


def write_new_json(path: Path, value: Any) -> bool:
    """Write a small JSON file that is not there yet; False if another process was faster."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}")
    write_json(temporary, value)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if path.exists():
            return False
        os.rename(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def json_bytes(value: Any) -> bytes:
    """What ``write_json`` writes of a value."""
    try:
        return encode_json(value)
    except UnicodeEncodeError:  # a path or an argument that is not UTF-8
        return encode_json(without_surrogates(value))


def read_json(path: Path | str, *, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any]:
    """Read a small JSON object; raises ``JsonFileError`` for a file that is not one.

    Size and depth are bounded: nobody knows who wrote the file.
    """
    try:
        text = read_regular(path, max_bytes=max_bytes)
        value = decode_json(text)
    except NotRegularFileError:
        raise JsonFileError(Path(path), "is not a regular file") from None
    except FormatError:
        raise JsonFileError(Path(path), f"is larger than {max_bytes:,} bytes") from None
    except RecursionError:
        raise JsonFileError(Path(path), "is nested too deeply") from None
    except ValueError as error:
        raise JsonFileError(Path(path), f"is not valid JSON: {str(error).rstrip('.')}") from error
    if not isinstance(value, dict):
        raise JsonFileError(Path(path), "holds no JSON object")
    may_nest = text.count(b"{") + text.count(b"[") > MAX_DEPTH
    if may_nest and nests_too_deeply(value):
        raise JsonFileError(Path(path), "is nested too deeply")
    return value


def json_or_empty(path: Path) -> dict[str, Any]:
    """A small JSON object; an empty one where it cannot be read."""
    try:
        return read_json(path)
    except (OSError, FormatError):
        return {}


@lru_cache(4096)
def parse_part_name(file_name: str, suffix: str) -> PartName | None:
    """The part with this file name, or None for another file."""
    if not file_name.endswith(suffix):
        return None
    match = _PART_NAME.fullmatch(file_name[: -len(suffix)])
    if match is None:
        return None
    return PartName(match["writer"], int(match["attempt"]), int(match["part"]))


def _part_names(folder: Path, suffix: str) -> list[PartName]:
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted(part for name in names if (part := parse_part_name(name, suffix)) is not None)


def _folders_in(path: Path) -> list[Path]:
    try:
        entries = sorted(path.iterdir())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return [entry for entry in entries if entry.is_dir() and not entry.name.startswith(".")]


_StrPath = str | os.PathLike[str]
P = TypeVar("P", str, Path)


class SearchBounds:
    """The folders that are searched, and whether links may lead out of them."""

    def __init__(self, *roots: _StrPath, follow_links: bool = False) -> None:
        self.follow_links = follow_links
        self._roots = tuple(os.path.realpath(root) for root in roots)

    def with_root(self, root: _StrPath) -> SearchBounds:
        """The same bounds, and one more folder within them."""
        return SearchBounds(*self._roots, root, follow_links=self.follow_links)

    def allows(self, path: _StrPath) -> bool:
        """Whether a path may be read: it lies within the folders, or links may be followed."""
        if self.follow_links:
            return True
        real = os.path.realpath(path)
        return any(real == root or real.startswith(_below(root)) for root in self._roots)

    def allows_entry(self, entry: os.DirEntry[str]) -> bool:
        """Like ``allows`` for an entry of a folder that is allowed; free unless it is a link."""
        return self.follow_links or not entry.is_symlink() or self.allows(entry.path)

    def leads_out(self, path: _StrPath) -> bool:
        """Whether what lies in an allowed folder is a link that is not followed."""
        return not self.follow_links and os.path.islink(path) and not self.allows(path)

    def chosen(self, paths: Iterable[P]) -> list[P]:
        """Those of some paths that may be read."""
        return [path for path in paths if self.allows(path)]


def _below(root: str) -> str:
    return root if root.endswith(os.sep) else root + os.sep
