"""The latest values of live runs in the Prometheus text format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from epochal.errors import FormatError
from epochal.journal.row import LIVE_STATES
from epochal.server.reader import Catalog
from epochal.server.responses import body_response
from epochal.server.state import server_state
from epochal.store.run import RunView

MAX_SAMPLES_A_RUN = 2000
_MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _Sample(msgspec.Struct, frozen=True):
    family: str
    labels: tuple[tuple[str, str], ...]
    value: float


async def metrics(request: Request) -> Response:
    """Latest values and active findings of live runs."""
    reader = server_state(request).reader
    text = await reader.query(lambda: _text(reader.catalog))
    return await body_response(request, text.encode(), media_type=_MEDIA_TYPE)


def metric_name(name: str) -> str:
    """A series' name in Prometheus syntax; the original name is the label ``metric``."""
    return "epochal_" + re.sub(r"[^a-zA-Z0-9_:]", "_", name)


def _text(catalog: Catalog) -> str:
    catalog.refresh()
    families: dict[str, list[_Sample]] = {}
    for run in catalog.store.runs():
        if run.info.status.state in LIVE_STATES:
            with run.lock:
                run.refresh()
                samples = list(_samples(run))
            for sample in samples:
                families.setdefault(sample.family, []).append(sample)
    lines = []
    for family, samples in sorted(families.items()):
        lines.append(f"# TYPE {family} gauge")
        lines += [f"{family}{{{_labels(s)}}} {_number(s.value)}" for s in samples]
    return "".join(f"{line}\n" for line in lines)


def _samples(run: RunView) -> Iterator[_Sample]:
    info = run.info
    about = (("run", info.id), ("name", info.name), ("project", info.project))
    for name, value in (
        ("step", info.step),
        ("epoch", info.epoch),
        ("updated_seconds", info.updated),
    ):
        if value is not None:
            yield _Sample(f"epochal_run_{name}", about, float(value))
    for severity, count in (("error", info.open_errors), ("warning", info.open_warnings)):
        if count is not None:
            yield _Sample("epochal_run_findings", (*about, ("severity", severity)), float(count))
    left = MAX_SAMPLES_A_RUN
    for metric in run.metrics():
        for rank in metric.ranks[: max(left, 0)]:
            try:
                last = run.summary(metric.name, rank=rank, axis=metric.axis).last
            except FormatError:  # the other series and runs are still exported
                continue
            if last is not None:
                which = (("rank", str(rank)), ("metric", metric.name), ("axis", metric.axis))
                labels = (*about, *which)
                yield _Sample(metric_name(metric.name), labels, last)
                left -= 1


def _labels(sample: _Sample) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n").replace("\r", " ")


def _number(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
