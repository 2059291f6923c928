"""The metrics of a run, a window at a time: a run may have a hundred thousand.

The response of a run lists ``MOST_METRICS`` of them at most. Roles and small sections are complete
there, large sections share what is left. ``/api/runs/{id}/metrics`` finds the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import UsageError
from epochal.journal.metrics import Metric
from epochal.query.pattern import compile_pattern
from epochal.server import wire
from epochal.server.params import bool_param, int_param, str_param, str_params
from epochal.server.rows import MOST_METRICS, metric_row
from epochal.server.state import run_response
from epochal.store.metrics import section_of
from epochal.store.run import RunView

_DEFAULT_LIMIT = 200
NAMES = str_params("name", most=100, note="exact")
FIND = str_param("find", note="words of a name")
IS_PATTERN = bool_param("pattern", note="1: `find` is a pattern")
SECTION = str_param("section", note="first part of a name")
OFFSET = int_param("offset", default=0, most=1_000_000_000, note="0")
LIMIT = int_param("limit", default=_DEFAULT_LIMIT, most=MOST_METRICS, note="200, at most 2000")
PARAMS = (NAMES, FIND, IS_PATTERN, SECTION, OFFSET, LIMIT)


class MetricList(msgspec.Struct, frozen=True):
    """A window of the metrics of a run that were asked for; ``total`` counts all of those.

    ``find`` ignores case: all words occur in a name, where ``*`` stands for some characters, or the
    pattern matches. Names without parts are in the section ``metrics``.
    """

    metrics: list[wire.MetricRow]
    total: int
    offset: int


async def run_metrics(request: Request) -> Response:
    """A window of the metrics of a run, by a search or a section."""
    offset, limit = OFFSET(request), LIMIT(request)
    is_wanted = _filter(
        NAMES(request), FIND(request) or "", SECTION(request), is_pattern=IS_PATTERN(request)
    )

    def query(view: RunView) -> MetricList:
        found = [metric for metric in view.metrics() if is_wanted(metric.name)]
        chosen = found[offset : offset + limit]
        return MetricList(rows_of(view, chosen), total=len(found), offset=offset)

    return await run_response(request, query)


def all_metrics(run: RunView) -> MetricList:
    """All metrics of a run, for an archive; none where the response of the run has them all."""
    metrics = run.metrics()
    chosen = metrics if len(metrics) > MOST_METRICS else []
    return MetricList(rows_of(run, chosen), total=len(chosen), offset=0)


def rows_of(run: RunView, metrics: Iterable[Metric]) -> list[wire.MetricRow]:
    """Rows with their summaries."""
    return [metric_row(run, metric, with_summary=True) for metric in metrics]


def _filter(
    names: Sequence[str], find: str, section: str | None, *, is_pattern: bool
) -> Callable[[str], bool]:
    exact, words = frozenset(names), [word.split("*") for word in find.lower().split()]
    try:
        pattern = compile_pattern(f"(?i){find}") if is_pattern and find else None
    except UsageError as error:
        raise UsageError(f"the pattern {find[:100]!r} is not valid: {error}.") from error

    def is_wanted(name: str) -> bool:
        if exact and name not in exact:
            return False
        if section is not None and section_of(name) != section:
            return False
        if pattern is not None:
            return pattern.is_in(name)
        lower = name.lower() if words and not is_pattern else ""
        return is_pattern or all(_occur_in_order(parts, lower) for parts in words)

    return is_wanted


def _occur_in_order(parts: Sequence[str], text: str) -> bool:
    at = 0
    for part in parts:
        found = text.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True
