from pathlib import Path

import pytest

from epochal.companion.config import GRACE_S, parse
from epochal.journal.layout import node_name


def test_a_command_line_is_read(tmp_path: Path) -> None:
    config = parse([str(tmp_path), "--attempt", "2", "--parent", "77", "--node", "GPU-07.example"])
    assert (config.folder.path, config.attempt, config.parent) == (tmp_path, 2, 77)
    assert config.own_writer == "telemetry-gpu-07-example"
    assert config.is_main
    assert config.grace_s == GRACE_S


def test_the_companion_of_another_rank_is_not_the_main_one(tmp_path: Path) -> None:
    words = [str(tmp_path), "--attempt", "1", "--parent", "1", "--writer", "rank-0008"]
    assert not parse([*words, "--rank", "8"]).is_main


def test_every_word_of_a_command_line_has_its_field(tmp_path: Path) -> None:
    words = [str(tmp_path), "--attempt", "1", "--parent", "2", "--parent-start", "3.5"]
    config = parse([*words, "--shares-node", "--rank", "4", "--aside", "--grace", "6.0"])
    assert (config.parent_start, config.rank, config.grace_s) == (3.5, 4, 6.0)
    assert (config.shares_node, config.is_aside, config.node) == (True, True, "node")


@pytest.mark.parametrize("words", [["--attempt", "1"], ["--attempt", "1", "--parent", "1", "-x"]])
def test_a_command_line_with_a_mistake_is_refused(tmp_path: Path, words: list[str]) -> None:
    with pytest.raises((TypeError, KeyError)):
        parse([str(tmp_path), *words])


@pytest.mark.parametrize(
    ("host", "name"), [("vm", "vm"), ("...", "node"), ("A_b.C", "a-b-c"), ("x" * 80, "x" * 60)]
)
def test_a_machines_name_fits_a_writers(host: str, name: str) -> None:
    assert node_name(host) == name
