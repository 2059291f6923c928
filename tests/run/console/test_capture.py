import sys
from collections.abc import Iterator

import pytest

from epochal.run.console.capture import Capture
from epochal.run.run import recorder_of
from tests.conftest import StartRun
from tests.doubles.journals import of_kind


@pytest.fixture(autouse=True)
def own_streams() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    yield
    assert (sys.stdout, sys.stderr) == before


def captured(limit_bytes: int, *texts: str) -> list[tuple[str, str]]:
    kept: list[tuple[str, str]] = []
    capture = Capture(lambda stream, line: kept.append((stream, line)), limit_bytes)
    for text in texts:
        sys.stdout.write(text)
    capture.stop()
    return kept


def test_printed_lines_are_kept_and_still_printed(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run(capture=True)
    sys.stdout.write("hello\nwor")
    sys.stdout.write("ld\n")
    sys.stderr.write("careful\n")
    run.finish()
    kept = [(m["level"], m["text"]) for m in of_kind(run.dir, "message")]
    assert kept == [("stdout", "hello"), ("stdout", "world"), ("stderr", "careful")]
    assert capsys.readouterr() == ("hello\nworld\n", "careful\n")


def test_nothing_is_kept_unless_asked_for(start_run: StartRun) -> None:
    run = start_run()
    sys.stdout.write("hello\n")
    run.finish()
    assert of_kind(run.dir, "message") == []


def test_a_last_line_without_an_end_is_kept() -> None:
    assert captured(1000, "a\nb") == [("stdout", "a"), ("stdout", "b")]


def test_of_a_redrawn_line_only_the_last_state_is_kept() -> None:
    assert captured(1000, "10%\r", "20%\r30%\n", "40%\r") == [("stdout", "30%"), ("stdout", "40%")]


def test_what_is_kept_is_bounded_and_the_end_is_said() -> None:
    kept = captured(50, *(f"line {n}\n" for n in range(100)))
    assert kept[-1] == ("stderr", "[epochal] captured output is full; the rest is not kept")
    assert len(kept) < 12


def test_one_endless_line_is_bounded_too() -> None:
    kept = captured(100, *["x" * 1000] * 1000)
    assert kept[0] == ("stdout", "x" * 100)
    assert len(kept) == 2


def test_text_that_is_no_utf8_is_kept_readable(start_run: StartRun) -> None:
    run = start_run(capture=True)
    recorder_of(run).keep_output("stdout", "odd \udcff")
    run.finish()
    assert of_kind(run.dir, "message")[0]["text"] == "odd \\udcff"


def test_logging_while_printing_does_not_go_round_in_circles(start_run: StartRun) -> None:
    run = start_run(capture=True)
    run.message("words", level="error")
    run.finish()
    assert len(of_kind(run.dir, "message")) <= 2
