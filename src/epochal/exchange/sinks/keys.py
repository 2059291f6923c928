"""The names under which trackers get a run's numbers: keys and units, and TensorBoard's usual tags.

Series keep their names (``train/loss``, ``eval/loss``, ``moe/aux_loss``). Telemetry of a GPU is
``gpu/<id>/<name>``, of a GPU of another node ``<node>/gpu/<id>/<name>``, so that no two collide;
its memory is in MiB and its PCIe traffic in MiB/s. Memory by segment is
``allocator/<segment>_mib``.
"""

from __future__ import annotations

import hashlib
import importlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from epochal.exchange.sinks.sink import Entry, NotHeldError
from epochal.records import ALLOCATOR_PLACES, KINDS, ROLE_GUESSES, declared_series, scalars_of
from epochal.records.values import as_float
from epochal.series.importance import Importance, importance

MIB = 1024 * 1024
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]")
_IN_BYTES = frozenset(
    field.name for field in KINDS["gpu"].fields if field.unit in ("bytes", "bytes/s")
)
# Where a segment's memory lies; what lies on the device needs no further word.
_PLACES = {place: "" if place == "device" else f"_{place}" for place in ALLOCATOR_PLACES}


def keyed_scalars(entry: Entry) -> dict[str, float]:
    """Every number of a record under the name and in the unit that trackers get."""
    if entry.kind == "allocator":
        return dict(_allocations(entry.record))
    prefix = "" if entry.node is None else f"{entry.node}/"
    values = {f"{prefix}{name}": value for name, value in scalars_of(entry.record)}
    if entry.kind != "gpu":
        return values
    return {
        name: value / MIB if name.rpartition("/")[2] in _IN_BYTES else value
        for name, value in values.items()
    }


def histogram_bins(record: Mapping[str, Any]) -> tuple[list[float], list[float]]:
    """Counts and edges of a histogram; raises ``NotHeldError`` for one without any bins.

    Equal values may be recorded in bins without width. They get bins that a tracker can draw, as
    ``numpy.histogram`` makes them.
    """
    counts = record.get("counts") or []
    if not counts:
        raise NotHeldError("the histogram has no finite values.")
    lo, hi = as_float(record["lo"]), as_float(record["hi"])
    if lo == hi:
        aside = max(0.5, abs(lo) * 1e-6)
        lo, hi = lo - aside, hi + aside
        middle = len(counts) // 2
        counts = [sum(counts) if place == middle else 0 for place in range(len(counts))]
    return counts, [lo + (hi - lo) * index / len(counts) for index in range(len(counts) + 1)]


def allocator_prefix(record: Mapping[str, Any]) -> str:
    """``allocator/``, with the GPU's id where the record has one."""
    return f"allocator/gpu{record['id']}/" if "id" in record else "allocator/"


def _allocations(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    prefix = allocator_prefix(record)
    for segment in record.get("stats") or ():
        name = segment.get("name") if isinstance(segment, Mapping) else None
        for place, word in _PLACES.items() if name else ():
            size = segment.get(place)
            # Every segment has a figure on the device; elsewhere only what is there.
            if isinstance(size, (int, float)) and (size or not word):
                yield f"{prefix}{name}{word}_mib", size / MIB


def path_name(name: str, *, limit: int = 150) -> str:
    """A name that can be a path in a tracker's folder; a long one is cut and ends in a digest."""
    plain = posixpath.normpath(_NOT_IN_NAMES.sub("_", name)).strip("/.") or "_"
    if len(plain.encode()) <= limit:
        return plain
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain.encode()[: limit - 9].decode(errors='ignore')}-{digest}"


def sample_name(record: Mapping[str, Any]) -> str:
    """The name of a sample, with its place for trackers that have no lists."""
    index = record.get("index")
    return f"{record.get('name')}" if index is None else f"{record.get('name')}/{index}"


def plotly_figure(path: Path) -> Any:
    """A figure of Plotly from its file; raises ``NotHeldError`` where plotly is not installed."""
    try:
        plotly = importlib.import_module("plotly.io")
    except ImportError as error:
        raise NotHeldError("the package plotly is missing.") from error
    return plotly.from_json(path.read_text(encoding="utf-8"))


class SampleLists:
    """Joins the samples of a list, which are records of their own, into one value to send.

    ``send`` gets the entry of the first sample, and the values by name.
    """

    def __init__(self, send: Callable[[Entry, dict[str, Any]], None]) -> None:
        self._send = send
        self._first: Entry | None = None
        self._values: dict[str, Any] = {}

    def add(self, entry: Entry, values: dict[str, Any]) -> None:
        """Send the values of an entry; those of a list wait for the next entry or ``flush``."""
        index, first = entry.record.get("index"), self._first
        is_same = first is not None and first.step == entry.step
        if index and is_same and self._values.keys() == values.keys():
            for name, value in values.items():
                self._values[name].append(value)
            return
        try:
            self.flush()
        finally:
            if index is not None:
                self._first, self._values = entry, {n: [value] for n, value in values.items()}
            elif values:
                self._send(entry, values)

    def flush(self) -> None:
        """Send the list that waits."""
        first, self._first = self._first, None
        if first is not None:
            self._send(first, self._values)


