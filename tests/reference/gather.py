"""Ask about the runs of the reference: every endpoint of the server, and commands with ``--json``.

An answer is JSON whatever its body was. What depends on the clock, the machine, the version or the
folder is replaced in ``normalised``.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import re
import shutil
import tarfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from benchmarks.series_body import decode_series
from epochal.cli.main import main
from epochal.journal.layout import RunFolder, parse_part_name
from epochal.journal.segments.seal import seal_part
from tests.server.live import Answer, Server, serving, until

HERE = Path(__file__).parent
RUNS = HERE / "runs.tar.xz"
ANSWERS = HERE / "answers"
# The lines of sealed parts, below the folder that the reference is unpacked to.
LINES = "lines"
# Formats that no other part of the project is about to change.

EVERY = "/api/runs/id-every-kind"
GOLDEN = "/api/runs/0123456789ab"
OLD = "/api/runs/6cb87055de62"
# The blob of the golden run, which 0.1.0 wrote.
BLOB = "dca2d3464dbee819313e401a93bd22d9.png"
PID = 4242  # of the processes that the reference says it was written by


SWEEP = 'query=project == "sweep"'
SERIES = "/api/series?run="

# Requests that change nothing, by the name of their answer.
REQUESTS: Mapping[str, str] = {
    "health": "/healthz",
    "prometheus": "/metrics",
    "projects": "/api/projects",
    "trash": "/api/trash",
    "runs": "/api/runs?config=1&summary=role:loss&summary=role:eval_loss&projects=1",
    "runs-window": "/api/runs?offset=3&limit=4",
    "runs-named": "/api/runs?order=name&limit=100",
    "runs-sorted": f"/api/runs?{SWEEP}&order=-config.lr,summary.eval/loss.last&summary=eval/loss",
    "runs-grouped": f"/api/runs?{SWEEP}&group=config.lr,config.data&summary=eval/loss&limit=0",
    "runs-by-group": f"/api/runs?{SWEEP}&group=group&summary=role:loss&limit=0",
    "runs-filter-config": "/api/runs?query=config.lr < 1e-2 and config.seed == 0",
    "runs-filter-status": '/api/runs?query=status in ["failed", "crashed"]',
    "runs-filter-pattern": '/api/runs?query=name ~ "w64-s[01]$" and not config.lr > 1e-3',
    "runs-filter-exists": "/api/runs?query=exists(summary.eval/loss) and best.eval/loss < 1",
    "runs-filter-tags": '/api/runs?query="paper" in tags or owner == "ada"&order=created',
    "runs-bad-query": "/api/runs?query=lr = = 3",
    "groups-by": f"/api/groups?metric=eval/loss&metric=train/loss&by=lr&by=model.width&{SWEEP}",
    "groups-all-but": f"/api/groups?metric=eval/loss&all_but=seed&{SWEEP}&unfinished=1",
    "groups-best": f"/api/groups?metric=eval/acc&by=data&value=best&{SWEEP}",
    "groups-at": f"/api/groups?metric=train/loss&by=lr&at=20&{SWEEP}",
    "groups-runs": "/api/groups?metric=train/loss&run=id-lr0.001-w64-s0&run=id-lr0.001-w64-s1",
    "group-curves": f"/api/group_curves?metric=train/loss&by=lr&{SWEEP}&points=12",
    "group-curves-log": f"/api/group_curves?metric=train/loss&by=model.width&{SWEEP}&points=8"
    "&log=1&smooth=ema:0.5&column=mean&column=low&column=high&lo=2&hi=30",
    "group-curves-relative": f"/api/group_curves?metric=eval/loss&all_but=seed&{SWEEP}&x=relative"
    "&points=0&unfinished=1",
    "importance": f"/api/importance?metric=eval/loss&{SWEEP}",
    "importance-pair": f"/api/importance?metric=train/loss&value=min&{SWEEP}&unfinished=1"
    "&pair=lr&pair=model.width",
    "why-runs": "/api/why?run=id-lr0.01-w64-s0&run=id-lr0.001-w128-s0",
    "why-group": "/api/why?run=id-lr0.0001-w64-s0&metric=eval/loss",
    "why-against": '/api/why?run=id-diverging&against=project == "sweep"&metric=train/loss',
    "why-equal": "/api/why?run=id-lr0.001-w128-s0&run=id-lr0.001-w128-s1",
    "series-raw": f"{SERIES}id-numbers&name=odd&name=epoch/odd&name=system/cpu_pct&pixels=0",
    "series-missing": f"{SERIES}id-numbers&name=none&rank=3",
    "series-sealed-numbers": f"{SERIES}id-sealed-numbers&name=odd&name=score&pixels=0",
    "series-x": f"{SERIES}id-numbers&name=score&name=odd&x=tokens&pixels=0",
    "series-slices": f"{SERIES}id-long&name=loss&pixels=25",
    "series-log": f"{SERIES}id-long&name=loss&pixels=12&log=1&lo=10&hi=1500",
    "series-smooth": f"{SERIES}id-long&name=loss&pixels=10&smooth=ema:0.9",
    "series-tokens": f"{SERIES}id-long&name=loss&x=tokens&pixels=10",
    "series-wall": f"{SERIES}id-resumed&name=train/loss&x=wall&pixels=0&lo=0",
    "series-relative": f"{SERIES}id-resumed&name=eval/loss&x=relative&pixels=0",
    "series-epoch": f"{SERIES}id-every-kind&name=train/loss&x=epoch&pixels=15",
    "series-ranks": f"{SERIES}id-four-ranks&name=data/wait_ms&rank=all&pixels=6",
    "series-rank": f"{SERIES}id-four-ranks&name=train/duration_ms&rank=3&pixels=0&hi=5",
    "series-fork": f"{SERIES}id-forked&name=train/loss&name=eval/loss&pixels=0&lo=60&hi=80",
    "series-orphan": f"{SERIES}id-orphan&name=train/loss&pixels=0&hi=72",
    "series-many": f"{SERIES}id-lr0.001-w64-s0&run=id-lr0.01-w64-s1&run=none&name=eval/loss",
    "series-nan": f"{SERIES}id-diverging&name=train/loss&name=train/norm&pixels=30&lo=250",
    "series-gpu": f"{SERIES}id-every-kind&name=gpu/1/temperature&name=gpu/1/clock&pixels=8&x=wall",
    "every-kind": f"{EVERY}?summary=1",
    "every-kind-metrics": f"{EVERY}/metrics?limit=8&offset=4",
    "every-kind-metrics-find": f"{EVERY}/metrics?find=Loss%20train",
    "every-kind-metrics-pattern": f"{EVERY}/metrics?find=^(moe|phase)/.*a&pattern=1",
    "every-kind-metrics-section": f"{EVERY}/metrics?section=eval&name=eval/loss",
    "every-kind-config": f"{EVERY}/config",
    "every-kind-histograms": f"{EVERY}/histograms?limit=2",
    "every-kind-texts": f"{EVERY}/texts?limit=3&offset=1",
    "every-kind-blobs": f"{EVERY}/blobs?spread=1&limit=3",
    "every-kind-samples": f"{EVERY}/samples?at=120",
    "every-kind-files": f"{EVERY}/files",
    "every-kind-experts": f"{EVERY}/experts?limit=2&spread=1",
    "every-kind-data": f"{EVERY}/data",
    "every-kind-phases": f"{EVERY}/phases?limit=2",
    "every-kind-findings": f"{EVERY}/findings",
    "every-kind-graph": f"{EVERY}/graph",
    "every-kind-timeline": f"{EVERY}/timeline?kind=span&limit=4",
    "every-kind-log": f"{EVERY}/log?limit=12",
    "every-kind-log-events": f"{EVERY}/log?kind=event&limit=6&offset=2",
    "every-kind-marks": f"{EVERY}/marks",
    "every-kind-records": f"{EVERY}/records?limit=12",
    "every-kind-records-since": f"{EVERY}/records?limit=5&since=id-every-kind:loop.2.0.150",
    "every-kind-control": f"{EVERY}/control",
    "every-kind-state": "/api/hub/runs/id-every-kind",
    "history": "/api/history?run=id-every-kind",
    "graph-svg": "/graph.svg?run=id-every-kind",
    "graph-svg-none": "/graph.svg?run=id-long",
    "golden": GOLDEN,
    "golden-config": f"{GOLDEN}/config",
    "golden-texts": f"{GOLDEN}/texts",
    "golden-histograms": f"{GOLDEN}/histograms",
    "golden-blobs": f"{GOLDEN}/blobs",
    "golden-blob": f"{GOLDEN}/blob/{BLOB}",
    "golden-blob-file": f"/api/hub/runs/0123456789ab/blobs/{BLOB}",
    "golden-findings": f"{GOLDEN}/findings",
    "golden-log": f"{GOLDEN}/log",
    "golden-marks": f"{GOLDEN}/marks",
    "golden-records": f"{GOLDEN}/records",
    "golden-state": "/api/hub/runs/0123456789ab",
    "golden-history": "/api/history?run=0123456789ab",
    "old-every-kind": OLD,
    "old-every-kind-findings": f"{OLD}/findings",
    "old-every-kind-log": f"{OLD}/log?limit=10",
    "old-every-kind-marks": f"{OLD}/marks",
    "old-every-kind-phases": f"{OLD}/phases?limit=1",
    "old-every-kind-experts": f"{OLD}/experts?limit=1",
    "old-every-kind-timeline": f"{OLD}/timeline?limit=1",
    "four-ranks": "/api/runs/id-four-ranks",
    "four-ranks-findings": "/api/runs/id-four-ranks/findings",
    "resumed": "/api/runs/id-resumed",
    "resumed-marks": "/api/runs/id-resumed/marks",
    "forked": "/api/runs/id-forked",
    "forked-marks": "/api/runs/id-forked/marks",
    "forked-records": "/api/runs/id-forked/records?limit=3",
    "orphan": "/api/runs/id-orphan?summary=0",
    "numbers": "/api/runs/id-numbers",
    "numbers-records": "/api/runs/id-numbers/records",
    "numbers-lines": "/api/hub/runs/id-numbers/parts/loop.0001.0000?first=20",
    "sealed-numbers": "/api/runs/id-sealed-numbers",
    "sealed-numbers-records": "/api/runs/id-sealed-numbers/records",
    "diverging": "/api/runs/id-diverging",
    "diverging-findings": "/api/runs/id-diverging/findings",
    "vanished": "/api/runs/id-vanished",
    "vanished-findings": "/api/runs/id-vanished/findings",
    "failed-findings": "/api/runs/id-failed/findings",
    "live": "/api/runs/id-live?summary=0",
    "infos": '/api/infos?query=project == "lineage"&order=name',
    "infos-run": "/api/infos?run=id-four-ranks",
    "export-unknown": "/api/export?run=id-unknown",
    "boards": "/api/boards",
    "no-run": "/api/runs/none",
    "no-series": "/api/series?name=loss",
}
# What the page shows of another tracker's folder; the ids are those of a server over that folder.
FOREIGN = ("", "/metrics?limit=40", "/config", "/log?limit=5", "/texts", "/histograms?limit=1")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "ls": ("ls", "--sort=project,name"),
    "ls-all": ("ls", "--all", "project == 'endings'", "--sort=name"),
    "ls-query": ("ls", "config.lr < 1e-2 and status == 'finished'", "--sort=-config.lr,name"),
    "show-numbers": ("show", "numbers", "--all"),
    "show-short": ("show", "numbers"),
    "ls-columns": ("ls", "sweep", "--columns=best.eval/loss,lr", "--sort=best.eval/loss,name"),
    "show-resumed": ("show", "resumed"),
    "show-forked": ("show", "lineage/forked"),
    "show-four-ranks": ("show", "id-four-ranks"),
    "show-vanished": ("show", "vanished"),
    "compare": ("compare", "lr0.001-w64-s0", "lr0.01-w64-s0", "lr0.0001-w128-s1", "diverging"),
    "compare-all": ("compare", "resumed", "forked", "--all", "-m", "loss"),
    "compare-groups": ("compare", "sweep", "--group-by", "lr,model.width", "-m", "eval/loss"),
    "compare-steps": ("compare", "sweep", "--all-but", "seed,data", "-m", "eval/loss", "--steps"),
    "compare-importance": ("compare", "sweep", "--importance", "eval/loss", "--unfinished"),
    "compare-where": ("compare", "--where", "config.seed == 0", "--group-by", "lr", "-m", "loss"),
    "why": ("why", "lr0.01-w128-s0", "lr0.001-w128-s0"),
    "why-group": ("why", "lr0.0001-w64-s0", "--metric", "eval/loss"),
    "why-against": ("why", "diverging", "--against", "project == 'sweep'", "--unfinished"),
    "doctor-every-kind": ("doctor", "id-every-kind"),
    "doctor-diverging": ("doctor", "diverging"),
    "doctor-vanished": ("doctor", "vanished"),
    "doctor-failed": ("doctor", "endings/failed"),
    "doctor-healthy": ("doctor", "long"),
    "doctor-four-ranks": ("doctor", "four-ranks"),
    "disk": ("manage", "du"),
    "series": ("series", "long", "loss", "--points", "12"),
}


def unpack(root: Path) -> None:
    """Put the reference below a folder."""
    with tarfile.open(RUNS) as archive:
        archive.extractall(root, filter="data")
    for lines in sorted((root / LINES).rglob("*.jsonl")):
        seal(lines, RunFolder(root / "runs" / lines.parent.relative_to(root / LINES)))


def seal(lines: Path, folder: RunFolder) -> None:
    """Seal the lines of a part into its run, as if that had been done long ago."""
    name = parse_part_name(lines.name, ".jsonl")
    assert name is not None
    written = lines.stat().st_mtime
    shutil.copy2(lines, folder.part_path(name))
    path = seal_part(folder, name).path
    for changed in (path, path.parent, folder.journal):
        os.utime(changed, (written, written))


def gather(root: Path) -> dict[str, Any]:
    """Every answer about the reference, by name; ``root`` is an empty folder."""
    unpack(root)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)  # no settings of the project around
        patch.setenv("EPOCHAL_CACHE_DIR", str(root / "cache"))
        patch.setenv("XDG_CONFIG_HOME", str(root / "config"))
        found = dict(_answers(root))
    return {name: normalised(answer, root) for name, answer in found.items()}


def _answers(root: Path) -> Iterator[tuple[str, Any]]:
    for name, arguments in COMMANDS.items():
        yield f"cli-{name}", command(*arguments, "--dir", str(root / "runs"))
    with serving(root / "runs") as server:
        wait_until_read(server)
        for name, address in REQUESTS.items():
            yield name, answer_of(server.ask(quote(address, safe="/?&=")))
        yield from _streams(server)
        yield from _changes(server)
    for tracker in ("tensorboard", "wandb"):
        yield from _foreign(root / "foreign" / tracker)


def _foreign(folder: Path) -> Iterator[tuple[str, Any]]:
    """What is said about another tracker's folder; the ids of its runs depend on its path."""
    found = {f"cli-ls-{folder.name}": command("ls", str(folder), "--sort=name")}
    with serving(folder) as server:
        wait_until_read(server)
        listed = server.ask("/api/runs?order=name&config=1")
        found[f"{folder.name}-runs"] = answer_of(listed)
        names = {row["id"]: row["name"] for row in listed.json["rows"]}
        for run_id, run in names.items():
            for address in FOREIGN:
                words = re.findall(r"[a-z]+", f"{run} {address.partition('?')[0]}")
                answer = server.ask(f"/api/runs/{run_id}{address}")
                found["-".join((folder.name, *words))] = answer_of(answer)
    text = json.dumps(found)
    for run_id, run in names.items():
        text = text.replace(run_id, f"<id of {run}>")
    yield from json.loads(text).items()


