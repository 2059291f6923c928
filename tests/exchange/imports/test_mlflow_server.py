"""Runs of an MLflow server: answers in the recorded shape of MLflow 3.17, and broken ones.

``tests/frameworks/test_mlflow.py`` asks a real server.
"""

from __future__ import annotations

import base64
import json
import math
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from epochal.base.http import HttpError
from epochal.cli.main import main
from epochal.errors import UsageError
from epochal.exchange.imports.foreign import SourceRun
from epochal.exchange.imports.registry import open_source
from epochal.exchange.imports.sources import mlflow

START = 1794767493312
API = "/api/2.0/mlflow"


@dataclass
class Recorded:
    """A server that gives recorded answers, two rows a page; ``broken`` replaces some of them."""

    histories: dict[str, list[tuple[int, Any]]]
    broken: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    has_pages: bool = True
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any], Mapping[str, str]]] = field(default_factory=list)
    address: str = ""

    def answer(self, path: str, given: Mapping[str, Any]) -> tuple[int, bytes]:
        path = path.removeprefix(API)
        if path in self.broken:
            return self.broken[path]
        if path == "/experiments/search":
            rows = [{"experiment_id": str(i), "name": f"digits {i}"} for i in range(1, 4)]
            return self.page("experiments", rows, given)
        if path == "/experiments/get":
            one = {"experiment_id": given["experiment_id"], "name": "digits 1"}
            return 200, json.dumps({"experiment": one}).encode()
        if path == "/runs/search":
            rows = [run_row(i.zfill(32), i, self.histories) for i in given["experiment_ids"]]
            return self.page("runs", rows, given)
        if path == "/runs/get":
            run = run_row(given["run_id"], "1", self.histories)
            return 200, json.dumps({"run": run}).encode()
        if path == "/metrics/get-history":
            if not self.has_pages and "max_results" in given:
                return 400, b'{"error_code": "INVALID_PARAMETER_VALUE", "message": "no pages"}'
            points = self.histories[given["metric_key"]]
            rows = [point(given["metric_key"], step, value) for step, value in points]
            return self.page("metrics", rows, given)
        if path == "/artifacts/list":
            inner = {"files": [{"path": "plots/a.png", "is_dir": False, "file_size": 7}]}
            outer = {"files": [{"path": "plots", "is_dir": True}]}
            return 200, json.dumps(inner if given.get("path") == "plots" else outer).encode()
        if path == "/get-artifact":
            return 200, b"picture"
        return 404, b""

    def page(self, name: str, rows: list[Any], given: Mapping[str, Any]) -> tuple[int, bytes]:
        start = int(given.get("page_token") or 0)
        is_all = not self.has_pages and name == "metrics"
        answer: dict[str, Any] = {name: rows if is_all else rows[start : start + 2]}
        if not is_all and start + 2 < len(rows):
            answer["next_page_token"] = str(start + 2)
        return 200, json.dumps(answer).encode()


def point(name: str, step: int, value: Any) -> dict[str, Any]:
    return {"key": name, "value": value, "timestamp": START + 1000 * step, "step": step}


def run_row(run_id: str, experiment: str, histories: Mapping[str, Any]) -> dict[str, Any]:
    metrics = [point(name, *points[-1]) for name, points in histories.items()]
    info = {"run_id": run_id, "run_name": f"run {experiment}", "experiment_id": experiment}
    times = {"status": "FINISHED", "start_time": START, "end_time": START + 9000}
    return {
        "info": {**info, **times, "artifact_uri": "mlflow-artifacts:/1"},
        "data": {
            "metrics": metrics,
            "params": [{"key": "lr", "value": "0.1"}],
            "tags": [{"key": "team", "value": "a"}, {"key": "mlflow.user", "value": "ada"}],
        },
        "inputs": {},
        "outputs": {},
    }


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setattr(mlflow, "_WAITS_S", (0.0, 0.0))
    for name in ("USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    recorded = Recorded(
        {"loss": [(0, 1.0), (1, 0.5), (2, "NaN")], "acc": [(0, 0.0), (1, 1.7976931348623157e308)]}
    )

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            self.give(parts.path, {key: v[0] for key, v in parse_qs(parts.query).items()})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.give(self.path, json.loads(body))

        def give(self, path: str, given: Mapping[str, Any]) -> None:
            recorded.asked.append((path, given, dict(self.headers)))
            status, body = recorded.answer(path, given)
            self.send_response(status)
            for name, value in recorded.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        recorded.address = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield recorded
        http.shutdown()
        thread.join()


def runs_of(address: str) -> list[SourceRun]:
    source = open_source(address)
    assert source is not None
    return list(source.runs())


def values_of(run: SourceRun, name: str) -> list[tuple[int, float]]:
    records = [record for batch in run.read_new() for record in batch.records]
    return [(r["step"], r["m"][name]) for r in records if name in r.get("m", {})]


def test_every_page_of_runs_and_experiments_is_read(server: Recorded) -> None:
    runs = runs_of(server.address)
    assert [run.identity.name for run in runs] == ["run 1", "run 2", "run 3"]
    assert [run.identity.project for run in runs] == ["digits 1", "digits 2", "digits 3"]
    assert runs[0].identity.config == {"lr": 0.1}
    assert runs[0].identity.tags == ("team=a",)
    assert runs[0].identity.created == START / 1000


@pytest.mark.parametrize("has_pages", [True, False])
def test_histories_are_complete_with_pages_and_without(server: Recorded, has_pages: bool) -> None:
    server.has_pages = has_pages
    (loss,) = [values_of(runs_of(server.address)[0], "loss")]
    assert loss[:2] == [(0, 1.0), (1, 0.5)]
    assert math.isnan(loss[2][1])
    assert values_of(runs_of(server.address)[0], "acc") == [(0, 0.0), (1, math.inf)]


