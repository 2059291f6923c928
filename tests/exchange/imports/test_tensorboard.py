from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest

from epochal.exchange.imports.formats.tensorboard import find
from epochal.journal.blobs import TABLE
from epochal.records import Record
from tests.exchange.imports.event_files import event, field, frame, scalar, write_events
from tests.exchange.imports.samples import TENSORBOARD, opened, records_in, values_of

FIRST = records_in(TENSORBOARD, "first")
NEW_STYLE = records_in(TENSORBOARD, "new_style")


def named(records: list[Record], kind: str, name: str) -> Record:
    return next(r for r in records if r["log"] == kind and r["name"] == name)


def test_every_folder_with_event_files_is_a_run() -> None:
    runs = opened(TENSORBOARD).runs()
    assert [run.key for run in runs] == ["first", "new_style", "second/deep"]
    assert {run.identity.project for run in runs} == {"tensorboard"}
    assert runs[0].identity.created == 1794713674.0
    assert runs[0].identity.facts["host"] == "host"


def test_scalars_keep_their_steps_and_values() -> None:
    steps, values = zip(*values_of(FIRST, "loss/train")[:40], strict=True)
    assert steps == tuple(range(40))
    assert values == pytest.approx([1 / (i + 1) for i in range(40)])


def test_nan_infinity_and_steps_below_zero_are_kept() -> None:
    (zero, nan), one, below = values_of(FIRST, "odd")
    assert (zero, math.isnan(nan)) == (0, True)
    assert (one, below) == ((1, math.inf), (-5, -1.0))


def test_new_style_scalars_keep_their_precision() -> None:
    assert values_of(FIRST, "new/double")[5] == (5, 1.0000000005)
    assert values_of(NEW_STYLE, "epoch_loss")[1] == (1, 0.5)
    assert values_of(NEW_STYLE, "half") == [(1, 1.5)]
    assert values_of(NEW_STYLE, "whole") == [(1, -3.0)]
    assert values_of(NEW_STYLE, "zero") == [(1, 0.0)]


def test_a_number_of_an_unknown_plugin_is_a_scalar_every_time() -> None:
    assert values_of(NEW_STYLE, "custom") == [(i, float(i)) for i in range(6)]


def test_several_values_of_one_event_are_all_read() -> None:
    assert values_of(FIRST, "a") == [(12, 1.5)]
    assert values_of(FIRST, "b") == [(12, 2.5)]


def test_histograms_of_both_styles_are_read() -> None:
    old, raw = named(FIRST, "histogram", "weights"), named(FIRST, "histogram", "raw")
    assert (old["count"], sum(old["counts"]), old["step"]) == (1000, 1000, 3)
    assert sum(old["edge_counts"]) == 1000
    assert (raw["lo"], raw["hi"], raw["counts"], raw["mean"]) == (0.0, 4.0, [1, 1, 1, 1], 1.5)
    assert named(NEW_STYLE, "histogram", "bins")["counts"] == [1, 0, 2, 0, 3]


def test_texts_lose_the_ending_that_their_writer_added() -> None:
    assert named(FIRST, "text", "note")["text"] == "hello **world**"
    assert named(NEW_STYLE, "text", "words")["text"] == "some text\n\nmore"


def test_images_and_sounds_are_blobs() -> None:
    assert named(FIRST, "blob", "picture")["media_type"] == "image/png"
    assert named(FIRST, "blob", "sound")["media_type"] == "audio/wav"
    images = [record for record in NEW_STYLE if record.get("name") == "img" and "file" in record]
    assert [(record["step"], record["index"]) for record in images] == [(5, 0), (5, 1)]
    assert named(NEW_STYLE, "define", "img")["title"] == "an image"


def test_a_precision_recall_curve_is_a_table_with_a_chart() -> None:
    curve = named(FIRST, "blob", "pr")
    assert (curve["media_type"], curve["rows"]) == (TABLE, 5)
    assert curve["chart"] == {"kind": "line", "x": "recall", "y": "precision"}


def test_hyperparameters_of_a_subfolder_belong_to_the_run_above() -> None:
    options = {r["name"]: r["value"] for r in FIRST if r["log"] == "option"}
    assert options == {"lr": 0.1, "layers": 2, "opt": "adam", "amsgrad": 0}
    ((step, value),) = values_of(FIRST, "hparam/accuracy")
    assert (step, round(value, 6)) == (0, 0.9)


