"""Boards as files: what is saved is read again, and nobody replaces the changes of others."""

from __future__ import annotations

import base64
import gzip
import json
import math
import multiprocessing
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import epochal
from benchmarks.series_body import decode_series
from epochal.cli.main import main
from epochal.errors import FormatError, UsageError
from epochal.journal.boards import (
    MAX_BLOCKS,
    MAX_BOARDS,
    Block,
    Board,
    BoardNotFoundError,
    OutdatedBoardError,
    find_board,
    read_boards,
    remove_board,
    save_board,
)
from epochal.journal.layout import run_folders
from epochal.store.local.catalog import open_store
from tests.store.journals import Journal

CHART = Block(kind="chart", series=["train/loss", "eval/*"])


def names(folder: Path) -> list[str]:
    return [stored.board.name for stored in read_boards(folder, "p")]


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "boards").glob("*.json"))


# -- files ----------------------------------------------------------------------------------------


def test_a_board_is_read_as_it_was_saved_and_defaults_are_left_out(tmp_path: Path) -> None:
    board = Board("paper", [CHART, Block(kind="text", text="## Why?", width=12)], group="lr")
    saved = save_board(tmp_path, "p", board, None)
    assert read_boards(tmp_path, "p") == [saved]
    stored = json.loads((tmp_path / "boards" / "paper.json").read_bytes())
    assert stored["blocks"][0] == {"kind": "chart", "series": ["train/loss", "eval/*"]}
    assert stored.keys() == {"name", "blocks", "group"}


def test_an_outdated_board_is_refused(tmp_path: Path) -> None:
    first = save_board(tmp_path, "p", Board("b"), None)
    second = save_board(tmp_path, "p", Board("b", [CHART]), first.revision)
    assert second.revision != first.revision
    with pytest.raises(OutdatedBoardError, match="changed by somebody else"):
        save_board(tmp_path, "p", Board("b", x="epoch"), first.revision)
    with pytest.raises(OutdatedBoardError, match="already"):
        save_board(tmp_path, "p", Board("b"), None)
    with pytest.raises(OutdatedBoardError, match="changed by somebody else"):
        remove_board(tmp_path, "p", "b", first.revision)
    with pytest.raises(UsageError, match="name the revision"):
        remove_board(tmp_path, "p", "b", None)
    assert read_boards(tmp_path, "p") == [second]
    remove_board(tmp_path, "p", "b", second.revision)
    with pytest.raises(BoardNotFoundError):
        remove_board(tmp_path, "p", "b", second.revision)
    with pytest.raises(OutdatedBoardError, match="was deleted"):
        save_board(tmp_path, "p", Board("b"), second.revision)


def _save(folder: Path, number: int, revision: str) -> bool:
    try:
        save_board(folder, "p", Board("b", query=f"step == {number}"), revision)
    except OutdatedBoardError:
        return False
    return True


def test_of_processes_that_save_at_once_one_wins(tmp_path: Path) -> None:
    first = save_board(tmp_path, "p", Board("b"), None)
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        work = [(tmp_path, number, first.revision) for number in range(40)]
        assert sum(pool.starmap(_save, work, chunksize=1)) == 1


