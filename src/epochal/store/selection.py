"""Applies queries and orders to runs; ``query/filter.py`` is the language."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from epochal.errors import FormatError, MetricNotFoundError, UsageError
from epochal.journal.metrics import NOT_THERE, Metric, dig
from epochal.journal.row import FindingCounts, RunRow, State, Status
from epochal.query import filter as q
from epochal.query.parser import fail
from epochal.query.pattern import compile_pattern
from epochal.records import Axis
from epochal.records.values import flat_items
from epochal.series.summary import Summary
from epochal.store.lookup import near_names
from epochal.store.metrics import level

if TYPE_CHECKING:
    from epochal.store.run import RunView

STATISTICS = ("last", "min", "max", "mean", "first", "count")
_NUMBERS = (float, int)
# Similar names are searched in so many runs.
_NEAR_IN = 200


class Subject:
    """A run as a query reads it: its row, and where that is not enough the run itself."""

    __slots__ = ("_row", "_view")

    def __init__(self, row: RunRow, view: RunView | None = None) -> None:
        self._row = row
        self._view = view

    @property
    def row(self) -> RunRow:
        """Its row."""
        return self._row

    @property
    def view(self) -> RunView:
        """The run."""
        assert self._view is not None
        return self._view

    @property
    def id(self) -> str:
        """Its id in the store."""
        return self.row.id

    @property
    def is_summarised(self) -> bool:
        """Whether more than its identity and status is known."""
        return self.row.is_summarised

    @property
    def config(self) -> Mapping[str, Any]:
        """Its configuration; the run is asked where its row has only the beginning."""
        return self.view.config if self.row.is_cut else self.row.config

    @property
    def status(self) -> Status:
        """Its status."""
        return self.row.status

    @property
    def info(self) -> RunRow:
        """Its row with the counts of its findings."""
        return self.row

    @property
    def search_text(self) -> str:
        """What a search box looks through, but for the status: a line each, in lower case."""
        return "\n".join((self.row.name, self.id, *self.row.tags)).lower()

    def metric(self, name: str) -> Metric | None:
        """The metric of a name, a role or the end of a name."""
        return self.view.metric(name) if self.is_summarised else None

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """Last, extremes and mean of a series."""
        return self.view.summary(name, rank=rank, axis=axis)

    def tail_summary(self, metric: Metric, num_points: int) -> Summary:
        """The same of the last points of the lowest rank."""
        return self.view.tail_summary(metric, num_points)

    def names(self) -> Iterable[str]:
        """The names of its metrics, its summary and its configuration."""
        if self.is_summarised:
            yield from (one.name for one in (*self.view.metrics(), *self.view.set_metrics()))
        yield from (f"config.{key}" for key, _ in flat_items(self.config))


S = TypeVar("S", bound=Subject)
Reading = Callable[[Any], Any]
_Grouping = Callable[[Sequence[Any]], list[tuple[tuple[Any, ...], list[Any]]]]


# Fields of a run that its row has under the same name.
_OF_ROW = (
    "name project tags notes group job_type owner created updated attempts step epoch total_steps"
    " num_epochs records damaged problem nonfinite hidden"
).split()
_PLAIN: dict[str, Reading] = {
    "id": lambda run: run.id,
    **{name: attrgetter(f"row.{name}") for name in _OF_ROW},
    "status": lambda run: run.status.state,
    # For the search box.
    "text": lambda run: (run.row.name, run.id, *run.row.tags, run.status.state),
    # The id of the run that it was forked from.
    "parent": lambda run: None if run.row.fork is None else run.row.fork.id,
    # The seconds from the start of a run to its newest record.
    "duration": lambda run: (
        None if run.row.updated is None else max(0.0, run.row.updated - (run.row.created or 0.0))
    ),
    # How the training is, in a word; a run that no rule has judged has none.
    "diagnosis": lambda run: run.info.diagnosis.state if run.info.diagnosis.is_judged else None,
    **{name: attrgetter(f"info.{name}") for name in FindingCounts._fields},
}
_NESTED = ("config", "summary", "best")
FIELDS = (*_PLAIN, "age")


# What run.json and labels.json say; every other field is known when the journal was read.
_IDENTITY = frozenset(
    "id name project tags notes group job_type owner parent hidden created config".split()
)


def parse_query(text: str) -> Callable[[Subject], bool]:
    """A function that says whether the query selects a run; raises ``UsageError``."""
    return _Compiler(text).condition(q.parse(text))


def parse_order(text: str) -> Callable[[Sequence[S]], list[S]]:
    """A function that sorts runs by fields, separated by commas; ``-`` before one reverses it.

    Runs without the field come last in both directions. Raises ``UsageError``.
    """
    names = [part.strip() for part in text.split(",")]
    keys = [(_reading(name.removeprefix("-")), name.startswith("-")) for name in names]

    def ordered(runs: Sequence[S]) -> list[S]:
        found = list(runs)
        for reading, descending in reversed(keys):
            found = _sorted(found, reading, descending=descending)
        return found

    return ordered


def parse_groups(text: str) -> Callable[[Sequence[S]], list[tuple[tuple[Any, ...], list[S]]]]:
    """What groups runs by the values of fields with commas between; raises ``UsageError``.

    Groups and the runs in them keep the order of the runs. A run that does not have a field has
    None there; lists and objects count as the text that shows them.
    """
    fields = [q.parse_field(part.strip()) for part in text.split(",")]
    readings = [_reading(part.strip()) for part in text.split(",")]

    def grouped(runs: Sequence[S]) -> list[tuple[tuple[Any, ...], list[S]]]:
        if runs:
            check_fields(None, fields, runs)
        found: dict[tuple[Any, ...], tuple[tuple[Any, ...], list[S]]] = {}
        for run in runs:
            read = (reading(run) for reading in readings)
            values = tuple(None if value is NOT_THERE else level(value) for value in read)
            key = tuple((type(value), value) for value in values)  # 1, 1.0 and True are three
            found.setdefault(key, (values, []))[1].append(run)
        return list(found.values())

    return grouped


def _reading(name: str) -> Reading:
    return field_reading(q.parse_field(name), name)


def field_reading(field: q.Field, text: str) -> Reading:
    """What reads a field of a run, ``NOT_THERE`` where a run does not have it; ``UsageError``."""
    return _Compiler(text).field(field)


def fields_in(query: str | None, order: str | None) -> list[q.Field]:
    """The fields that a query and an order name, each once; raises ``UsageError``."""
    found = [] if query is None else list(q.fields_of(q.parse(query)))
    for name in () if order is None else order.split(","):
        found.append(q.parse_field(name.strip().removeprefix("-")))
    return list({field.path: field for field in found}.values())


def _roots(query: str | None, order: str | None) -> set[str]:
    return {field.path[0] for field in fields_in(query, order)}


def metric_name(field: q.Field) -> str | None:
    """The metric that a field is about, if a run has it; None for other fields."""
    root, *names = field.path
    if root in _PLAIN or root == "config":
        return None
    if root == "best":
        return ".".join(names)
    return _statistic_of(names if root == "summary" else field.path)[0]


def check_fields(text: str | None, fields: Iterable[q.Field], runs: Sequence[Subject]) -> None:
    """Raise ``UsageError`` for a short name that no run has; it suggests similar ones.

    ``text`` is the query that has the fields; without it the name alone is shown.
    """
    for field in fields:
        if field.path[0] in (*_PLAIN, *_NESTED):
            continue
        reading = _bare(field.path)
        if all(reading(run) is NOT_THERE for run in runs):
            known = [*_PLAIN, *(name for run in runs[:_NEAR_IN] for name in run.names())]
            hint = near_names(str(field), known, most=1).replace(" Did", "; did").rstrip("?")
            hint = hint or "; a program sets such a value with run.summary"
            fail(f"no run has {str(field)!r}{hint}", text or str(field), field.column)


def _sorted(runs: list[S], reading: Reading, *, descending: bool) -> list[S]:
    read = [(_sortable(reading(run)), run) for run in runs]
    present = [(key, run) for key, run in read if key is not None]
    present.sort(key=itemgetter(0), reverse=descending)
    return [*(run for _, run in present), *(run for key, run in read if key is None)]


def _sortable(value: Any) -> tuple[int, Any] | None:
    """A sort key: numbers before texts before lists; None for what has no order, such as nan."""
    if value is NOT_THERE or value is None or value != value or isinstance(value, Mapping):
        return None
    if isinstance(value, (bool, int, float)):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, str(value))


# The order of lists where nothing else was asked for.
_NEWEST_FIRST = "-created"


class Selection:
    """A query, an order and fields to group by, parsed; raises ``UsageError`` for a mistake."""

    def __init__(
        self, query: str | None = None, order: str | None = None, group: str | None = None
    ) -> None:
        order = None if order == _NEWEST_FIRST else order
        self.query, self.order = query, order
        self.condition = None if query is None else q.parse(query)
        self._selects = None if query is None else parse_query(query)
        self._sort = None if order is None else parse_order(order)
        self.group: _Grouping | None = None if group is None else parse_groups(group)
        self.is_everything = query is None and order is None and group is None
        # Whether it asks for more than the identity and config of runs.
        self.needs_points = not _roots(query, order) <= _IDENTITY
        # Whether a run of which only identity and status are known cannot be judged.
        self.needs_summary = not _roots(query, None) <= _IDENTITY | {"text", "status"}

    def of(self, runs: list[S], select: Callable[..., list[S]]) -> list[S]:
        """The runs that the query selects, in order; a fault in judging one leaves it out.

        Raises ``UsageError`` for a name that no run has, once all of them were read.
        """
        every = runs
        if self._selects is not None:
            runs = select(runs, self._selects, lambda run: run.id)
        if self.needs_points and all(run.is_summarised for run in every):
            if self.query is not None and not runs and every:
                check_fields(self.query, fields_in(self.query, None), every)
            if self.order is not None and runs:
                check_fields(None, fields_in(None, self.order), runs)
        return runs if self._sort is None else self._sort(runs)


class _Compiler:
    """Compiles the tree of a query into functions of a run."""

    def __init__(self, text: str) -> None:
        self._text = text

    def condition(self, node: q.Filter) -> Callable[[Subject], bool]:
        if isinstance(node, q.Junction):
            operands = [self.condition(operand) for operand in node.operands]
            join = all if node.word == "and" else any
            return lambda run: join(operand(run) for operand in operands)
        if isinstance(node, q.Negation):
            operand = self.condition(node.operand)
            return lambda run: not operand(run)
        if isinstance(node, q.Exists):
            reading = self.field(node.field)
            return lambda run: (value := reading(run)) is not NOT_THERE and value is not None
        if isinstance(node, q.Truth):
            reading = self.value(node.value)
            return lambda run: (value := reading(run)) is not NOT_THERE and bool(value)
        return self._comparison(node)

    def value(self, node: q.Value) -> Reading:
        if isinstance(node, q.Constant):
            constant = node.value
            return lambda run: constant
        if isinstance(node, q.Listed):
            readings = [self.value(item) for item in node.items]
            return lambda run: [reading(run) for reading in readings]
        return self.field(node)

    def field(self, node: q.Field) -> Reading:
        root, *names = node.path
        if root in _PLAIN and not names:
            return _PLAIN[root]
        if root in _NESTED and names:
            if root == "config":
                return lambda run: dig(run.config, names)
            return _best(".".join(names)) if root == "best" else _statistic(names)
        if root in _NESTED and root != "best":  # a program may set a value of that name
            example = {"config": "config.lr"}.get(root, f"{root}.loss")
            fail(f"expected a name after {root}, such as {example}", self._text, node.column)
        if root in _PLAIN:
            fail(f"{root} has nothing inside it", self._text, node.column)
        return _bare(node.path)

    def _comparison(self, node: q.Comparison) -> Callable[[Subject], bool]:
        if node.operator in ("==", "!=") and str(node.left) == "tags" and _is_text(node.right):
            # A run has several tags: one of them is meant.
            word: q.Operator = "in" if node.operator == "==" else "not in"
            return self._membership(q.Comparison(word, node.right, node.left, node.column))
        if node.operator in ("~", "!~"):
            return self._pattern(node)
        if node.operator in ("in", "not in"):
            return self._membership(node)
        compare = _COMPARISONS[node.operator]
        for side in (node.left, node.right):
            if isinstance(side, q.Listed) and node.operator not in ("==", "!="):
                fail(f"a list cannot stand beside {node.operator!r}", self._text, side.column)
        left = self.value(self._beside(node.left, node.right))
        right = self.value(self._beside(node.right, node.left))
        return lambda run: compare(left(run), right(run))

    def _beside(self, node: q.Value, field: q.Value) -> q.Value:
        """A side as it is; but a text compared with a time is a date, with the status a state."""
        if not (isinstance(field, q.Field) and isinstance(node, q.Constant)):
            return node
        if not isinstance(node.value, str):
            return node
        if field.path in (("created",), ("updated",)):
            try:
                return q.Constant(datetime.fromisoformat(node.value).timestamp(), node.column)
            except ValueError:
                fail("expected a date, such as '2026-05-01'", self._text, node.column)
        if field.path == ("status",) and node.value not in get_args(State):
            states = ", ".join(get_args(State))
            fail(f"there is no status {node.value!r}; there are {states}", self._text, node.column)
        return node

    def _pattern(self, node: q.Comparison) -> Callable[[Subject], bool]:
        right = node.right
        if not isinstance(right, q.Constant) or not isinstance(right.value, str):
            fail(f"expected a pattern in quotes after {node.operator!r}", self._text, right.column)
        try:
            pattern = compile_pattern(right.value)
        except UsageError as error:
            fail(str(error), self._text, right.column)
        wanted = node.operator == "~"
        if pattern.literal is not None and str(node.left) == "text":
            return _contains(pattern.literal, wanted)
        reading = self.value(node.left)

        def selects(run: Subject) -> bool:
            value = reading(run)
            texts = value if isinstance(value, (list, tuple)) else (value,)
            return wanted is any(isinstance(one, str) and pattern.is_in(one) for one in texts)

        return selects

    def _membership(self, node: q.Comparison) -> Callable[[Subject], bool]:
        if isinstance(node.right, q.Constant) and not isinstance(node.right.value, str):
            fail("expected a list, such as ['a', 'b'], or tags", self._text, node.right.column)
        left, right = self.value(node.left), self.value(node.right)
        wanted = node.operator == "in"

        def selects(run: Subject) -> bool:
            value, among = left(run), right(run)
            if isinstance(among, str):
                found = isinstance(value, str) and value in among
            else:
                members = among if isinstance(among, (list, tuple)) else ()
                found = any(_equal(value, member) for member in members)
            return found is wanted

        return selects


def _is_text(node: q.Value) -> bool:
    return isinstance(node, q.Constant) and isinstance(node.value, str)


def _contains(word: str, wanted: bool) -> Callable[[Subject], bool]:
    """Whether the texts that a search box looks through contain a word in lower case."""
    if any(word in state for state in get_args(State)):
        return lambda run: (word in run.search_text or word in run.status.state) is wanted
    return lambda run: (word in run.search_text) is wanted


def _equal(left: Any, right: Any) -> bool:
    if left is NOT_THERE or right is NOT_THERE:
        return False
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(_equal, left, right))
    return bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Compare numbers with numbers and texts with texts; any other comparison is false."""

    def holds(left: Any, right: Any) -> bool:
        kind, other = type(left), type(right)
        if kind in _NUMBERS:
            return other in _NUMBERS and compare(left, right)
        return kind is str and other is str and compare(left, right)

    return holds


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
}