def test_a_session_that_purges_is_a_new_attempt() -> None:
    run = next(run for run in opened(TENSORBOARD).runs() if run.key == "first")
    last = list(run.read_new())[-1]
    assert last.attempt == 2
    assert last.records[0]["log"] == "resume"
    assert [record["step"] for record in last.records] == [30, 30, 31, 32, 33, 34]


def test_a_restart_before_anything_else_is_no_attempt(tmp_path: Path) -> None:
    start = event(field(7, b"\x08\x01"), step=5)
    write_events(tmp_path, [start, scalar("a", 1.0, step=5)])
    (run,) = opened(tmp_path).runs()
    assert [batch.attempt for batch in run.read_new()] == [1]


def test_many_tags_of_one_length_are_told_apart(tmp_path: Path) -> None:
    events = [scalar(f"tag_{i % 500:04d}", i, step=i, t=1e9) for i in range(5000)]
    write_events(tmp_path, events)
    records = records_in(tmp_path)
    assert [r["m"] for r in records] == [{f"tag_{i % 500:04d}": float(i)} for i in range(5000)]


def test_events_of_one_length_and_other_shapes_are_parsed_one_by_one(tmp_path: Path) -> None:
    plain = [scalar("abc", i, step=i) for i in range(1, 9)]
    # The value before the tag: as long, and as valid.
    turned = field(5, field(1, b"\x15" + struct.pack("<f", 7.0) + field(1, "abc")))
    write_events(tmp_path, [*plain, *(event(turned, step=i) for i in range(9, 18))])
    assert values_of(records_in(tmp_path), "abc") == [
        *((i, float(i)) for i in range(1, 9)),
        *((i, 7.0) for i in range(9, 18)),
    ]


def test_the_title_of_a_tag_is_recorded_once(tmp_path: Path) -> None:
    title = field(9, field(2, "Loss of the day"))
    summaries = [field(1, field(1, "a") + b"\x15" + struct.pack("<f", i) + title) for i in range(9)]
    write_events(tmp_path, [event(field(5, s), step=i + 1) for i, s in enumerate(summaries)])
    records = records_in(tmp_path)
    titles = [record["title"] for record in records if record["log"] == "define"]
    assert titles == ["Loss of the day"]
    assert values_of(records, "a") == [(i + 1, float(i)) for i in range(9)]


def test_a_tag_that_is_no_text_is_still_shown(tmp_path: Path) -> None:
    broken = field(5, field(1, field(1, b"\xff\xfe!") + b"\x15" + struct.pack("<f", 1.0)))
    write_events(tmp_path, [event(broken, step=i) for i in range(8)])
    (name,) = {name for r in records_in(tmp_path) for name in r["m"]}
    assert name.endswith("!")


def test_an_event_longer_than_what_is_read_at_once_is_read(tmp_path: Path) -> None:
    content = b"\x89PNG\r\n\x1a\n" + bytes(5 * 1024 * 1024)
    summary = field(1, field(1, "big") + field(4, field(4, content)))
    write_events(
        tmp_path, [scalar("a", 1.0, step=1), event(field(5, summary)), scalar("a", 2, step=2)]
    )
    records = records_in(tmp_path)
    assert values_of(records, "a") == [(1, 1.0), (2, 2.0)]
    assert named(records, "blob", "big")["bytes"] == len(content)


def test_a_damaged_record_is_skipped_and_named(tmp_path: Path) -> None:
    path = write_events(tmp_path, [scalar("loss", i, step=i, t=1e9) for i in range(1, 100)])
    text = bytearray(path.read_bytes())
    size = len(frame(scalar("loss", 1, step=1)))
    text[10 * size + 20] ^= 1
    path.write_bytes(text)
    (run,) = opened(tmp_path).runs()
    (batch,) = run.read_new()
    steps = [record["step"] for record in batch.records]
    assert (11 in steps, len(steps)) == (False, 98)
    assert str(path) in run.problems[0]
    assert f"byte {10 * size + 12}" in run.problems[0]


def test_reading_ends_at_a_broken_header(tmp_path: Path) -> None:
    path = write_events(tmp_path, [scalar("loss", i, step=i, t=1e9) for i in range(1, 100)])
    text = bytearray(path.read_bytes())
    place = len(text) // 99 * 50
    text[place] ^= 0xFF
    path.write_bytes(text)
    (run,) = opened(tmp_path).runs()
    for num_read in (50, 0):
        assert sum(len(batch.records) for batch in run.read_new()) == num_read
        assert len(run.problems) == 1
    assert f"at byte {place}" in run.problems[0]


