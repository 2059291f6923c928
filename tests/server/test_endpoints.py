"""The endpoint table is what the server serves and what an archive holds."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from epochal.exports.archive import write
from epochal.server.endpoints import ENDPOINTS
from epochal.store.local.by_path import load_run
from tests.server.live import Server
from tests.store.journals import Journal


def test_no_two_endpoints_share_a_name_or_path() -> None:
    assert len({one.name for one in ENDPOINTS}) == len(ENDPOINTS)
    assert len({(one.method, one.path) for one in ENDPOINTS}) == len(ENDPOINTS)


OF_RUN = [
    one.name
    for one in ENDPOINTS
    if one.path.startswith("/api/runs/{run_id}") and not isinstance(one.response, str)
]


@pytest.mark.parametrize("name", OF_RUN)
def test_an_endpoint_of_a_run_answers_other_runs_with_404(name: str, server: Server) -> None:
    endpoint = next(one for one in ENDPOINTS if one.name == name)
    headers = {"Content-Type": "application/json"}
    path = endpoint.path.replace("{run_id}", "nobody")
    answer = server.ask(path, method=endpoint.method, headers=headers, body=b"{}")
    assert (answer.status, list(answer.json)) == (404, ["error"])


def test_an_archive_holds_the_response_of_every_archived_endpoint(
    tmp_path: Path, server: Server
) -> None:
    message = {"log": "message", "t": 1.0, "level": "info", "text": "hi"}
    Journal(tmp_path, "x").metrics(0, loss=1.0).add(message).finish()
    out = io.StringIO()
    write([load_run(tmp_path / "p" / "x")], out)
    match = re.search(r'id="epochal-archive">(.*?)</script>', out.getvalue(), re.DOTALL)
    assert match is not None
    responses = json.loads(match[1])["responses"]["id-x"]
    for endpoint in ENDPOINTS:
        # The first is redacted in an archive; the second has what the first leaves out.
        if endpoint.archive is not None and endpoint.name not in ("run", "run_metrics"):
            path = endpoint.path.replace("{run_id}", "id-x")
            empty = {"entries": [], "names": {}, "total": 0, "offset": 0}
            assert responses.get(endpoint.name, empty) == server.ask(path).json, endpoint.name