def _summary(run: Subject, metric: Metric | None, tail: int = 0) -> Summary | None:
    """What a metric amounts to, with ``tail`` over so many last points."""
    if metric is None or not metric.ranks:
        return None
    try:
        if tail and metric.axis != "none":
            return run.tail_summary(metric, tail)
        return run.summary(metric.name, rank=metric.ranks[0], axis=metric.axis)
    except (MetricNotFoundError, FormatError):  # a list never fails for one run
        return None


def _bare(path: Sequence[str]) -> Reading:
    """A name alone: the value of a metric or of the summary, else of the configuration."""
    statistic = _statistic(path)

    def reading(run: Subject) -> Any:
        found = statistic(run)
        return dig(run.config, path) if found is NOT_THERE else found

    return reading


def _statistic_of(names: Sequence[str]) -> tuple[str, str, int]:
    """The metric, the statistic and the number of last points that ``loss.min@100`` means."""
    *metric_names, word = names
    statistic, at, digits = word.partition("@")
    tail = int(digits) if at and digits.isdecimal() and len(digits) < 10 else 0
    is_known = statistic in STATISTICS or (statistic == "best" and tail)
    if not metric_names or not is_known or (at and not tail):
        return ".".join(names), "last", 0
    return ".".join(metric_names), statistic, tail


def _statistic(names: Sequence[str]) -> Reading:
    name, statistic, tail = _statistic_of(names)
    if statistic == "best":
        return _best(name, tail)

    def reading(run: Subject) -> Any:
        # What the program set counts as the last value, whatever it is; the name alone means that.
        found = dig(run.row.summary, names)
        if found is NOT_THERE and statistic == "last" and not tail:
            found = dig(run.row.summary, name.split("."))
        if found is not NOT_THERE:
            return found
        summary = _summary(run, run.metric(name), tail)
        value = None if summary is None else getattr(summary, statistic)
        return NOT_THERE if value is None else value

    return reading


def _best(name: str, tail: int = 0) -> Reading:
    def reading(run: Subject) -> Any:
        metric = run.metric(name)
        goal = None if metric is None else metric.goal
        summary = None if goal is None else _summary(run, metric, tail)
        best = None if goal is None or summary is None else summary.best(goal)
        return NOT_THERE if best is None else best[1]

    return reading
