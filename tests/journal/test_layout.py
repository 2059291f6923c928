import errno
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import FormatError
from epochal.journal.layout import (
    PartName,
    RunFolder,
    claim,
    create_run_folder,
    parse_part_name,
    rank_of_writer,
    rank_writer,
    read_json,
    run_folders,
    slugify,
    staged_folder,
    write_json,
    write_new_json,
)

_DEVICES = re.compile(r"^(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


@given(st.text() | st.from_regex(r"(?i)(con|nul|com1)\.?[a-z.]{0,120}"))
def test_a_slug_is_safe_on_every_platform(name: str) -> None:
    slug = slugify(name)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9._-]*[a-z0-9])?", slug)
    assert len(slug) <= 100
    assert not _DEVICES.match(slug)
    assert slugify(name) == slug


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("GPT-2 small", "gpt-2-small"),
        ("lr=3e-4/β", "lr-3e-4"),
        ("Ünïcode", "unicode"),
        ("../../etc", "etc"),
        ("nul", "nul-run"),
        ("con.txt", "con-txt-run"),
        ("a\nb\0c", "a-b-c"),
    ],
)
def test_slugs_look_like_their_names(name: str, slug: str) -> None:
    assert slugify(name) == slug


def test_names_without_a_letter_we_can_keep_get_different_slugs() -> None:
    assert len({slugify("模型"), slugify("数据"), slugify("🙂"), slugify("\ud800")}) == 4


def test_long_names_that_differ_late_get_different_slugs() -> None:
    assert slugify("x" * 100_000 + "a") != slugify("x" * 100_000 + "b")


@given(st.lists(st.sampled_from(["a", "A", "a-2", "Ä", "a 2", "b", "B"]), max_size=8))
def test_folders_are_unique_whatever_the_case(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    project = tmp_path_factory.mktemp("project")
    made = [create_run_folder(project, name) for name in names]
    slugs = [folder.path.name.lower() for folder, _ in made]
    assert len(set(slugs)) == len(names)
    assert list(run_folders(project)) == []  # until their identities are written


def test_a_taken_name_gets_the_next_free_number(tmp_path: Path) -> None:
    assert [create_run_folder(tmp_path, "run")[1] for _ in range(3)] == ["run", "run-2", "run-3"]


def test_a_file_system_that_renames_no_folders_still_gets_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = os.rename

    def rename_files(source: Path, target: Path) -> None:
        if source.name.startswith(".new-"):
            raise OSError(errno.EMFILE, "too many open files")
        rename(source, target)

    monkeypatch.setattr(os, "rename", rename_files)
    assert [create_run_folder(tmp_path, "run")[1] for _ in range(2)] == ["run", "run-2"]
    with staged_folder(tmp_path) as staged:
        write_json(staged.identity, {})
        assert not claim(staged, tmp_path / "run")
        assert claim(staged, tmp_path / "new")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "run", "run-2"]
    assert [folder.path.name for folder in run_folders(tmp_path)] == ["new"]


def test_a_file_is_made_once_without_hard_links_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EPERM, "not permitted")

    monkeypatch.setattr(os, "link", refuse)
    path = tmp_path / "run.json"
    assert [write_new_json(path, {"n": n}) for n in range(2)] == [True, False]
    assert read_json(path) == {"n": 0}
    assert os.listdir(tmp_path) == ["run.json"]


def test_a_folder_that_differs_only_by_case_counts_as_taken(tmp_path: Path) -> None:
    (tmp_path / "RUN").mkdir()
    assert create_run_folder(tmp_path, "run")[1] == "run-2"


@given(st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,10}\Z"), st.integers(0, 10**6), st.integers(0, 10**6))
def test_part_names_come_back_from_their_files(writer: str, attempt: int, part: int) -> None:
    name = PartName(writer, attempt, part)
    assert parse_part_name(f"{name.stem}.jsonl", ".jsonl") == name


@pytest.mark.parametrize("file", ["loop.1.0.jsonl", ".loop.0001.0000.jsonl", "loop.0001.jsonl"])
def test_files_that_are_not_parts_are_left_alone(file: str) -> None:
    assert parse_part_name(file, ".jsonl") is None


def test_parts_beyond_four_digits_stay_in_order(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.journal.mkdir()
    names = [PartName("loop", 1, part) for part in (9_999, 10_000, 2)]
    for name in names:
        folder.part_path(name).touch()
    assert [name.part for name in folder.parts()] == [2, 9_999, 10_000]


def test_runs_are_found_from_the_root_the_project_or_the_run_itself(tmp_path: Path) -> None:
    run, _ = create_run_folder(tmp_path / "project", "run")
    write_json(run.identity, {})
    (tmp_path / ".launch" / "x" / "journal").mkdir(parents=True)
    for start in (tmp_path, tmp_path / "project", run.path):
        assert [found.path for found in run_folders(start)] == [run.path]
    assert list(run_folders(tmp_path / "absent")) == []


def test_json_is_replaced_whole_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    write_json(path, {"a": "\udc80"})
    assert read_json(path) == {"a": "\\udc80"}
    assert list(tmp_path.iterdir()) == [path]


def test_what_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_json(path, {"a": 1})
    with pytest.raises(TypeError):
        write_json(path, {"a": object()})
    assert read_json(path) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"a":', b"\xff"])
def test_a_file_that_is_no_json_object_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=r"run\.json"):
        read_json(path)


def test_a_rank_and_its_writer_are_found_from_one_another() -> None:
    assert [rank_writer(rank) for rank in (0, 3)] == ["loop", "rank-0003"]
    names = ("loop", "rank-0003", "rank-x", "telemetry-here", "child-7")
    assert [rank_of_writer(name) for name in names] == [0, 3, None, None, None]
