"""Entries: records that are not numbers, such as texts, histograms, findings and log lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from itertools import islice
from typing import Literal, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.journal.entries import Cursor, Entry
from epochal.server import wire
from epochal.server.params import bool_param, int_param, ranks_param, str_param, str_params
from epochal.server.responses import run_id_of
from epochal.server.state import run_response
from epochal.server.updates import entry_row, format_cursors, format_position, parse_cursors
from epochal.store.run import RunView

T = TypeVar("T")
NAME = str_param("name")
RANK = ranks_param()
KIND = str_params("kind", most=64)
LIMIT = int_param("limit", default=500, most=5000, note="500, at most 5000")
OFFSET = int_param("offset", default=0, most=10**9)
SPREAD = bool_param("spread", note="1: evenly over all steps")
SINCE = str_params("since", most=64)
AT = int_param("at", default=10**18, most=10**18, note="a step; the newest by default")
_MOST_STEPS = 5000
RECORD_LIMIT = int_param("limit", default=1000, most=10_000, note="1000, at most 10,000")


class EntrySource(msgspec.Struct, frozen=True):
    """Which records an endpoint lists, and which of them an archive keeps where space is short.

    ``evenly`` keeps entries of each name and rank evenly over steps, ``newest`` the newest,
    ``all`` every one, and ``files`` those whose files have room.
    """

    kinds: tuple[str, ...]
    is_by_rank: bool = True
    keep: Literal["evenly", "newest", "all", "files"] = "evenly"

    def read(
        self,
        run: RunView,
        *,
        rank: int | None = None,
        kinds: Sequence[str] = (),
        is_complete: bool = False,
    ) -> list[Entry]:
        """The entries of one rank by step, or of all ranks by time.

        Findings are computed from a bounded number of records unless ``is_complete``, and say what
        they mean; faults of Epochal itself follow them.
        """
        if self.is_by_rank:
            return run.entries(*self.kinds, rank=rank)
        if self.kinds == ("finding",):
            found = run.findings(most=None) if is_complete else run.findings()
            return [*map(_explained, found), *run.internal_errors()]
        chosen = [kind for kind in self.kinds if not kinds or kind in kinds]
        found = run.entries(*chosen, rank=None) if chosen else []
        return sorted(found, key=lambda entry: entry.t or 0.0)


def _explained(finding: Entry) -> Entry:
    """A finding with the meaning of its rule and the range in which a run is healthy."""
    texts = _rule_texts().get(str(finding.record.get("rule")), {})
    return Entry(finding.position, finding.rank, {**finding.record, **texts})


@cache
def _rule_texts() -> dict[str, dict[str, str]]:
    from epochal.health.registry import RULES  # loads every rule, for runs with findings only

    return {
        rule.name: {"meaning": rule.meaning, "healthy": rule.described(rule.healthy)}
        for rule in RULES
    }


def entries_handler(source: EntrySource) -> Callable[[Request], Awaitable[Response]]:
    """A handler that returns the newest ``limit`` entries before the newest ``offset``."""

    async def entries(request: Request) -> Response:
        name, offset, limit = NAME(request), OFFSET(request), LIMIT(request)
        spread, ranks, kinds = SPREAD(request), RANK(request), KIND(request)

        def query(run: RunView) -> wire.EntryList:
            found = source.read(run, rank=ranks[0] if ranks else None, kinds=kinds)
            names = Counter(entry.name for entry in found if entry.name is not None)
            chosen = [entry for entry in found if name in (None, entry.name)]
            shown = _spread(chosen, limit) if spread else _newest(chosen, offset, limit)
            rows = [entry_row(entry) for entry in shown]
            return wire.EntryList(rows, dict(names), total=len(chosen), offset=offset)

        return await run_response(request, query)

    return entries


class SampleList(msgspec.Struct, frozen=True):
    """The newest samples of each name up to a step, all that were logged together.

    `names` counts all samples, `steps` are those of all names, at most 5000 of them evenly.
    """

    entries: list[wire.EntryRow]
    names: dict[str, int]
    steps: list[int]


async def samples(request: Request) -> Response:
    """Of each name the newest texts and blobs up to a step."""
    at = AT(request)

    def query(run: RunView) -> SampleList:
        found = run.entries("text", "blob", rank=0)
        # Names as they were logged first: records of one call may share their time.
        logged = sorted(found, key=lambda entry: entry.position)
        names = Counter(entry.name or "" for entry in logged)
        steps = sorted({entry.step for entry in found if entry.step is not None})
        # A later step of a name replaces the one before.
        newest: dict[str, list[Entry]] = {name: [] for name in names}
        for entry in found:
            shown = newest[entry.name or ""]
            if entry.step is None or entry.step <= at:
                if shown and shown[0].step != entry.step:
                    shown.clear()
                shown.append(entry)
        rows = [entry_row(entry) for shown in newest.values() for entry in shown]
        return SampleList(rows, dict(names), list(_spread(steps, _MOST_STEPS)))

    return await run_response(request, query)


async def records(request: Request) -> Response:
    """Raw records in file order."""
    limit = RECORD_LIMIT(request)
    since = parse_cursors(SINCE(request))
    run_id = run_id_of(request)

    def query(run: RunView) -> wire.RecordPage:
        cursor: Cursor = since.get(run_id, {})
        found = list(islice(run.records(cursor), limit + 1))
        page = [wire.PositionedRecord(format_position(p), record) for p, record in found[:limit]]
        reached = {**cursor, **{position.writer: position for position, _ in found[:limit]}}
        return wire.RecordPage(page, format_cursors({run_id: reached}), more=len(found) > limit)

    return await run_response(request, query)


def _newest(entries: Sequence[Entry], offset: int, limit: int) -> Sequence[Entry]:
    end = max(len(entries) - offset, 0)
    return entries[max(end - limit, 0) : end]


def _spread(entries: Sequence[T], limit: int) -> Sequence[T]:
    """At most ``limit`` entries or steps, evenly apart, including the first and the last."""
    return [entries[place] for place in evenly(len(entries), limit)]


def evenly(count: int, limit: int) -> Sequence[int]:
    """At most ``limit`` indices below ``count``, evenly apart, including the first and the last."""
    if count <= limit:
        return range(count)
    last, steps = count - 1, max(limit - 1, 1)
    return [last - last * back // steps for back in range(limit - 1, -1, -1)]