def wait_until_read(server: Server) -> None:
    """Wait until every run is read whole: a busy machine lists some in part first."""
    while server.ask("/api/runs").json["unsummarised"]:
        time.sleep(0.05)


def _streams(server: Server) -> Iterator[tuple[str, Any]]:
    """The beginning of both event streams."""
    with server.listen("/events", run="id-every-kind") as events:
        shown = []
        for one in events:
            shown.append({"event": one.name, "data": one.data, "id": one.id})
            if one.name == "complete":
                break
        yield "epoch-events", shown
    with server.listen(run="id-resumed", name="train/loss") as events:
        yield "events-ready", until(events, "ready").data


def _changes(server: Server) -> Iterator[tuple[str, Any]]:
    """What changes runs, in this order: it is the last that is asked of the folder."""
    labels = {"name": "renamed", "add_tags": ["new"], "notes": "noted"}
    yield "change-labels", answer_of(server.patch("/api/runs/id-orphan/labels", labels))
    many = {"query": 'project == "sweep" and config.lr == 0.01', "change": {"add_tags": ["slow"]}}
    yield "change-many-labels", answer_of(server.patch("/api/labels", many))
    yield "change-refused", answer_of(server.patch("/api/labels", {"runs": ["id-orphan"]}))
    yield "change-control", _post(server, "/api/runs/id-long/control", {"action": "stop"})
    removed = _post(server, "/api/trash", {"runs": ["id-orphan", "id-live", "none"]})
    yield "trash-remove", removed
    keys = [one["key"] for one in removed["json"]["removed"]]
    yield "trash-restore", _post(server, "/api/trash/restore", {"keys": [*keys, "none"]})
    yield "changed-run", answer_of(server.ask("/api/runs/id-orphan?summary=0"))