_TAGGED = [(name, field) for name, field in declared_series() if field.tensorboard]
_FIXED = {name: field.tensorboard for name, field in _TAGGED if field.role is None}
_ROLES = {str(field.role): field.tensorboard for _, field in _TAGGED if field.role is not None}
_GUESSES = {
    role: tuple(name for name in ROLE_GUESSES[role] if role != "throughput" or "token" in name)
    for role in _ROLES
}
_GUESSED_ROLE = {name: role for role, names in _GUESSES.items() for name in names}
_HISTOGRAMS = {
    "parameters": "Parameters",
    "params": "Parameters",
    "weights": "Parameters",
    "gradients": "Gradients",
    "grads": "Gradients",
    "grad": "Gradients",
}
_EVAL = "eval/"
_SAMPLES = "Generated_Samples/text"
_SAMPLE_NAMES = frozenset({"sample", "samples", "generated", "generated_samples"})


class RoleTags:
    """Remembers which series has which role; ``plain()`` is what to go on from later."""

    def __init__(self, memory: Mapping[str, Any] | None = None) -> None:
        remembered = memory or {}
        # Series name by role.
        self._holders: dict[str, str] = dict(remembered.get("holders") or {})
        self._goals: set[str] = set(remembered.get("goals") or ())
        # What was found out before, until a role changes hands.
        self._known: dict[tuple[str, str], str] = {}
        self._importance: dict[str, Importance] = {}

    def plain(self) -> dict[str, Any]:
        """The state, as JSON values."""
        return {"holders": self._holders, "goals": sorted(self._goals)}

    def define(self, record: Mapping[str, Any]) -> None:
        """Apply a ``define`` record; it wins over guesses."""
        role, name = record.get("role"), record.get("name")
        if record.get("goal") in ("min", "max") and isinstance(name, str):
            self._goals.add(name)
            self._importance.clear()
        if role in _ROLES and isinstance(name, str):
            self._hold(str(role), name)

    def look(self, names: Collection[str]) -> None:
        """Let series that are logged together take the roles that are free."""
        candidates = {_GUESSED_ROLE[name] for name in names if name in _GUESSED_ROLE}
        for role in candidates - self._holders.keys():
            taken = self._holders.values()
            free = [name for name in _GUESSES[role] if name in names and name not in taken]
            if free:
                self._hold(role, free[0])

    @property
    def has_both_losses(self) -> bool:
        """Whether it is known which series are the losses of training and evaluation."""
        return {"loss", "eval_loss"} <= self._holders.keys()

    def importance(self, name: str) -> Importance:
        """How important a series is, as far as roles and goals are known by now."""
        found = self._importance.get(name)
        if found is None:
            role = next((role for role, holder in self._holders.items() if holder == name), None)
            is_declared = any(fnmatchcase(name, pattern) for pattern in self._goals)
            found = importance(name, role=role, is_declared=is_declared)
            self._importance[name] = found
        return found

    def have_goals(self, names: Collection[str]) -> bool:
        """Whether every metric whose goal the program declared by its name is one of these."""
        return all(name in names for name in self._goals if not {*name} & {*"*?["})

    def scalar(self, name: str, *, kind: str) -> str:
        """The tag of a series; a free metric of an evaluation goes under ``Evaluation/``."""
        tag = self._known.get((name, kind))
        if tag is None:
            tag = self._known[name, kind] = self._found(name, kind)
        return tag

    def _hold(self, role: str, name: str) -> None:
        self._holders[role] = name
        self._known.clear()
        self._importance.clear()

    def _found(self, name: str, kind: str) -> str:
        for role, holder in self._holders.items():
            if holder == name:
                return _ROLES[role]
        if name in _FIXED:
            return _FIXED[name]
        if name.startswith(_EVAL):
            return f"Evaluation/{name.removeprefix(_EVAL)}"
        return f"Evaluation/{name}" if kind == "eval" and "/" not in name else name


class LiveMetrics:
    """The most important metrics of a growing run: a target that is read live gets only these.

    A metric is sent from its first value on if fewer than ``most`` of those that are sent are at
    least as important; what is sent once is always sent. Readings of the machine and series of
    single tensors wait for the first other metric. Without ``most`` all are sent.
    """

    def __init__(self, most: int | None, state: Mapping[str, Any] | None = None) -> None:
        remembered = state or {}
        self.most = most
        self.has_left_out = bool(remembered.get("left_out"))
        self._sent: dict[str, int] = dict(remembered.get("live") or {})
        self._left_out: set[str] = set()

    def plain(self) -> dict[str, Any]:
        """The state, as JSON values."""
        return {"metrics": self.most, "live": self._sent, "left_out": self.has_left_out}

    def reconsider(self) -> None:
        """Decide again about what is not sent: goals or roles were declared."""
        self._left_out.clear()

    def chosen(self, names: Iterable[str], importance: Callable[[str], Importance]) -> list[str]:
        """Those metrics of a record that are sent."""
        if self.most is None:
            return list(names)
        known = list(names)
        new = [name for name in known if name not in self._sent and name not in self._left_out]
        for name in sorted(new, key=importance):
            level = importance(name)
            if level.is_detail and not self._sent:
                self.has_left_out = True
            elif sum(sent <= level for sent in self._sent.values()) < self.most:
                self._sent[name] = int(level)
            else:
                self.has_left_out = True
                self._left_out.add(name)
        return [name for name in known if name in self._sent]


def histogram_tag(name: str) -> str:
    """The tag of a histogram: weights under ``Parameters/``, gradients under ``Gradients/``."""
    group, slash, rest = name.partition("/")
    return (
        f"{_HISTOGRAMS[group.lower()]}/{rest}" if slash and group.lower() in _HISTOGRAMS else name
    )


def text_tag(name: str) -> str:
    """The tag of a text; what a model wrote is under ``Generated_Samples/text``."""
    return _SAMPLES if name.lower() in _SAMPLE_NAMES else name
