import io

import pytest

from epochal.run.console.messages import LogVerbosity, Verbosity, set_verbosity
from epochal.run.console.printer import Console


def everything(console: Console) -> None:
    console.step(":: step")
    console.eval(">> eval")
    console.line("  epoch")
    console.line("[G]", Verbosity.VERBOSE)
    console.block("[Block]")
    console.closing("  training complete")


def printed(verbosity: Verbosity | LogVerbosity | None) -> list[str]:
    stream = io.StringIO()
    everything(Console(stream, verbosity=verbosity))
    return stream.getvalue().splitlines()


NORMAL_LINES = [":: step", ">> eval", "  epoch", "[Block]", "", "  training complete"]


@pytest.mark.parametrize("level", [None, Verbosity.NORMAL, LogVerbosity.DEFAULT])
def test_normal_shows_all_but_telemetry(level: Verbosity | LogVerbosity | None) -> None:
    assert printed(level) == NORMAL_LINES


@pytest.mark.parametrize("level", [Verbosity.VERBOSE, LogVerbosity.VERBOSE])
def test_verbose_shows_telemetry(level: Verbosity | LogVerbosity) -> None:
    assert "[G]" in printed(level)


@pytest.mark.parametrize("level", [Verbosity.QUIET, LogVerbosity.SILENT])
def test_quiet_shows_nothing(level: Verbosity | LogVerbosity) -> None:
    assert printed(level) == []


def test_minimal_shows_evaluations() -> None:
    assert printed(LogVerbosity.MINIMAL) == [">> eval"]


@pytest.mark.parametrize("level", [None, LogVerbosity.DEFAULT])
def test_the_default_follows_the_process(level: LogVerbosity | None) -> None:
    set_verbosity(Verbosity.QUIET)
    assert printed(level) == []


def test_lines_go_to_stderr_and_messages_by_their_level(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(verbosity=Verbosity.DEBUG)
    console.step(":: step")
    console.message("loading %s", "weights")
    console.message("detail", level=Verbosity.DEBUG)
    assert capsys.readouterr() == ("loading weights\n", ":: step\ndetail\n")


def test_a_notice_is_said_once_at_every_level(capsys: pytest.CaptureFixture[str]) -> None:
    console = Console(verbosity=LogVerbosity.SILENT)
    for text in ("disk full", "disk full", "disk is writable again"):
        console.notice(text)
    assert capsys.readouterr().err == "epochal: disk full\nepochal: disk is writable again\n"


def test_step_lines_are_rate_limited_and_the_last_is_shown() -> None:
    stream = io.StringIO()
    console = Console(stream, min_interval_s=1.0)
    for step in range(25):
        console.step(str(step), now=step / 10)
    console.close()
    assert stream.getvalue().split() == ["0", "10", "20", "24"]


def test_closing_shows_the_held_line_first() -> None:
    stream = io.StringIO()
    console = Console(stream, min_interval_s=60)
    console.step("first", now=0)
    console.step("last", now=1)
    console.closing("closing")
    console.close()
    assert stream.getvalue().split() == ["first", "last", "closing"]


def test_what_follows_a_step_stands_below_its_line() -> None:
    stream = io.StringIO()
    console = Console(stream, min_interval_s=60)
    for step in range(3):
        console.step(f"{step}", now=step)
    console.eval("eval")
    console.step("3", now=3)
    console.notice("a notice")
    console.notice("a notice")
    console.close()
    assert stream.getvalue().splitlines() == ["0", "2", "eval", "3", "epochal: a notice"]


def test_lines_that_are_not_shown_are_never_made() -> None:
    console = Console(io.StringIO(), min_interval_s=60)
    console.step("shown", now=0)
    console.step(lambda: pytest.fail("made"), now=1)
    console.step("newest", now=2)
    console.line(lambda: pytest.fail("made"), Verbosity.VERBOSE)
    console.close()


def test_a_stream_that_is_gone_stops_nothing() -> None:
    stream = io.StringIO()
    console = Console(stream)
    stream.close()
    console.step("lost")
    console.line("lost")
    console.close()


def test_no_bar_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    console = Console(stream)
    assert not console.start_progress(total=10)
    console.progress(5, now=1e9)
    console.close()
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (LogVerbosity.SILENT, []),
        (LogVerbosity.MINIMAL, []),
        (Verbosity.QUIET, ["epochal: error: nan"]),
        (LogVerbosity.DEFAULT, ["epochal: error: nan", "epochal: warning: slow"]),
        (Verbosity.NORMAL, ["epochal: error: nan", "epochal: warning: slow"]),
    ],
)
def test_findings_by_level(level: Verbosity | LogVerbosity, shown: list[str]) -> None:
    stream = io.StringIO()
    console = Console(stream, verbosity=level)
    console.finding("error: nan", is_error=True)
    console.finding("warning: slow", is_error=False)
    assert stream.getvalue().splitlines() == shown