def _post(server: Server, path: str, body: Any) -> Any:
    headers = {"Content-Type": "application/json"}
    return answer_of(
        server.ask(path, method="POST", body=json.dumps(body).encode(), headers=headers)
    )


def command(*arguments: str) -> Any:
    """The JSON that a command prints, and its exit code."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*arguments, "--json"])
    return {"exit": code, "json": json.loads(out.getvalue())}


def answer_of(answer: Answer) -> dict[str, Any]:
    """An answer as JSON: what it is by its type, and by its digest where it is bytes."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    found: dict[str, Any] = {"status": answer.status, "type": kind}
    if kind == "application/json":
        return {**found, "json": answer.json}
    if kind == "application/vnd.msgpack":
        return {**found, "json": msgspec.to_builtins(msgspec.msgpack.decode(answer.body))}
    if kind == "application/vnd.epochal.series":
        head, series = decode_series(answer.body)
        shown = [
            {
                **{name: column.tolist() for name, column in one.columns.items()},
                "nonfinite": one.nonfinite,
            }
            for one in series
        ]
        return {**found, "json": {"head": head, "series": shown}}
    if kind.startswith("text/") or kind in ("application/x-ndjson", "image/svg+xml"):
        return {**found, "text": answer.body.decode().splitlines()}
    digest = hashlib.sha256(answer.body).hexdigest()
    return {**found, "bytes": len(answer.body), "sha256": digest}


