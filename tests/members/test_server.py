"""Each endpoint fails, a rule fails or hangs while a run is read, and the server goes on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from starlette.routing import Route

import epochal
from epochal.health.registry import RULES
from epochal.server.endpoints import ENDPOINTS, routes
from epochal.store import run as local_run
from epochal.store.findings import Judge
from tests.members.faults import broken, hanging
from tests.server.live import Server, serving

FINDINGS = "/api/runs/{id}/findings"


@pytest.fixture
def run_id(tmp_path: Path) -> str:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    for step in range(5):
        run.log({"loss": math.nan if step == 2 else 1.0}, step=step)
    run.finish()
    return run.id


@pytest.fixture
def table() -> list[Route]:
    return routes()


def test_an_endpoint_that_fails_answers_500_and_the_others_go_on(
    run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failing: dict[str, bool] = {}
    made = [_breakable(route, failing) for route in routes()]
    monkeypatch.setattr("epochal.server.app.routes", lambda: made)
    with serving(tmp_path) as server:
        for number, endpoint in enumerate(ENDPOINTS, start=1):
            path, method = endpoint.path, endpoint.method
            address = path.replace("{run_id}", run_id).replace("{file}", "x")
            failing[path] = True
            for _ in range(2):
                answer = server.ask(address, method=method, headers=_JSON, body=b"{}")
                assert (path, answer.status) == (path, 500)
            failing[path] = False
            assert server.ask("/healthz").json["faults"] == 2 * number
            assert server.ask("/api/runs").json["total"] == 1
    told = capsys.readouterr().err.count("epochal: internal error in request")
    assert told == len({endpoint.path for endpoint in ENDPOINTS})


_JSON = {"content-type": "application/json"}


def _breakable(route: Route, failing: dict[str, bool]) -> Route:
    assert isinstance(route, Route)
    endpoint, path = route.endpoint, route.path

    async def either(request: Any) -> Any:
        return broken() if failing.get(path) else await endpoint(request)

    return Route(path, either, methods=list(route.methods or ()))


def errors_of(server: Server, run_id: str) -> list[dict[str, Any]]:
    answer = server.ask(FINDINGS.replace("{id}", run_id))
    assert answer.status == 200
    rows = answer.json["entries"]
    return [row["record"] for row in rows if row["name"] == "internal-error"]


def test_findings_are_answered_while_a_rule_fails(
    run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = next(rule for rule in RULES if rule.name == "divergence")
    monkeypatch.setattr(rule, "observe", broken)
    with serving(tmp_path) as server:
        (error,) = errors_of(server, run_id)
        assert (error["member"], error["count"]) == ("rule divergence", 3)
        assert "Traceback" in error["traceback"]
        found = server.ask(FINDINGS.replace("{id}", run_id)).json["entries"]
        assert [row["record"]["rule"] for row in found if row["kind"] == "finding"] == ["nonfinite"]
        assert server.ask("/healthz").json["faults"] == 0


def test_a_rule_that_hangs_holds_up_its_own_run_for_a_while(
    run_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_run, "Judge", lambda: Judge(look_budget_s=0.5))
    monkeypatch.setattr(RULES[0], "observe", hanging)
    with serving(tmp_path) as server:
        (error,) = errors_of(server, run_id)
        assert (error["member"], error["reason"][:14]) == ("diagnosis", "BudgetExceeded")
        assert "hanging" in error["traceback"]
        assert server.ask(f"/api/runs/{run_id}").status == 200


@pytest.fixture(autouse=True)
def short_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.members.faults.HANG_S", 2.0)
