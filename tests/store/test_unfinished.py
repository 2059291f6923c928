from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.api import reading
from epochal.cli.main import main
from epochal.journal.row import RunRow, Status
from epochal.store.comparison import unfinished_text
from tests.server.live import serving
from tests.store.journals import Journal

STEPS = 100
# Two runs of the sweep stopped, both at a loss that would change every number.
LEFT_OUT = "2 unfinished runs are left out: killed (failed, 5 % of its steps), crashed (failed)."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for lr, level in ((1e-3, 1.0), (3e-3, 2.0)):
        for seed in range(5):
            config = {"lr": lr, "seed": seed}
            journal = Journal(tmp_path, f"{lr}-{seed}", config=config, totals={"steps": STEPS})
            for step in range(0, STEPS, 5):
                journal.metrics(step, loss=level + seed / 100 * lr + 1 / (1 + step))
            journal.finish()
    killed = Journal(tmp_path, "killed", config={"lr": 1e-3, "seed": 7}, totals={"steps": STEPS})
    killed.metrics(0, loss=9.0).metrics(4, loss=8.0).finish("failed")
    crashed = Journal(tmp_path, "crashed", config={"lr": 3e-3, "seed": 7})
    crashed.metrics(0, loss=9.0).metrics(1, loss=8.0).finish("failed")
    return tmp_path


def info(state: Any, **fields: Any) -> RunRow:
    return RunRow(id="x", name="x", project="p", folder="", status=Status(state, state), **fields)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (info("finished", step=4, total_steps=100), None),  # stopped early, and says so
        (info("running", step=4, total_steps=100), "running, 5 % of its steps"),
        (info("failed", step=4, total_steps=100), "failed, 5 % of its steps"),
        (info("silent", step=99, total_steps=100), None),
        (info("crashed", step=97, total_steps=100), None),
        (info("crashed", step=96, total_steps=100), "crashed, 97 % of its steps"),
        (info("interrupted", epoch=3, num_epochs=10), "interrupted, 30 % of its epochs"),
        (info("crashed", step=10_000), "crashed"),
        (info("waiting"), "waiting"),
        (info("failed", step=4, total_steps=100, nonfinite=True), None),
        (info("running", step=4, total_steps=100, nonfinite=True), "running, 5 % of its steps"),
    ],
)
def test_what_has_not_finished(run: RunRow, expected: str | None) -> None:
    assert unfinished_text(run) == expected


def test_groups_importance_and_why_leave_out_the_same_runs(root: Path) -> None:
    with reading.open(root) as runs:
        groups = runs.groups(by=["lr"])
        table, series = groups.table("loss"), groups.series("loss")
        ranking = runs.importance("loss")
        why = runs.why("0.003-0")
    for found in (table, series[0], ranking, why):
        assert sorted(one.name for one in found.unfinished.runs) == ["crashed", "killed"]
        assert not found.unfinished.are_included
    assert table.unfinished.sentence in (LEFT_OUT, swapped(LEFT_OUT))
    assert [row.n for row in table.rows] == [5, 5]
    assert [int(one.numbers.n.max()) for one in series] == [5, 5]
    assert (ranking.num_runs, ranking.missing) == (10, 0)
    assert len(why.right.runs) == 9
    assert why.sentence.endswith(why.unfinished.sentence)


def swapped(sentence: str) -> str:
    start, _, names = sentence.removesuffix(".").partition(": ")
    first, second = names.rsplit(", ", 1)
    return f"{start}: {second}, {first}."


def test_a_switch_includes_them_everywhere(root: Path) -> None:
    with reading.open(root) as runs:
        groups = runs.groups(by=["lr"], unfinished=True)
        table, series = groups.table("loss"), groups.series("loss")
        ranking = runs.importance("loss", unfinished=True)
        why = runs.why("0.003-0", unfinished=True)
    assert [row.n for row in table.rows] == [6, 6]
    assert [int(one.numbers.n.max()) for one in series] == [6, 6]
    assert ranking.num_runs == 12
    assert len(why.right.runs) == 11
    for found in (table, series[0], ranking, why):
        assert found.unfinished.sentence.startswith("2 unfinished runs are included: ")


def test_a_value_at_a_step_is_of_every_run_that_reached_it(root: Path) -> None:
    with reading.open(root) as runs:
        table = runs.groups(by=["lr"]).table("loss", at=0)
    assert [row.n for row in table.rows] == [6, 6]


def test_where_no_run_with_the_metric_has_finished_all_count(root: Path) -> None:
    for seed in range(2):
        config = {"lr": 1e-3, "seed": seed}
        journal = Journal(root, f"new-{seed}", config=config, totals={"steps": STEPS})
        journal.metrics(9, loss=5.0, acc=0.5).finish("interrupted")
    with reading.open(root) as runs:
        table = runs.groups(by=["lr"]).table("acc")
        alone = runs.groups("status == 'failed'", by=["lr"]).table("loss")
    assert table.rows[0].n == 2
    assert table.unfinished.are_included
    assert table.unfinished.sentence.startswith(
        "No finished run has the metric, so 2 unfinished runs are included: new-"
    )
    assert alone.unfinished.sentence.startswith("No run has finished, so all are included: ")


def test_why_answers_about_a_named_run_that_has_not_finished(root: Path) -> None:
    with reading.open(root) as runs:
        why = runs.why("killed", "0.001-0")
    assert why.right.name == "0.001-0"
    assert why.sentence.endswith(" killed has not finished (failed, 5 % of its steps).")


def test_commands_name_them_and_take_unfinished(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (["compare", "--group-by", "lr"], ["compare", "--importance", "loss"]):
        assert main([*command, "--dir", str(root)]) == 0
        out = capsys.readouterr().out
        assert "2 unfinished runs are left out: " in out
        assert "Use --unfinished to include them." in out
        assert main([*command, "--unfinished", "--dir", str(root)]) == 0
        assert "2 unfinished runs are included: " in capsys.readouterr().out
    assert main(["compare", "--group-by", "lr", "--csv", "--steps", "--dir", str(root)]) == 0
    printed = capsys.readouterr()
    assert "left out" not in printed.out
    assert "2 unfinished runs are left out: " in printed.err
    assert main(["why", "0.003-0", "--dir", str(root)]) == 0
    assert "--unfinished to include them." in " ".join(capsys.readouterr().out.split())
    assert main(["compare", "killed", "crashed", "--unfinished", "--dir", str(root)]) == 2
    assert "go with --group-by" in capsys.readouterr().err


def test_endpoints_and_rows_have_the_same_rule(root: Path) -> None:
    ways: list[tuple[str, dict[str, Any]]] = [
        ("/api/groups", {"metric": "loss", "by": "lr"}),
        ("/api/group_curves", {"metric": "loss", "by": "lr"}),
        ("/api/importance", {"metric": "loss"}),
        ("/api/why", {"run": "id-0.003-0"}),
    ]
    with serving(root) as server:
        rows = server.ask("/api/runs").json["rows"]
        assert {row["name"] for row in rows if row["unfinished"]} == {"killed", "crashed"}
        for path, asked in ways:
            found = server.ask(path, **asked).json
            left = (found["tables"][0] if "tables" in found else found)["unfinished"]
            assert {one["name"] for one in left["runs"]} == {"killed", "crashed"}
            assert left["sentence"].startswith("2 unfinished runs are left out: ")
            found = server.ask(path, **asked, unfinished=1).json
            left = (found["tables"][0] if "tables" in found else found)["unfinished"]
            assert left["are_included"]
