"""What every sink keeps to, judged by each tracker's own reader.

A sink is found by its file. What the tests need to know of it stands in its own test file.
"""

from pathlib import Path

import pytest

from epochal.exchange.sinks.registry import make_sink, own_sinks
from epochal.records import KINDS
from tests.conftest import StartRun
from tests.exchange.sinks.member import check_records_arrive_once, member_of

every_sink = pytest.mark.parametrize("name", own_sinks())


@every_sink
def test_sink_is_made_by_its_name_without_its_tracker(name: str) -> None:
    assert make_sink(name).close(None) == {}


@every_sink
def test_sink_states_what_its_target_can_hold(name: str) -> None:
    sink = own_sinks()[name]
    assert "holds" in vars(sink)
    assert {content.partition(":")[0] for content in sink.holds} <= {"*", *KINDS}


@every_sink
def test_records_arrive_once_over_a_stop_and_a_crash(
    name: str, start_run: StartRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = member_of(name)
    folder = tmp_path / "out"
    folder.mkdir()
    for variable, value in member.environment(folder).items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    run = start_run(config={"lr": 0.1, "model": {"depth": 2}})
    check_records_arrive_once(name, member, run, folder)
