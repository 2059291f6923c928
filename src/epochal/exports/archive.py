"""Writes an archive: runs as one HTML file that opens without a server or network.

The file is the page with the responses of the endpoint table inside. Text of users cannot become
code: it is JSON in an element that browsers do not run, with every HTML character escaped. A policy
allows the page's own script only.

A saved page has no server that compares runs, so groups by likely keys and the keys that matter are
inside. Curves of groups are not: the page draws those from the series in the file.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

import msgspec
from msgspec.structs import replace

from epochal.compare.groups import Member, default_metrics, group_members, members_of, read_values
from epochal.compare.importance import importance_of
from epochal.errors import UsageError
from epochal.exports.archive_series import (
    MAX_SERIES,
    failed_formulas,
    knots_of,
    lines_of,
    pack_entries,
    pack_samples,
    pack_series,
)
from epochal.exports.export import Rows
from epochal.journal.boards import StoredBoard
from epochal.journal.line import without_surrogates
from epochal.records.redact import Redactor
from epochal.records.values import flat_items
from epochal.server import wire
from epochal.server.endpoints import ENDPOINTS
from epochal.server.entries import EntrySource
from epochal.server.page import Page, load_page
from epochal.server.rows import run_row
from epochal.store.run import RunView

BUDGET_BYTES = 5_000_000
# For samples that are files, in addition.
SAMPLE_BYTES = 10_000_000
# Shares of the space beside the page; series take the rest.
_ENTRIES_SHARE = 0.3
_SWEEP_SHARE = 0.1
_MIN_BYTES = 20_000
_HEADLINES = ("role:loss", "role:eval_loss")
_ELEMENT = "epochal-archive"
_TITLE = "<title>Epochal</title>"  # of the page
# JSON has these inside strings only, where an escape is equivalent.
_ESCAPES = (
    (b"<", b"\\u003c"),
    (b">", b"\\u003e"),
    (b"&", b"\\u0026"),
    ("\u2028".encode(), b"\\u2028"),
    ("\u2029".encode(), b"\\u2029"),
)


def write(
    runs: Sequence[RunView],
    out: TextIO,
    *,
    rows: Rows | None = None,
    names: Sequence[str] = (),
    boards: Sequence[StoredBoard] = (),
    opens_board: bool = False,
    budget_bytes: int = BUDGET_BYTES,
    sample_bytes: int = SAMPLE_BYTES,
) -> None:
    """Write the page with these runs and boards in it; ``rows`` does not apply and is ignored.

    Every metric is inside, and the results of formulas in ``names`` and in charts of ``boards``.
    With ``opens_board`` the page opens on the first board. Series that would make the file larger
    than ``budget_bytes`` are kept in slices. The newest samples of each name are inside as far as
    ``sample_bytes`` suffice. Raises ``UsageError`` where the page has not been built.
    """
    page = load_page()
    if not page.is_built:
        raise UsageError("the page has not been built in this checkout: `make web` builds it.")
    before, _, after = page.html.decode().partition(_TITLE)
    content, _, _ = after.rpartition("</body>")
    first = boards[0].board.name if opens_board else None
    out.write(before + _head(page, runs, first) + content)
    out.write(f'<script type="application/json" id="{_ELEMENT}">')
    left = budget_bytes - len(page.html)
    names = [*names, *charted(boards)]
    body = _body(runs, names, boards, first, budget_bytes=left, sample_bytes=sample_bytes)
    out.write(body.decode())
    out.write("</script>\n</body>\n</html>\n")


def _head(page: Page, runs: Sequence[RunView], board: str | None) -> str:
    names = ", ".join(run.info.name for run in runs[:3]) + (", …" if len(runs) > 3 else "")
    scripts = " ".join(f"'{one}'" for one in page.script_hashes)
    styles = " ".join(f"'{one}'" for one in page.style_hashes)
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {scripts}",
            f"style-src {styles}",
            "style-src-attr 'unsafe-inline'",
            "img-src data: blob:",
            "media-src data:",
            "frame-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}" />'
        f"\n    <title>{html.escape(board or names)} · Epochal</title>"
    )


def _body(
    runs: Sequence[RunView],
    names: Sequence[str],
    boards: Sequence[StoredBoard],
    board: str | None,
    *,
    budget_bytes: int,
    sample_bytes: int,
) -> bytes:
    # The newest first, as the server lists them; a run that is named twice appears once.
    by_id = {run.info.id: run for run in runs}
    chosen = sorted(by_id.values(), key=lambda run: run.info.created or 0.0, reverse=True)
    body = wire.ArchiveBody(
        wire=wire.WIRE_VERSION,
        made=round(time.time(), 3),
        runs=_rows(chosen),
        axes={run.info.id: knots_of(run) for run in chosen},
        responses={run.info.id: _responses(run) for run in chosen},
        blobs={},
        series=[],
        # Of all runs of the file: without a server there is nobody to choose them.
        boards=[replace(one, board=replace(one.board, query=None)) for one in boards],
        board=board,
        problems=failed_formulas(chosen, names),
    )
    sweep_bytes = int(max(_MIN_BYTES, budget_bytes - len(_escaped(body))) * _SWEEP_SHARE)
    sweep = pack_sweep(chosen, _shown_config, budget_bytes=sweep_bytes)
    body = replace(body, sweep=sweep)
    left = max(_MIN_BYTES, budget_bytes - len(_escaped(body)))
    entries = pack_entries(chosen, budget_bytes=int(left * _ENTRIES_SHARE))
    sample_lists, blobs = pack_samples(chosen, budget_bytes=sample_bytes)
    for run_id, responses in body.responses.items():
        responses.update(entries.get(run_id, {}), blobs=sample_lists[run_id])
    left = max(_MIN_BYTES, budget_bytes - len(_escaped(body)))
    num_series = sum(len(metric.ranks) for run in chosen for metric in run.metrics())
    all_ranks = num_series <= MAX_SERIES
    lines = [line for run in chosen for line in lines_of(run, all_ranks=all_ranks, names=names)]
    series = pack_series(lines, budget_bytes=left)
    return _escaped(replace(body, blobs=blobs, series=series))


def charted(boards: Sequence[StoredBoard]) -> list[str]:
    """The names, patterns and formulas in the charts of boards."""
    blocks = [block for stored in boards for block in stored.board.blocks]
    return [name for block in blocks if block.kind == "chart" for name in block.series]


def _responses(run: RunView) -> dict[str, Any]:
    """The responses of a run's endpoints by name, without entries."""
    return {
        endpoint.name: _redacted(run, endpoint.archive(run))
        for endpoint in ENDPOINTS
        if endpoint.archive is not None and not isinstance(endpoint.archive, EntrySource)
    }


