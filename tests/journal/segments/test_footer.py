"""What the footer of a segment says, and that lists read nothing else of the file."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from epochal.journal.facts import FACT_KINDS
from epochal.journal.part import SealedPart
from epochal.journal.segments.footer import KEPT_KINDS, MAX_KEPT_BYTES, Group
from epochal.journal.segments.read import Segment
from epochal.journal.tail import TailedPart
from epochal.store.local.by_path import load_run
from epochal.store.run import RunView
from tests.journal.segments.parts import NAME, finished_part, lines, metrics, sealed, write_part
from tests.store.journals import Journal
from tests.store.sealing import seal

_NUMBER = (
    st.floats(width=32) | st.floats() | st.integers(-(2**60), 2**60) | st.booleans() | st.just(0.5)
)
_METRICS = st.dictionaries(st.sampled_from(["loss", "lr", "a", "b", "c"]), _NUMBER, max_size=4)


@st.composite
def journals(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Records as programs write them; steps mostly ascend, and sets of metrics change."""
    records: list[dict[str, Any]] = []
    step = 0
    for _ in range(draw(st.integers(0, 60))):
        step += draw(st.sampled_from([1, 1, 1, 1, 2, 0, -1]))
        kind = draw(st.sampled_from(["metrics"] * 6 + ["eval", "gpu", "system", "epoch", "event"]))
        numbers = draw(_METRICS)
        record: dict[str, Any] = {"log": kind, "step": step, "m": numbers}
        if kind == "eval":
            record = {"log": kind, "step": step, "loss": draw(st.floats(-9, 9))}
        elif kind == "gpu":
            record = {"log": kind, "id": draw(st.integers(0, 2)), "util": draw(st.floats(0, 100))}
        elif kind == "system":
            record = {"log": kind, "cpu_percent": draw(st.floats(0, 100))}
        elif kind == "epoch":
            record = {"log": kind, "epoch": step, "total": 9, "m": numbers}
        elif kind == "event":
            record = {"log": kind, "name": "vanished", "sentence": "It is gone."}
        records.append(record)
    return records


def known(run: RunView) -> dict[str, str]:
    """What lists and summaries show; texts, since nan is not equal to itself."""
    metrics = run.metrics()
    return {
        "info": repr(msgspec.structs.replace(run.info, positions={}, written=None)),
        "latest": repr({role: run.latest(role) for role in ("loss", "lr", "eval_loss")}),
        "metrics": repr(sorted(metrics, key=lambda m: (m.name, m.axis))),
        "summaries": repr(
            {(m.name, m.axis): run.summary(m.name, axis=m.axis) for m in sorted(metrics, key=repr)}
        ),
    }


def lose_columns(path: Path) -> None:
    """Overwrite all of a Parquet file but its footer."""
    content = path.read_bytes()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    path.write_bytes(bytes(len(content) - footer) + content[-footer:])


@settings(phases=[Phase.explicit, Phase.generate])
@given(journals(), st.booleans())
def test_footers_say_the_same_as_a_full_read(records: list[dict[str, Any]], ends: bool) -> None:
    with tempfile.TemporaryDirectory() as root:
        journal = Journal(Path(root)).add(*records)
        if ends:
            journal.finish()
        before = known(load_run(journal.folder.path))
        seal(journal.folder)
        after = known(load_run(journal.folder.path))
        assert after == before


def test_lists_and_summaries_read_no_column(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(5000):
        journal.metrics(step, loss=1 / (step + 1), lr=0.1 * step, acc=math.nan if step == 7 else 1)
        if step % 100 == 0:
            journal.add({"log": "gpu", "id": step % 3, "util": 0.5 * step})
    journal.add({"log": "finding", "rule": "plateau", "severity": "warning"}).finish()
    journal.add({"log": "finish", "status": "finished"}, writer="findings")
    before = known(load_run(journal.folder.path))
    seal(journal.folder)
    for path in journal.folder.segments.iterdir():
        lose_columns(path)
    run = load_run(journal.folder.path)
    assert known(run) == before
    with pytest.raises(Exception, match="damaged"):
        run.series("loss")


def test_kinds_of_many_records_are_not_repeated_in_the_footer(tmp_path: Path) -> None:
    event = {"log": "event", "t": 1.0, "name": "note", "text": "x" * (MAX_KEPT_BYTES // 10)}
    with sealed(tmp_path, metrics(1, loss=1.0), *[event] * 12) as segment:
        footer = Segment(segment.path).footer
        assert "event" not in footer.kept
        assert footer.kinds["event"] == 12
        assert {"run", "finish"} <= set(footer.kept)


def test_a_part_of_many_events_says_what_they_mean_for_the_run(tmp_path: Path) -> None:
    note = {"log": "event", "t": 1.0, "name": "note", "text": "x" * (MAX_KEPT_BYTES // 10)}
    phases = [{"log": "event", "t": 1.0, "name": "phase", "phase": name} for name in "ab"]
    gone = {"log": "event", "t": 1.0, "name": "vanished", "sentence": "It is gone."}
    folder = finished_part(tmp_path, *[note] * 12, phases[0], gone, phases[1], note)
    journal = TailedPart(folder.part_path(NAME), NAME)
    journal.poll()
    seal(folder)
    lose_columns(folder.sealed_path(NAME))
    assert SealedPart(folder.sealed_path(NAME), NAME).facts == journal.facts
    assert (journal.facts.phase, journal.facts.vanished) == ("b", "It is gone.")


def test_every_series_has_a_summary(tmp_path: Path) -> None:
    wide = {f"layer{number}": float(number) for number in range(2000)}
    with sealed(tmp_path, *(metrics(step, loss=0.5, **wide) for step in range(3))) as segment:
        footer = Segment(segment.path).footer
    assert len(footer.names) == len(footer.summaries) == 2001
    assert footer.summaries[footer.names[7]].summary.last == 6.0


def test_a_wide_part_becomes_smaller(tmp_path: Path) -> None:
    wide = {f"block{number // 100}/m{number}": number * 0.001 for number in range(5000)}
    folder = finished_part(tmp_path, *(metrics(step, **wide) for step in range(3)))
    size = folder.part_path(NAME).stat().st_size
    seal(folder)
    assert folder.sealed_path(NAME).stat().st_size < size


def test_a_part_without_a_record_has_a_footer(tmp_path: Path) -> None:
    folder = write_part(tmp_path, lines())
    seal(folder)
    footer = Segment(folder.sealed_path(NAME)).footer
    assert (footer.num_records, footer.names) == (0, [])


def test_other_readers_take_the_footer_for_texts(tmp_path: Path) -> None:
    many = {f"m{number}": 1.0 for number in range(400)}
    with sealed(tmp_path, *(metrics(step, **many) for step in range(20))) as segment:
        pairs = segment._open().metadata.metadata
    assert all(value.decode() for value in pairs.values())


def test_all_facts_of_a_run_are_kept() -> None:
    assert set(FACT_KINDS) <= set(KEPT_KINDS)


def test_an_object_in_the_middle_of_a_record_has_its_own_members() -> None:
    keys = (("t", None), ("nonfinite", ("loss",)), ("step", None))
    group = Group("abs-maxes", keys, ("float", "str", "int"), "", 1)
    assert list(group.records([[0.5], ["nan"], [3]], 1)) == [
        {"log": "abs-maxes", "t": 0.5, "nonfinite": {"loss": "nan"}, "step": 3}
    ]
