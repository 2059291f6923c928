"""The worked examples of CONTRIBUTING.md run as they are printed."""

from __future__ import annotations

import io
import os
import re
import shutil
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
from tests.exchange.sinks.member import check_records_arrive_once
from tests.store.journals import Journal
from tools import budget, generated, wire

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
        ("A sink", 0, "src/epochal/exchange/sinks/members/lines.py"),
        ("A sink", 1, "tests/exchange/sinks/test_lines.py"),
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
    assert findings_of([2.0, 1.0, -0.5])[0] == "The loss is -0.5 at step 2."


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


# -- all four members in one change ---------------------------------------------------------------

MEMBER_LINES = 60


def named_files(heading: str) -> list[str]:
    """The files that the steps of a chapter have people write."""
    section = TEXT[TEXT.index(f"### {heading}\n") :].partition("\n### ")[0]
    return re.findall(r"\bWrite `([a-z_/.]+)`", section)


def padded(name: str, text: str) -> str:
    """A file with as many lines as a member of some size has."""
    is_python = name.endswith(".py")
    for number in range(MEMBER_LINES):
        if budget.lines_of(name, text) >= MEMBER_LINES:
            break
        if is_python:
            text += f'\n\ndef more_{number}() -> int:\n    """Return a number."""\n'
            text += f"    return {number}\n"
        else:
            text += f"export const MORE_{number} = {number};\n"
    return text


def add_members(clone: Path) -> list[str]:
    """Add a rule, a sink, an endpoint and a section as CONTRIBUTING.md says; the new files."""
    (rule,), sink = printed_blocks("A health rule"), printed_blocks("A sink")
    endpoint, row = printed_blocks("A section with an endpoint")
    (section,) = printed_blocks("A section with an endpoint", "tsx")
    files = named_files("A section with an endpoint")
    written = {
        named_files("A health rule")[0]: rule,
        **dict(zip(named_files("A sink"), sink, strict=True)),
        files[0]: endpoint,
        next(name for name in files if name.endswith(".tsx")): section,
    }
    for name, text in written.items():
        is_test = name.startswith("tests/")
        (clone / name).write_text(text if is_test else padded(name, text), encoding="utf-8")
    table = clone / Path(endpoints.__file__).relative_to(ROOT)
    imports = f"from {endpoints.__name__.rpartition('.')[0]} import (\n"
    text = table.read_text(encoding="utf-8")
    assert imports in text
    text = text.replace(imports, f"{imports}    {Path(files[0]).stem},\n", 1)
    text = re.sub(
        r"\n    run_endpoint\(", f"\n    {row.strip()},\n    run_endpoint(", text, count=1
    )
    table.write_text(text, encoding="utf-8")
    return list(written)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A copy of the repository with one commit, and the numbers of its budget made anew."""
    copy = tmp_path / "epochal"
    for name in budget.tracked():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    # Whoever uses up a part of the slack passes this test, too.
    settings = budget.lowered(budget.text_of("pyproject.toml"), budget.rooms(), {})
    (copy / "pyproject.toml").write_text(settings, encoding="utf-8")
    git = ["git", "-C", str(copy), "-c", "user.name=x", "-c", "user.email=x", "-c", "gc.auto=0"]
    for command in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)
    return copy


@pytest.mark.slow
def test_a_change_with_a_rule_a_sink_an_endpoint_and_a_section_passes_the_checks(
    clone: Path,
) -> None:
    files = add_members(clone)
    programs = Path(sys.executable).parent
    environment = {**os.environ, "PYTHONPATH": str(clone / "src"), "MYPYPATH": str(clone / "src")}

    def run(*command: str, folder: Path = clone) -> str:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    ruff = str(programs / "ruff")
    run(ruff, "format", "--quiet", ".")  # as `make format` does
    run(ruff, "check", "--quiet", "--fix", ".")
    run(ruff, "format", "--check", ".")
    run(sys.executable, "tools/wire.py")  # as `make web` does
    said = run(sys.executable, "tools/budget.py")
    assert re.findall(r"^page, lines +\+60$", said, re.MULTILINE), said
    assert len(re.findall(r"^\w+ .* \+6[0-9]$", said, re.MULTILINE)) == 3, said
    assert re.findall(r"^total .* \+1[89][0-9]$", said, re.MULTILINE), said
    run(sys.executable, "tools/wire.py", "--check")
    run(str(programs / "lint-imports"))
    python = [name for name in files if name.endswith(".py")]
    run(sys.executable, "-m", "mypy", *python)
    modules = ROOT / "web" / "node_modules"
    if modules.exists() and shutil.which("npm"):
        (clone / "web" / "node_modules").symlink_to(modules.resolve())
        run("npm", "run", "--silent", "--if-present", "format", folder=clone / "web")
        run("npm", "run", "--silent", "check", folder=clone / "web")
        if (clone / "tools" / "page_size.py").exists():
            run(sys.executable, "tools/page_size.py")