def _rows(runs: Sequence[RunView]) -> wire.RunList:
    rows = [
        replace(
            run_row(
                run,
                with_config=True,
                summaries=[*_HEADLINES, *(metric.name for metric in run.set_metrics())],
            ),
            config=_shown_config(run),
            folder="",
        )
        for run in runs
    ]
    return wire.RunList(rows, total=len(rows), offset=0)


def _redacted(run: RunView, response: msgspec.Struct) -> msgspec.Struct:
    if not isinstance(response, wire.RunDetail):
        return response
    redactor = _redactor(run)
    return replace(
        response,
        # A path on this machine means nothing on another one.
        row=replace(response.row, folder=""),
        folder="",
        config=redactor.config(run.config),
        facts=redactor.identity(run.facts),
    )


def _shown_config(run: RunView) -> Mapping[str, Any]:
    return _redactor(run).config(run.config)


def _redactor(run: RunView) -> Redactor:
    """Redacts again: other trackers and older versions do not redact what they record."""
    return Redactor(is_on=run.facts.get("redact") is not False)


def _escaped(body: wire.ArchiveBody) -> bytes:
    try:
        text = msgspec.json.encode(body)
    except UnicodeEncodeError:
        text = msgspec.json.encode(without_surrogates(msgspec.to_builtins(body)))
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


_MOST_METRICS = 6
_MOST_KEYS = 8
_MOST_GROUPS = 40


def pack_sweep(
    runs: Sequence[RunView], redact: Callable[[RunView], Mapping[str, Any]], *, budget_bytes: int
) -> dict[str, Any]:
    """Tables of groups by choice of keys, and rankings by metric, as far as they fit.

    A choice is a key, ``-seed`` for everything but the seed, or empty for no groups. ``redact``
    gives the config of a run as it may be shown.
    """
    members = [
        Member(one.run, one.info, dict(flat_items(redact(one.run)))) for one in members_of(runs)
    ]
    metrics = default_metrics(members)[:_MOST_METRICS] if len(members) > 1 else []
    if not metrics:
        return {}
    packed: dict[str, Any] = {"groups": {}, "importance": {}}
    left = budget_bytes
    for metric in metrics:
        ranking = importance_of(read_values(members, metric))
        packed["importance"][metric] = ranking
        left -= len(msgspec.json.encode(ranking))
    for choice, keys in _choices(members).items():
        grouping = group_members(members, **keys)
        if len(grouping.groups) > _MOST_GROUPS:
            continue
        table = grouping.tables(metrics)
        left -= len(msgspec.json.encode(table))
        if left < 0:
            break
        packed["groups"][choice] = table
    return packed


def _choices(members: Sequence[Member]) -> dict[str, dict[str, Any]]:
    """No groups, everything but the seed, and each key that differs."""
    grouping = group_members(members, by=())
    choices: dict[str, dict[str, Any]] = {"": {"by": ()}}
    if grouping.repeats:
        choices["-" + ",".join(grouping.repeats)] = {"all_but": grouping.repeats}
    for key in grouping.varying[:_MOST_KEYS]:
        choices[key] = {"by": (key,)}
    return choices
