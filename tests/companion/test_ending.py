from pathlib import Path

from epochal.companion.ending import CrashEvidence, do_what_is_left, has_finished, reached
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode
from epochal.journal.segments.seal import seal_part
from epochal.telemetry.host import Cgroup
from tests.doubles.companions import companion_config
from tests.doubles.journals import append_step, open_writer
from tests.journal.segments.parts import (
    FINISH,
    HEADER,
    NAME,
    finished_part,
    lines,
    metrics,
    write_part,
)


class Job:
    command = "do it"

    def __init__(self, name: str, calls: list[str], *, num_looks: int) -> None:
        self._name = name
        self._calls = calls
        self._looks = num_looks

    def go_on(self) -> bool:
        self._calls.append(self._name)
        self._looks -= 1
        return self._looks > 0

    def stop(self) -> None:
        self._calls.append(f"stop {self._name}")

    def left(self) -> str | None:
        return f"{self._name} is left" if self._looks > 0 else None


def test_jobs_are_done_in_order() -> None:
    calls: list[str] = []
    jobs = {"a": Job("a", calls, num_looks=2), "b": Job("b", calls, num_looks=1)}
    assert do_what_is_left(jobs, deadline_s=1, clock=lambda: 0, sleep=lambda _s: None) == []
    assert calls == ["a", "a", "b"]


def test_when_time_is_up_each_job_is_stopped_and_named() -> None:
    calls: list[str] = []
    jobs = {"a": Job("a", calls, num_looks=9), "b": Job("b", calls, num_looks=9)}
    left = do_what_is_left(jobs, deadline_s=1, clock=lambda: 2, sleep=lambda _s: None)
    assert calls == ["a", "stop a", "b", "stop b"]
    assert left == [
        {"what": "a is left", "command": "do it"},
        {"what": "b is left", "command": "do it"},
    ]


def test_a_run_has_finished_when_its_file_says_so(tmp_path: Path) -> None:
    many = [metrics(step, loss=0.5) for step in range(3000)]
    folder = write_part(tmp_path, lines(HEADER, *many))
    assert not has_finished(folder, "loop", 1)
    write_part(tmp_path, lines(HEADER, *many, FINISH))
    assert has_finished(folder, "loop", 1)
    assert not has_finished(folder, "loop", 2)


def test_the_word_finish_in_a_message_ends_nothing(tmp_path: Path) -> None:
    message = {"log": "message", "t": 1.0, "text": '"finish"', "finish": "finish"}
    folder = write_part(tmp_path, lines(HEADER, message))
    assert not has_finished(folder, "loop", 1)


def test_a_file_that_is_sealed_was_finished(tmp_path: Path) -> None:
    folder = finished_part(tmp_path, metrics(0, a=1))
    seal_part(folder, NAME)
    assert has_finished(folder, "loop", 1)
    assert not has_finished(RunFolder(tmp_path / "gone"), "loop", 1)


# -- a process that vanished ------------------------------------------------------


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
