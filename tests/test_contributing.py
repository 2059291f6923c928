"""The worked examples of CONTRIBUTING.md run as they are printed."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from epochal.exports import archive
from epochal.health.engine import Health
from epochal.health.rule import GROUPS
from epochal.server import endpoints
from epochal.server.endpoints import Endpoint
from epochal.store.local.by_path import load_run
from tests.conftest import StartRun
from tests.sinks.member import check_records_arrive_once
from tests.store.journals import Journal
from tools import generated, wire

ROOT = Path(__file__).parents[1]
BIOME = ROOT / "web" / "node_modules" / ".bin" / "biome"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def printed_blocks(heading: str, language: str = "python") -> list[str]:
    section = TEXT[TEXT.index(f"### {heading}\n") :].partition("\n### ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, flags=re.DOTALL)


def executed(block: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "printed"}
    exec(compile(block, "CONTRIBUTING.md", "exec"), names)
    return names


def printed_rule() -> type[Any]:
    (block,) = printed_blocks("A health rule")
    rule: type[Any] = executed(block)["LossNegative"]
    return rule


def findings_of(losses: list[float]) -> list[str]:
    health = Health(rules=[printed_rule()])
    records = [{"log": "step", "t": float(i), "step": i, "loss": x} for i, x in enumerate(losses)]
    return [finding.sentence for record in records for finding in health.feed(record)]


@pytest.mark.parametrize(
    ("heading", "place", "path"),
    [
        ("A health rule", 0, "src/epochal/health/rules/loss_negative.py"),
        ("A sink", 0, "src/epochal/sinks/members/lines.py"),
        ("A sink", 1, "tests/sinks/test_lines.py"),
        ("A section with an endpoint", 0, "src/epochal/server/step_times.py"),
    ],
)
@pytest.mark.parametrize("command", [["format", "--check"], ["check"]])
def test_printed_python_passes_the_checks(
    heading: str, place: int, path: str, command: list[str]
) -> None:
    ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", path, "-"]
    block = printed_blocks(heading)[place]
    ran = subprocess.run(ruff, input=block, cwd=ROOT, capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout


def test_the_printed_rule_finds_what_it_says() -> None:
    assert printed_rule().group in GROUPS
    assert findings_of([2.0, 1.0, 0.5]) == []
    assert findings_of([2.0, 1.0, -0.5])[0] == "The loss is -0.5000 at step 2."


@pytest.mark.slow
def test_the_printed_sink_sends_every_record_once(
    start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, test = printed_blocks("A sink")
    about = tmp_path / "installed" / "printed-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: printed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[epochal.sinks]\nlines = printed:LinesSink\n")
    (tmp_path / "installed" / "printed.py").write_text(sink)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "installed"))
    check_records_arrive_once("lines", executed(test)["MEMBER"], start_run(), tmp_path)


def printed_endpoint() -> Endpoint:
    module, row = printed_blocks("A section with an endpoint")
    step_times = SimpleNamespace(**executed(module))
    names = {"run_endpoint": endpoints.run_endpoint, "step_times": step_times}
    endpoint = eval(row, names)
    assert isinstance(endpoint, Endpoint)
    return endpoint


def test_the_printed_endpoint_answers_for_a_run(tmp_path: Path) -> None:
    steps = [{"log": "step", "step": n, "loss": 1.0, "duration_ms": 5.0 + n} for n in range(40)]
    Journal(tmp_path, "x").add(*steps).finish()
    Journal(tmp_path, "y").metrics(0, loss=1.0).finish()
    query = printed_endpoint().archive
    assert callable(query)
    found: Any = query(load_run(tmp_path / "p" / "x"))
    assert (found.counts, found.edges[0], found.edges[-1]) == ([2] * 20, 5.0, 44.0)
    empty: Any = query(load_run(tmp_path / "p" / "y"))
    assert empty.counts == []


def test_the_printed_endpoint_is_in_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = (*endpoints.ENDPOINTS, printed_endpoint())
    for module in (endpoints, wire, archive):
        monkeypatch.setattr(module, "ENDPOINTS", table)
    assert "/api/runs/{run_id}/step_times" in {route.path for route in endpoints.routes()}
    assert "  step_times: StepTimes;" in wire.typescript()
    row = "| `GET /api/runs/{id}/step_times` | `StepTimes` |"
    assert any(line.startswith(row) for line in generated.endpoint_table())
    Journal(tmp_path, "x").metrics(0, loss=1.0).finish()
    out = io.StringIO()
    archive.write([load_run(tmp_path / "p" / "x")], out)
    assert '"step_times":{"edges":[],"counts":[]}' in out.getvalue()


@pytest.mark.skipif(not BIOME.exists(), reason="needs the tools of the page: `npm ci` in web")
def test_the_printed_panel_passes_the_checks(tmp_path: Path) -> None:
    panel = tmp_path / "step_times.tsx"
    (block,) = printed_blocks("A section with an endpoint", "tsx")
    panel.write_text(block, encoding="utf-8")
    biome = [
        str(BIOME),
        "check",
        "--error-on-warnings",
        f"--config-path={ROOT / 'web'}",
        str(panel),
    ]
    ran = subprocess.run(biome, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_printed_panel_imports_what_there_is() -> None:
    (block,) = printed_blocks("A section with an endpoint", "tsx")
    imported = re.findall(r'import (?:type )?\{ (.*?) \} from "(\..*?)"', block)
    folder = ROOT / "web" / "src" / "panels"
    assert imported
    for names, path in imported:
        text = (folder / path).resolve().read_text(encoding="utf-8")
        missing = [n for n in names.split(", ") if not re.search(rf"export .*\b{n}\b", text)]
        assert not set(missing) - {"StepTimes"}, path  # written by tools/wire.py


@pytest.mark.parametrize("name", ["step-times", "step times", "2nd"])
def test_the_name_of_an_endpoint_is_an_identifier(name: str) -> None:
    endpoint = printed_endpoint()
    with pytest.raises(ValueError, match="must be an identifier"):
        replace(endpoint, name=name)


def test_the_files_that_are_named_exist() -> None:
    section = TEXT[TEXT.index("## Adding a member") : TEXT.index("## Habits")]
    named = re.findall(r"`([a-z_/.]+\.(?:py|ts|md))`", section)
    homes = (ROOT, ROOT / "src" / "epochal")
    missing = [
        path
        for path in named
        if not re.search("loss_negative|lines|step_times", path)
        and not any((home / path).exists() for home in homes)
    ]
    assert named
    assert not missing