@pytest.mark.parametrize(
    "name", ["../../x", "/etc/passwd", "con", "Größe 图", "图表", "a/b\\c:d*?", "🧪" * 40, "."]
)
def test_a_board_may_have_any_name(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "runs" / "p"
    stored = save_board(folder, "p", Board(name), None)
    assert names(folder) == [name]
    assert [path for path in tmp_path.rglob("*.json") if path.parent.name != "boards"] == []
    save_board(folder, "p", Board(name, [CHART]), stored.revision)
    assert len(files(folder)) == 1


def test_names_that_differ_have_files_that_differ_without_case(tmp_path: Path) -> None:
    for name in ("Paper", "paper", "PAPER ", "pa/per", "pa-per"):
        save_board(tmp_path, "p", Board(name), None)
    assert len({file.lower() for file in files(tmp_path)}) == 5
    assert sorted(names(tmp_path)) == sorted(("Paper", "paper", "PAPER ", "pa/per", "pa-per"))


def test_what_is_too_much_is_refused(tmp_path: Path) -> None:
    for board in (Board(" "), Board("a\nb"), Board("b", [Block(kind="text", text="x" * 65536)])):
        with pytest.raises(UsageError):
            save_board(tmp_path, "p", board, None)
    with pytest.raises(UsageError, match=f"<= {MAX_BLOCKS}"):
        epochal.board("b", ["x"] * (MAX_BLOCKS + 1))
    for number in range(MAX_BOARDS):
        (tmp_path / "boards").mkdir(exist_ok=True)
        (tmp_path / "boards" / f"{number}.json").write_text(f'{{"name": "{number}"}}')
    with pytest.raises(UsageError, match="at most"):
        save_board(tmp_path, "p", Board("one more"), None)


def test_a_broken_file_is_listed_and_breaks_nothing_else(tmp_path: Path) -> None:
    save_board(tmp_path, "p", Board("good", [CHART]), None)
    place = tmp_path / "boards"
    contents = {"half": '{"name": "h', "kind": '{"name": "k", "blocks": [{"kind": "pie"}]}'}
    contents |= {"deep": '{"name": "d", "y": ' + "[" * 20_000, "large": " " * 70_000, "list": "[]"}
    for name, text in contents.items():
        (place / f"{name}.json").write_text(text)
    (place / "folder.json").mkdir()
    (place / "twin.json").write_text('{"name": "good"}')
    found = {stored.board.name: stored.problem for stored in read_boards(tmp_path, "p")}
    assert found.pop("good") is None
    assert found.keys() == {*contents, "folder", "twin"}
    assert all(problem and problem.endswith(".") for problem in found.values())
    with pytest.raises(FormatError, match=r"kind\.json"):
        find_board(read_boards(tmp_path, "p"), "kind")
    broken = next(s for s in read_boards(tmp_path, "p") if s.board.name == "half")
    remove_board(tmp_path, "p", "half", broken.revision)
    assert "half.json" not in files(tmp_path)


def test_names_of_files_that_are_not_utf8_are_listed_with_replacements(tmp_path: Path) -> None:
    save_board(tmp_path, "p", Board("good"), None)
    (tmp_path / "boards" / os.fsdecode(b"\xff.json")).write_text("{")
    found = read_boards(tmp_path, "p")
    assert [stored.board.name for stored in found] == ["good", "\ufffd"]
    assert b"not a valid board" in msgspec.json.encode(found)
    remove_board(tmp_path, "p", "\ufffd", found[1].revision)
    assert names(tmp_path) == ["good"]


@pytest.mark.parametrize(
    ("board", "words"),
    [
        (Board("b", x="eval/loss"), "x of a board is one of step"),
        (Board("b", smooth=1.0), "below 1"),
        (Board("b", [Block(kind="chart", limits=(5, 1))]), "lower limit"),
        (Board("b", [Block(kind="chart", limits=(math.nan, None))]), "lower limit"),
    ],
)
def test_values_that_no_chart_can_show_are_refused_and_read(
    tmp_path: Path, board: Board, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        save_board(tmp_path, "p", board, None)
    (tmp_path / "boards").mkdir(exist_ok=True)
    (tmp_path / "boards" / "b.json").write_bytes(msgspec.json.encode(board))
    (stored,) = read_boards(tmp_path, "p")
    assert (stored.board.name, stored.problem) == ("b", None)


def test_fields_of_later_versions_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "boards").mkdir()
    text = '{"name": "b", "new": 1, "blocks": [{"kind": "chart", "series": ["a"], "also": {}}]}'
    (tmp_path / "boards" / "b.json").write_text(text)
    (stored,) = read_boards(tmp_path, "p")
    assert stored.board == Board("b", [Block(kind="chart", series=["a"])])


# -- beside runs ----------------------------------------------------------------------------------


def test_boards_are_never_taken_for_runs(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(1, loss=1.0).finish()
    for project in ("p", "only-boards"):
        # As a file of another tracker may be called.
        save_board(tmp_path / project, project, Board("training", [CHART]), None)
        save_board(tmp_path / project, project, Board("metrics"), None)
    for root in (tmp_path, tmp_path / "p"):
        with open_store(root) as store:
            assert [run.info.name for run in store.runs()] == ["a"]
            assert [project.name for project in store.projects().projects] == ["p"]
            assert [run.project for run in store.catalog.rows()] == ["p"]
            assert store.trash.runs() == []
    with open_store(tmp_path / "only-boards") as store:
        assert len(store.runs()) == 0
    assert [folder.path.name for folder in run_folders(tmp_path)] == ["a"]


def test_a_run_called_boards_gets_another_folder(tmp_path: Path) -> None:
    with epochal.init("p", "boards", dir=tmp_path, companion=False, console=False) as run:
        run.log({"loss": 1.0})
        epochal.board("b", ["loss"])
    assert run.dir.name == "boards-2"
    assert names(tmp_path / "p") == ["b"]


def test_a_store_finds_the_boards_of_its_projects(tmp_path: Path) -> None:
    Journal(tmp_path, "a", project="My Project").metrics(1, loss=1.0).finish()
    (tmp_path / "My Project").rename(tmp_path / "my-project")
    for root in (tmp_path, tmp_path / "my-project"):
        with open_store(root) as store:
            stored = store.boards.save("My Project", Board(f"of {root.name}"), None)
            assert stored in store.boards.list("My Project")
            for unknown in ("other", "../my-project/../x", "boards", "my-project/../.."):
                with pytest.raises(BoardNotFoundError, match="no project"):
                    store.boards.save(unknown, Board("b"), None)
    assert len(files(tmp_path / "my-project")) == 2
    with open_store(tmp_path / "my-project" / "a") as store:  # as the link to one run is served
        assert store.boards.list() == []
        with pytest.raises(BoardNotFoundError):
            store.boards.save("My Project", Board("b"), None)


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    Journal(runs, "a").metrics(1, loss=1.0).finish()
    save_board(tmp_path / "elsewhere", "p", Board("secret"), None)
    (runs / "p" / "boards").symlink_to(tmp_path / "elsewhere" / "boards")
    with open_store(runs) as store:
        assert store.boards.list() == []
        with pytest.raises(BoardNotFoundError):
            store.boards.save("p", Board("b"), None)
    with open_store(runs, follow_links=True) as store:
        assert [stored.board.name for stored in store.boards.list()] == ["secret"]


# -- from Python ----------------------------------------------------------------------------------


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path))
    return tmp_path