def test_a_stretch_of_zeros_at_the_end_is_looked_at_again_when_it_changes(tmp_path: Path) -> None:
    path = write_events(tmp_path, [scalar("loss", 1, step=1)])
    good = path.read_bytes()
    path.write_bytes(good + bytes(40))
    (run,) = opened(tmp_path).runs()
    assert sum(len(batch.records) for batch in run.read_new()) == 1
    path.write_bytes(good + frame(scalar("loss", 2, step=2)) + frame(b""))
    assert [record["step"] for batch in run.read_new() for record in batch.records] == [2]


def test_a_new_file_in_a_run_is_read_with_the_next_look(tmp_path: Path) -> None:
    write_events(tmp_path, [scalar("a", 1, step=1)])
    source = opened(tmp_path)
    (run,) = source.runs()
    list(run.read_new())
    write_events(tmp_path, [scalar("a", 2, step=2)], name="tfevents.2.host")
    assert source.runs() == [run]
    assert [record["step"] for batch in run.read_new() for record in batch.records] == [2]


def test_one_event_file_can_be_opened(tmp_path: Path) -> None:
    path = write_events(tmp_path / "run", [scalar("a", 1, step=1)])
    (run,) = opened(path).runs()
    assert run.identity.name == "run"


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    write_events(tmp_path / "run", [scalar("a", 1, step=1)])
    (tmp_path / "run" / "up").symlink_to(tmp_path)
    source = find(tmp_path)
    assert source is not None
    assert [run.key for run in source.runs()] == ["run"]


def test_an_event_that_ends_within_its_step_is_damage(tmp_path: Path) -> None:
    cut = b"\x09" + bytes(8) + b"\x10"
    plain = [scalar("loss", 1.0, step=i) for i in range(20)]
    endless = cut + b"\xff" * 11 + b"\x01" + plain[0][9:]
    write_events(tmp_path, [*plain, cut, cut + b"\xff", endless])
    (run,) = opened(tmp_path).runs()
    assert [record["step"] for batch in run.read_new() for record in batch.records] == list(
        range(20)
    )
    assert len(run.problems) == 3


def test_a_damaged_sample_is_one_problem_and_nothing_else_is_lost(tmp_path: Path) -> None:
    def shown(tag: int, content: bytes) -> bytes:
        return event(field(5, field(1, field(1, "x") + field(tag, field(4, content)))), step=1)

    image, audio = 4, 6
    cut = b"\x89PNG\r\n\x1a\n\0\0"  # which is stored as it is, as every encoded picture
    samples = [shown(image, b"<svg onload=alert(1)>"), shown(image, b""), shown(audio, b"")]
    samples.append(shown(image, cut))
    write_events(tmp_path, [scalar("a", 1, step=1), *samples, scalar("a", 2, step=2)])
    (run,) = opened(tmp_path).runs()
    batch = next(iter(run.read_new()))
    assert values_of(list(batch.records), "a") == [(1, 1.0), (2, 2.0)]
    assert len(batch.records) == 3
    assert run.blob(named(list(batch.records), "blob", "x")["file"]) == cut
    assert [problem.count("'x' at step 1") for problem in run.problems] == [1, 1]


def test_files_of_the_projector_are_files_of_the_run(tmp_path: Path) -> None:
    logs, secret = tmp_path / "logs", tmp_path / "secret.tsv"
    secret.write_text("secret")
    write_events(logs / "run", [scalar("a", 1, step=1)])
    (logs / "run" / "00020" / "ü").mkdir(parents=True)
    (logs / "run" / "00020" / "ü" / "tensors.tsv").write_text("1\t2\n")
    (logs / "run" / "00020" / "ü" / "metadata.tsv").symlink_to(secret)
    config = 'embeddings { tensor_path: "../../secret.tsv" }\n'
    (logs / "run" / "projector_config.pbtxt").write_text(config)
    source = opened(logs)
    (run,) = source.runs()
    found = [(batch.records[0], run) for batch in run.read_new()]
    files = {record["name"]: record for record, _ in found if record["log"] == "file"}
    assert {name: record["step"] for name, record in files.items()} == {
        "00020/ü/tensors.tsv": 20,
        "projector_config.pbtxt": 0,
    }
    (logs / "run" / "projector_config.pbtxt").write_text(config + "# more")
    source.runs()
    (batch,) = run.read_new()
    assert batch.records[0]["name"] == "projector_config.pbtxt"
    assert run.blob(batch.records[0]["file"]) == (config + "# more").encode()