def test_values_of_one_time_are_one_record_and_artifacts_are_copied(
    server: Recorded, tmp_path: Path
) -> None:
    assert main(["--dir", str(tmp_path), "import", server.address]) == 0
    journal = next((tmp_path / "digits-1" / "run-1" / "journal").iterdir())
    records = [json.loads(line) for line in journal.read_text().splitlines()]
    assert records[1]["m"] == {"loss": 1.0, "acc": 0.0}
    assert (records[-2]["log"], records[-2]["name"]) == ("file", "plots/a.png")
    stored = tmp_path / "digits-1" / "run-1" / "blobs" / records[-2]["file"]
    assert stored.read_bytes() == b"picture"
    assert records[-1]["status"] == "finished"


def test_the_address_in_the_browser_selects_an_experiment_or_a_run(server: Recorded) -> None:
    (one,) = runs_of(f"{server.address}/#/experiments/1")
    assert one.identity.project == "digits 1"
    (run,) = runs_of(f"{server.address}/#/experiments/1/runs/{'a' * 32}?x=1")
    assert run.key == "a" * 32


def test_importing_again_copies_only_what_changed(
    server: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--dir", str(tmp_path), "import", f"{server.address}/#/experiments/1"])
    main(["--dir", str(tmp_path), "import", f"{server.address}/#/experiments/1"])
    assert "nothing new" in capsys.readouterr().out
    server.histories["loss"].append((3, 0.25))
    main(["--dir", str(tmp_path), "import", f"{server.address}/#/experiments/1"])
    assert "imported again" in capsys.readouterr().out


def test_credentials_are_sent_and_not_kept(
    server: Recorded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = server.address.replace("://", "://ada:p%40ss@")
    assert main(["--dir", str(tmp_path), "import", f"{address}/#/experiments/1"]) == 0
    sent = base64.b64encode(b"ada:p@ss").decode()
    assert server.asked[-1][2]["Authorization"] == f"Basic {sent}"
    assert "p%40ss" not in (tmp_path / "digits-1" / "run-1" / "run.json").read_text()
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    runs_of(server.address)
    assert server.asked[-1][2]["Authorization"] == "Bearer secret"
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "p@ss")
    runs_of(server.address)
    assert server.asked[-1][2]["Authorization"] == f"Basic {sent}"


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (401, b"", "refuses access .status 401.. Set MLFLOW_TRACKING_USERNAME"),
        (403, b"{}", "refuses access .status 403."),
        (404, b"<html>", "status 404. Check that this is the address of an MLflow server"),
        (500, b'{"message": "no disk."}', "with status 500: no disk."),
        (200, b"<html>hello</html>", "something else than a JSON object"),
        (200, b"[]", "something else than a JSON object"),
        (200, b"[" * 100_000, "something else than a JSON object"),
        (200, b'{"runs": 3}', "a list 'runs' that has no objects"),
        (200, b'{"runs": [3]}', "a list 'runs' that has no objects"),
        (200, b'{"runs": [{"info": {}}]}', "without the object 'data'"),
        (200, b'{"next_page_token": "1"}', "pages of .*runs/search do not end"),
    ],
)
def test_every_fault_is_a_sentence(
    server: Recorded, status: int, body: bytes, sentence: str
) -> None:
    server.broken["/runs/search"] = (status, body)
    with pytest.raises(HttpError, match=sentence):
        runs_of(server.address)


def test_a_busy_server_is_asked_three_times(server: Recorded) -> None:
    server.broken["/runs/search"] = (503, b"")
    with pytest.raises(HttpError, match="status 503"):
        runs_of(server.address)
    assert sum(path.endswith("/runs/search") for path, _, _ in server.asked) == 3


def test_a_redirect_is_not_followed_with_credentials(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "secret")
    server.broken["/experiments/search"] = (302, b"")
    server.headers["Location"] = f"{server.address}/elsewhere"
    with pytest.raises(HttpError, match=r"redirects to .*/elsewhere: name that address"):
        runs_of(server.address)
    assert not any("elsewhere" in path for path, _, _ in server.asked)


def test_an_answer_that_is_too_large_is_refused(
    server: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mlflow, "_MAX_BYTES", 1000)
    server.broken["/runs/search"] = (200, b'{"runs": "' + b"x" * 2000 + b'"}')
    with pytest.raises(HttpError, match="more than 1000 bytes"):
        runs_of(server.address)


def test_a_run_whose_history_cannot_be_read_is_not_copied(
    server: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.broken["/metrics/get-history"] = (200, b'{"metrics": [{"key": "loss"}]}')
    assert main(["--dir", str(tmp_path), "import", server.address]) == 2
    assert capsys.readouterr().err.count("has a point that is damaged") == 3
    assert list(tmp_path.rglob("run.json")) == []


def test_artifacts_that_cannot_be_listed_are_a_problem_of_the_run(
    server: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.broken["/artifacts/list"] = (500, b"")
    assert main(["--dir", str(tmp_path), "import", f"{server.address}/#/experiments/1"]) == 2
    assert "the artifacts of run" in capsys.readouterr().err
    assert len(list(tmp_path.rglob("run.json"))) == 1


def test_no_server_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "http://127.0.0.1:1"]) == 2
    assert "cannot read from the MLflow server at http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "address", ["ftp://host", "http://", "s3://bucket/mlruns", "http://localhost/#/compare-runs"]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(UsageError, match="http://localhost:5000"):
        open_source(address)


def test_a_port_that_is_no_number_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "http://127.0.0.1:port"]) == 2
    assert "127.0.0.1:port" in capsys.readouterr().err