_AGE = re.compile(r"\b\d+ (s|min|h|d) (ahead of|behind) ours")
_DELETED = re.compile(r"@\d{8}T\d{6}Z(-\d+)?/")


def normalised(value: Any, root: Path, key: str = "") -> Any:
    """An answer without what another machine, another day or another version would change."""
    if isinstance(value, dict):
        return {name: normalised(one, root, name) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [normalised(one, root) for one in value]
    if key == "deleted" or (key == "pid" and value != PID):
        return "<own>"
    if isinstance(value, str):
        text = _AGE.sub("<age> \\2 ours", value.replace(str(root), "<root>"))
        return "<own>" if key == "version" else _DELETED.sub("@<time>/", text)
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def dump(value: Any) -> str:
    """Pretty JSON: an object or list of plain values in a line, if it is not too long."""
    return f"{_pretty(value, 0)}\n"


def _pretty(value: Any, depth: int) -> str:
    inside, outside = " " * (depth + 1), " " * depth
    plain = json.dumps(value, ensure_ascii=False, sort_keys=True)
    is_flat = isinstance(value, list) and not any(isinstance(x, dict | list | str) for x in value)
    if is_flat or len(plain) <= 100 or not isinstance(value, dict | list):
        return plain
    if isinstance(value, list):
        items = [_pretty(one, depth + 1) for one in value]
        return "[\n" + ",\n".join(inside + one for one in items) + f"\n{outside}]"
    pairs = sorted(value.items())
    lines = (
        f"{inside}{json.dumps(k, ensure_ascii=False)}: {_pretty(v, depth + 1)}" for k, v in pairs
    )
    return "{\n" + ",\n".join(lines) + f"\n{outside}}}"