def test_a_script_makes_a_board_and_replaces_it(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = epochal.Markdown("## Does the larger batch help?")
    blocks: list[Any] = [text, "train/loss", ["train/loss", "eval/*"], "train/loss - eval/loss"]
    blocks += [{"samples": "val/*"}, {"text": "end", "width": 3}]
    blocks += [{"chart": ["a", "b"], "log_y": True, "limits": (0, None), "height": 3}]
    blocks += [{"chart": "c", "x": "epoch"}]
    epochal.board("paper-figures", ["old"], project="sweep")
    epochal.board("paper-figures", blocks, project="sweep", group="lr", smooth=0.6)
    assert str(runs / "sweep" / "boards") in capsys.readouterr().out
    (stored,) = read_boards(runs / "sweep", "sweep")
    assert stored.board == Board(
        "paper-figures",
        [
            Block(kind="text", text="## Does the larger batch help?", width=12),
            Block(kind="chart", series=["train/loss"]),
            CHART,
            Block(kind="chart", series=["train/loss - eval/loss"]),
            Block(kind="samples", series=["val/*"], width=12),
            Block(kind="text", text="end", width=3),
            Block(kind="chart", series=["a", "b"], log_y=True, limits=(0, None), height=3),
            Block(kind="chart", series=["c"], x="epoch"),
        ],
        group="lr",
        smooth=0.6,
    )


@pytest.mark.parametrize(
    ("blocks", "fields", "words"),
    [
        ("train/loss", {}, "list"),
        (5, {}, "list"),
        (["a"], {"runs": 5}, "runs"),
        (["a"], {"runs": "abc"}, "runs"),
        ([3], {}, "block 1 must be a text, a list of texts, Markdown or a mapping, not 3"),
        ([["a", 3]], {}, "mapping"),
        (["a", "train/loss -"], {}, "'train/loss -' in block 2 .* expected a metric or a number"),
        ([{"chart": "a", "hight": 2}], {}, "'hight': use chart, samples or text, and any of title"),
        ([{"chart": 3}], {}, r"Expected `str`, got `int` - at `\$.blocks\[0\].series"),
        (["a", {"chart": "a", "width": 5}], {}, r"Invalid enum value 5 - at `\$.blocks\[1\].width"),
        ([{"title": "a"}], {}, "exactly one of chart, samples and text"),
        (["a"], {"smooth": 2}, r"<= 1.0 - at `\$.smooth"),
        (["a"], {"spread": "sdt"}, r"Invalid enum value 'sdt' - at `\$.spread"),
    ],
)
def test_a_wrong_board_is_refused_in_a_sentence(
    runs: Path, blocks: Any, fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        epochal.board("b", blocks, **fields)
    assert list(runs.iterdir()) == []


def test_in_a_run_a_board_goes_to_its_project_and_a_fault_stays_out_of_the_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Broken:
        def __iter__(self) -> Any:
            raise RuntimeError("broken")

    with epochal.init("my project", "a", dir=tmp_path, companion=False) as run:
        epochal.board("b", ["loss"])
        epochal.board("other", ["loss"], project="q")
        epochal.board("wrong", [{"pie": 1}])
        wrong: Any = 5
        epochal.board("number", ["loss"], runs=wrong)
        epochal.board("generator", ["loss"], runs=(run.id for _ in range(2)))
        epochal.board("broken", Broken())
        (tmp_path / "file").write_text("no folder")
        epochal.board("nowhere", ["loss"], project="file")
        run.log({"loss": 1.0})
    assert names(tmp_path / "my-project") == ["b", "generator"]
    assert names(tmp_path / "q") == ["other"]
    printed = capsys.readouterr()
    assert "'pie'" in printed.out + printed.err


def test_a_run_that_is_not_recorded_saves_no_board(tmp_path: Path) -> None:
    with epochal.init("p", dir=tmp_path, enabled=False):
        epochal.board("b", ["loss"])
    assert list(tmp_path.iterdir()) == []


# -- as a file to share ---------------------------------------------------------------------------


def archive(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8").partition('id="epochal-archive">')[2]
    found: dict[str, Any] = json.loads(text.partition("</script>")[0])
    return found


def series_names(found: dict[str, Any]) -> list[str]:
    bodies = [gzip.decompress(base64.b64decode(body)) for body in found["series"]]
    return [series.head["name"] for body in bodies for series in decode_series(body)[1]]


def test_a_board_is_exported_with_its_runs(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, lr in (("a", 0.1), ("b", 0.01), ("c", 0.001)):
        journal = Journal(runs, name, config={"lr": lr}).metrics(1, loss=lr)
        journal.finish()
    Journal(runs, "z", project="q").metrics(1, loss=1.0).finish()
    epochal.board("</script> small", ["loss"], project="p", query="config.lr < 0.05")
    series = ["loss", "loss * 2", "nothing - loss", "eval/*", "loss -"]
    blocks = [Block(kind="chart", series=[one]) for one in series]
    save_board(runs / "p", "p", Board("report", blocks, runs=["id-a", "gone"]), None)
    epochal.board("report", ["loss"], project="q")
    out = runs / "out.html"

    assert main(["export", "--board", "</script> small", "-o", str(out)]) == 0
    found = archive(out)
    assert [row["name"] for row in found["runs"]["rows"]] == ["b", "c"]
    assert found["board"] == "</script> small"
    assert [one["board"]["name"] for one in found["boards"]] == ["</script> small"]
    assert "query" not in found["boards"][0]["board"]  # nobody could answer it

    assert main(["export", "--board", "report", "-o", str(out)]) == 2
    assert "several projects" in capsys.readouterr().err
    assert main(["export", "--board", "report", "--project", "p", "-o", str(out)]) == 0
    found = archive(out)
    assert [row["name"] for row in found["runs"]["rows"]] == ["a"]
    assert series_names(found) == ["loss", "loss * 2"]
    assert "'nothing - loss' has no values: the formula needs" in capsys.readouterr().err
    assert found["problems"].keys() == {"nothing - loss", "loss -"}

    assert main(["export", "--board", "none"]) == 2
    assert "'report'" in capsys.readouterr().err
    assert main(["export", "--board", "report", "--project", "p", "-o", "x.csv"]) == 2

    assert main(["export", "p/b", "-o", str(out)]) == 0
    found = archive(out)
    assert "loss * 2" in series_names(found)
    assert found["board"] is None
    assert [one["board"]["name"] for one in found["boards"]] == ["</script> small", "report"]

    assert main(["export", "p/b", "-m", "loss - 1", "-o", str(out)]) == 0
    found = archive(out)
    assert "loss - 1" in series_names(found)
    assert found["boards"][0]["board"]["name"] == found["board"] == "metrics"
