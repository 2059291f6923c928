"""Documents are executed or compared: what they say is what the program does."""

from __future__ import annotations

import inspect
import os
import pkgutil
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal import settings
from epochal.cli.main import program
from epochal.exchange.sinks.registry import own_sinks
from epochal.exchange.sinks.reporting import located_options
from epochal.health.registry import RULES
from epochal.health.rule_settings import rule_settings
from epochal.journal import summaries
from epochal.journal.fold import RunMetrics
from epochal.journal.row import SeriesSummary
from epochal.records import KINDS
from epochal.records.kinds.events import EVENTS
from epochal.server.endpoints import ENDPOINTS
from tests.doubles.command_lines import understood
from tools import docstrings, generated, release, site

ROOT = Path(__file__).parent.parent
COVERAGE = (ROOT / "docs" / "development" / "coverage.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows_of_coverage() -> list[list[str]]:
    rows = re.findall(r"^\| ([A-O]\d+) \|(.*)\|$", COVERAGE, flags=re.MULTILINE)
    return [[number, *(cell.strip() for cell in rest.split(" | "))] for number, rest in rows]


def test_coverage_has_every_row_once_with_a_known_state() -> None:
    rows = rows_of_coverage()
    assert len(rows) == len({row[0] for row in rows}) > 150
    assert {row[3] for row in rows} <= {"done", "part"}


def test_every_test_that_coverage_names_exists() -> None:
    for row in rows_of_coverage():
        named = re.findall(r"`(tests/[^`]*)`", row[4])
        is_shown = any("::" in name for name in named)
        assert is_shown or row[3] != "done", f"{row[0]} is done but names no test of a file"
        for path, _, function in (name.partition("::") for name in named):
            assert (ROOT / path).exists(), f"{row[0]} names {path}"
            is_there = not function or f"def {function}(" in (ROOT / path).read_text("utf-8")
            assert is_there, f"{row[0]} names {function}, which {path} does not have"


# -- generated parts -----------------------------------------------------------------------------


def test_every_generated_part_has_one_place() -> None:
    parts = [mark.split()[0] for mark in generated.marks()]
    assert set(parts) == generated.PARTS.keys()
    assert [name for name, count in Counter(parts).items() if count > 1] == ["python"]


def test_the_generated_parts_of_every_page_are_fresh() -> None:
    assert [page.name for page, _ in generated.stale_pages()] == []


@pytest.mark.parametrize(
    ("part", "names"),
    [
        ("commands", sorted(f"\n## epochal {name}\n" for name in program.commands)),
        ("endpoints", sorted(one.path.replace("{run_id}", "{id}") for one in ENDPOINTS)),
        ("events", [f"| `{event.name}` |" for event in EVENTS]),
        (
            "fields",
            [f"| `{kind.name}.{one.name}` |" for kind in KINDS.values() for one in kind.fields],
        ),
        ("kinds", [f"| `{kind}` |" for kind in KINDS]),
        ("rules", [f"### `{rule.name}`\n" for rule in RULES]),
        ("settings", [f"`{one.variable}`" for one in settings.DECLARED if one.variable]),
        ("sinks", [f"| `{name}` |" for name in own_sinks()]),
    ],
)
def test_a_generated_part_has_everything_that_is_declared(part: str, names: list[str]) -> None:
    text = generated.part(part)
    assert [name for name in names if name not in text] == []


def test_the_journal_page_has_every_field_of_the_summaries() -> None:
    page = (ROOT / "docs" / "explanation" / "journal.md").read_text(encoding="utf-8")
    described = set(re.findall(r"`(\w+)[`:]", page.split("\n## 10. Summaries\n")[1]))
    stored = {name for kind in (RunMetrics, SeriesSummary) for name in kind.__struct_fields__}
    stored |= summaries._STORED.keys() - {"is_summarised"}  # true of what is stored
    assert stored - described == set()


def python_marks() -> dict[str, set[str]]:
    """The names that pages generate from docstrings, by package."""
    found: dict[str, set[str]] = {}
    for part, package, *names in (mark.split() for mark in generated.marks() if " " in mark):
        assert part == "python"
        every = names or list(pkgutil.resolve_name(package).__all__)
        assert found.setdefault(package, set()).isdisjoint(every), f"{package}: a name stands twice"
        found[package].update(every)
    return found


def test_every_public_name_is_in_the_reference() -> None:
    marks = python_marks()
    for package in ("console", "health", "torch"):
        assert marks[f"epochal.{package}"] == set(getattr(epochal, package).__all__)
    assert marks["epochal"] == {*epochal.__all__, "open"} - {"__version__"}


# Classes whose objects functions return: nobody calls them.
RETURNED = {
    *("CudaGraph", "EpochRecord", "LoadReport", "LostTime", "ModelSnapshot", "RankMetrics", "Run"),
    *("RunData", "RunView", "Runs", "Series", "SpeedOfLight"),
}


def documented() -> Iterator[tuple[str, Any]]:
    """Every function, class and method of the reference."""
    for package, names in python_marks().items():
        for name in names:
            item = getattr(pkgutil.resolve_name(package), name)
            yield name, item
            members = docstrings.public_members(item) if inspect.isclass(item) else {}
            for member, value in members.items():
                yield f"{name}.{member}", docstrings.function_of(value)


def test_every_name_of_the_reference_has_a_summary_and_describes_its_arguments() -> None:
    for name, item in documented():
        read = docstrings.parsed(item)
        assert read.summary.endswith((".", ":")), name
        # The arguments of SummaryWriter's methods are torch's.
        if name not in RETURNED and not name.startswith("SummaryWriter."):
            described = read.arguments.keys() | read.attributes.keys()
            if not described:  # in the prose
                described = set(re.findall(r"`\*{0,2}(\w+)", read.text))
            asked = {parameter.name for parameter in docstrings.parameters(item)}
            assert asked - described == set(), name


def test_a_section_of_a_name_has_its_signature_arguments_and_members() -> None:
    text = "\n".join(docstrings.python_names("epochal", ["board", "Run"]))
    assert "## `board`\n\n```python\nepochal.board(\n    name: str,\n" in text
    assert "\n- `blocks`: " in text
    assert "\n**Raises** `UsageError`: " in text
    assert all(f"### `Run.{call}`\n" in text for call in ("log", "finish", "log_step"))
    assert "| `step` | The last step" in text


def test_links_fit_their_place_on_the_site() -> None:
    source = ROOT / "CONTRIBUTING.md"
    text = "[`journal`](docs/explanation/journal.md#3) [c](CHANGELOG.md) [x](Makefile) `[a](b)`"
    assert site.linked(text, "development/contributing.md", source) == (
        "[`journal`](../explanation/journal.md#3) [c](changelog.md) x `[a](b)`"
    )


def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(site.pages())


@pytest.mark.slow
def test_the_site_builds_strictly_and_requests_nothing_from_other_hosts() -> None:
    pytest.importorskip("mkdocs")
    built = subprocess.run(
        [sys.executable, ROOT / "tools" / "site.py"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    pages = list((ROOT / "site").rglob("*.html"))
    assert len(pages) > len(site.pages())
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=\"?https?:|<link[^>]+href=\"?https?:"
    )
    assert [page.name for page in pages if loaded.search(page.read_text(encoding="utf-8"))] == []
    styles = "".join(path.read_text("utf-8") for path in (ROOT / "site").rglob("*.css"))
    assert re.findall(r"url\(\W?http[^)]*", styles) == []


def test_every_environment_variable_is_documented() -> None:
    folder = Path(settings.__file__).parent
    source = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    used = set(re.findall(r'"(EPOCHAL_[A-Z_]+)"', source)) - {"EPOCHAL_PARENT_RUN"}
    page = (ROOT / "docs" / "reference" / "settings.md").read_text(encoding="utf-8")
    assert used == {name for name in used if f"`{name}`" in page}


@pytest.mark.parametrize(
    "page", ["reference/settings", "reference/findings", "how-to/rules", "how-to/clusters"]
)
def test_the_settings_in_a_guide_are_accepted(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for example in re.findall(r"```toml\n(?!\[project\.)(.*?)```", guide, flags=re.DOTALL):
        (tmp_path / "epochal.toml").write_text(example, encoding="utf-8")
        read = settings.read_settings()
        rule_settings(read)
        located_options(read.sinks)


# -- examples ------------------------------------------------------------------------------------

# A fence, what it is marked with, and its text. Before a block that cannot run stands a comment:
# <!-- not run: needs a GPU -->
_BLOCK = re.compile(
    r"^(?P<mark><!-- not run: [^>]+ -->\n+)?```(?P<language>\w*)\n(?P<text>.*?)^```", re.M | re.S
)
PAGES = {
    path.relative_to(ROOT).as_posix(): generated.without_generated(path.read_text(encoding="utf-8"))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
}
# Commands that go on until they are stopped, or that need what the page does not make.
ENDLESS = ("serve", "watch")


def python_blocks(page: str) -> list[str]:
    """The examples of a page that can run, in their order."""
    return [
        found["text"]
        for found in _BLOCK.finditer(PAGES[page])
        if found["language"] == "python" and found["mark"] is None and not file_of(found["text"])
    ]


def file_of(block: str) -> str | None:
    """The file that the reader saves a block as: its first line is ``# train.py``."""
    named = re.match(r"# (\w+\.py)\n", block)
    return named[1] if named else None


def epochal_commands(page: str) -> list[list[str]]:
    """The ``epochal …`` lines of a page's shell blocks, as words after ``epochal``."""
    commands = []
    for found in _BLOCK.finditer(PAGES[page]):
        if found["language"] in ("", "console", "sh", "bash") and found["mark"] is None:
            for line in found["text"].splitlines():
                command = line.removeprefix("$ ")
                if command.startswith("epochal "):
                    commands.append(shlex.split(command, comments=True)[1:])
    return commands


# Their commands are executed as well, in the order of the page.
FOLLOWED = ("README.md", "docs/tutorial.md", "docs/json-log.md", "docs/how-to/other-engines.md")


def run_python(code: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", sorted(PAGES.keys() - FOLLOWED))
def test_the_examples_of_a_page_run_in_order(page: str, tmp_path: Path) -> None:
    run_python("\n".join(python_blocks(page)), tmp_path)


@pytest.mark.parametrize("page", [page for page in PAGES if epochal_commands(page)])
def test_the_commands_of_a_page_are_understood(page: str) -> None:
    for words in epochal_commands(page):
        assert understood(words), words


def steps_of(page: str) -> Iterator[tuple[str, str, str]]:
    """Files, programs and commands of a page in their order, with what it shows of their output.

    Blocks without a command between them are one program.
    """
    program = ""
    for found in _BLOCK.finditer(PAGES[page]):
        if found["mark"] is not None:
            continue
        if found["language"] == "python" and file_of(found["text"]):
            yield "file", found["text"], ""
        elif found["language"] == "python":
            program += found["text"]
        elif found["language"] in ("console", "sh"):
            yield "python", program, ""
            program = ""
            parts = re.split(r"^(?:\$ |(?=epochal ))", found["text"], flags=re.M)[1:]
            yield from (("command", *part.partition("\n")[::2]) for part in parts)


def in_words(output: str) -> list[str]:
    """The lines of an output without numbers, ages and widths of columns."""
    lines = re.sub(r"[\d.]+(e[+-]\d+)?( min\b| s\b)?", "0", output).splitlines()
    return [" ".join(line.split()) for line in lines]


@pytest.mark.slow
@pytest.mark.parametrize("page", FOLLOWED)
def test_a_page_can_be_followed_from_its_start_to_its_end(page: str, tmp_path: Path) -> None:
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": scripts, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    environment["EPOCHAL_FACTS"] = "1"  # as users have it
    for kind, text, shown in steps_of(page):
        if kind == "file":
            (tmp_path / str(file_of(text))).write_text(text, encoding="utf-8")
        elif kind == "python":
            run_python(text, tmp_path)
        elif shlex.split(text)[1] not in ENDLESS:
            done = subprocess.run(
                text,
                shell=True,
                cwd=tmp_path,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            is_diagnosis = text.startswith("epochal doctor")
            assert done.returncode in ((0, 1) if is_diagnosis else (0,)), (text, done.stderr)
            printed = in_words(done.stdout)
            assert [line for line in in_words(shown) if line not in printed] == [], text


def test_the_journal_of_an_open_run_is_read_as_the_readme_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = next(line for line in README.splitlines() if line.startswith("tail "))
    if shutil.which("jq") is None:
        pytest.skip("jq is not installed")
    monkeypatch.chdir(tmp_path)
    with epochal.init("first", "correct", console=False) as run:
        run.log({"loss": 0.5}, step=0)
        run.log({"loss": 0.25}, step=1)
        # A file of another writer lies beside, as the companion's do.
        (run.dir / "journal" / "telemetry-x.0001.0000.jsonl").write_text("not of the loop\n")
        once = command.replace(" -F ", " ")
        shown = subprocess.run(once, shell=True, capture_output=True, text=True, check=False)
    assert (shown.stdout.split(), shown.stderr) == (["0.5", "0.25"], "")


# -- the repository ------------------------------------------------------------------------------


def test_the_readme_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make (\w+)`", README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


def test_the_package_is_described_by_the_first_sentence_of_the_readme() -> None:
    sentence = README.splitlines()[2].partition(". ")[0] + "."
    site_settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_description: {sentence}\n" in site_settings
    sentence = sentence.removeprefix("Epochal ").capitalize()
    for file in ("pyproject.toml", "CITATION.cff"):
        assert sentence in (ROOT / file).read_text(encoding="utf-8"), file


def test_a_release_lacks_nothing_but_facts_and_a_date() -> None:
    problems = list(release.problems(ROOT, f"v{epochal.__version__}"))
    known = re.compile(r"\w+ is empty: |CHANGELOG.md has no section ")
    assert [problem for problem in problems if not known.match(problem)] == []


def test_no_path_or_host_of_a_machine_is_in_the_repository() -> None:
    listing = subprocess.run(
        ["git", "grep", "-nIE", r"/(home|root|work)/[a-z]", "--", ".", ":!*.lock"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = [line for line in listing.stdout.splitlines() if "test_docs.py" not in line]
    assert found == []
