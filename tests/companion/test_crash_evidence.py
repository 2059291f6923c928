from pathlib import Path

from epochal.companion.crash_evidence import CrashEvidence, reached
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode
from epochal.telemetry.cgroup import Cgroup
from tests.doubles.companions import companion_config
from tests.doubles.journals import append_step, open_writer


def group(folder: Path, kills: int) -> Cgroup:
    (folder / "membership").write_text("0::/\n")
    (folder / "memory.events").write_text(f"oom_kill {kills}\n")
    return Cgroup(membership=folder / "membership", mount=folder)


def test_a_kill_for_want_of_memory_is_told_with_the_last_step(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    append_step(writer, 41)
    writer.close()
    witness = CrashEvidence.beside(companion_config(tmp_path, parent=7), cgroup=group(tmp_path, 2))
    group(tmp_path, 3)
    facts = witness.collect({"rss": 8 * 1024**3})
    assert (facts["pid"], facts["last_step"], facts["oom_kills"]) == (7, 41, 1)
    assert facts["exit"] == "unknown"
    assert facts["sentence"] == (
        "the training process vanished after step 41 without a word; the kernel has killed a"
        " process of its group for want of memory since; it held 8.0 GiB when last seen."
    )


def test_what_is_not_known_is_left_out(tmp_path: Path) -> None:
    nowhere = Cgroup(membership=tmp_path / "absent", mount=tmp_path)
    facts = CrashEvidence.beside(companion_config(tmp_path), cgroup=nowhere).collect({"rss": None})
    assert set(facts) == {"sentence", "pid", "exit"}
    assert "before its first step" in facts["sentence"]


def test_the_last_step_may_be_in_an_older_part(tmp_path: Path) -> None:
    writer = open_writer(tmp_path, part_bytes=150)
    while len(RunFolder(tmp_path).parts()) < 2:
        append_step(writer, 2)
    assert reached(RunFolder(tmp_path), "loop", 1) == (2, None)
    assert reached(RunFolder(tmp_path), "loop", 2) == (None, None)
    writer.close()


def test_a_run_that_counts_epochs_vanished_after_an_epoch(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for epoch in (1, 2):
        writer.append(encode({"log": "epoch", "t": 0.0, "epoch": epoch, "m": {}}), 0.0)
    writer.close()
    facts = CrashEvidence.beside(companion_config(tmp_path)).collect({})
    assert (facts["last_epoch"], facts.get("last_step")) == (2, None)
    assert "vanished after epoch 2 without a word" in facts["sentence"]
