from pathlib import Path

import pytest

from epochal.companion.config import GRACE_S, parse
from epochal.journal.layout import node_name


def test_a_command_line_is_read(tmp_path: Path) -> None:
    config = parse([str(tmp_path), '{"attempt": 2, "parent": 77, "node": "gpu-07"}'])
    assert (config.folder.path, config.attempt, config.parent) == (tmp_path, 2, 77)
    assert config.own_writer == "telemetry-gpu-07"
    assert config.is_main
    assert config.grace_s == GRACE_S


def test_the_companion_of_another_rank_is_not_the_main_one(tmp_path: Path) -> None:
    facts = '{"attempt": 1, "parent": 1, "writer": "rank-0008", "rank": 8}'
    assert not parse([str(tmp_path), facts]).is_main


@pytest.mark.parametrize(
    ("host", "name"), [("vm", "vm"), ("...", "node"), ("A_b.C", "a-b-c"), ("x" * 80, "x" * 60)]
)
def test_a_machines_name_fits_a_writers(host: str, name: str) -> None:
    assert node_name(host) == name
