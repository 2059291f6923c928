from pathlib import Path

from epochal.companion.ending import do_what_is_left, has_finished
from epochal.journal.layout import RunFolder
from epochal.segments.seal import seal_part
from tests.segments.parts import FINISH, HEADER, NAME, finished_part, lines, metrics, write_part


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
