import os
import subprocess
import sys
from typing import Any

import pytest

import epochal.run.console.messages as module
from epochal.errors import UsageError
from epochal.run.console.messages import LogVerbosity, Verbosity

QUIET, NORMAL, VERBOSE, DEBUG, TRACE = Verbosity


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("0", QUIET),
        ("4", TRACE),
        (" Debug ", DEBUG),
        ("VERBOSE", VERBOSE),
        ("5", NORMAL),
        ("-1", NORMAL),
        ("loud", NORMAL),
        ("", NORMAL),
    ],
)
def test_the_environment_spells_levels_loosely(
    monkeypatch: pytest.MonkeyPatch, text: str, level: Verbosity
) -> None:
    monkeypatch.setattr(module, "_process", module._ProcessLevel())
    monkeypatch.setenv("EPOCHAL_VERBOSITY", text)
    assert module.verbosity() is level


def test_each_level_includes_the_lower_ones() -> None:
    module.set_verbosity(VERBOSE)
    assert [module.enabled(level) for level in Verbosity] == [True, True, True, False, False]


def test_levels_are_set_by_number_and_by_name() -> None:
    module.set_verbosity("debug")
    assert module.verbosity() is DEBUG
    module.set_verbosity(0)
    assert module.verbosity() is QUIET


@pytest.mark.parametrize("level", [-1, 5, "loud"])
def test_a_wrong_level_in_code_raises(level: int | str) -> None:
    with pytest.raises(UsageError, match="use 0 to 4"):
        module.set_verbosity(level)


def test_streams_by_level(capsys: pytest.CaptureFixture[str]) -> None:
    module.set_verbosity(TRACE)
    module.msg("normal")
    module.verbose("verbose")
    module.debug("debug")
    module.trace("trace")
    module.error("error")
    assert capsys.readouterr() == ("normal\nverbose\n", "debug\ntrace\nerror\n")


def test_an_explicit_level_goes_to_its_own_stream(capsys: pytest.CaptureFixture[str]) -> None:
    module.set_verbosity(DEBUG)
    module.msg("rank %d", 3, level=DEBUG)
    assert capsys.readouterr() == ("", "rank 3\n")


def test_quiet_leaves_errors(capsys: pytest.CaptureFixture[str]) -> None:
    module.set_verbosity(QUIET)
    module.msg("normal")
    module.error("error")
    assert capsys.readouterr() == ("", "error\n")


def test_nothing_is_called_or_formatted_when_off() -> None:
    module.debug(lambda: pytest.fail("called"))
    module.debug("%d", "not a number")


def test_callables_get_the_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    module.msg(lambda a, b: f"{a}-{b}", 1, 2)
    assert capsys.readouterr().out == "1-2\n"


def test_a_percent_sign_without_arguments_stands_for_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    module.msg("100% {done}")
    assert capsys.readouterr().out == "100% {done}\n"


def broken(*_: object) -> str:
    raise ZeroDivisionError("no batches")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (("loss {}", 0.5), "loss {} 0.5"),
        (("loss %d", "low"), "loss %d low"),
        (("%s of %s", 1), "%s of %s 1"),
        (("100%!", 3), "100%! 3"),
        ((broken, 7), "broken 7"),
        ((3,), "3"),
        ((lambda: 3,), "3"),
    ],
)
def test_a_message_that_cannot_be_made_is_shown_as_it_is(
    capsys: pytest.CaptureFixture[str], arguments: tuple[Any, ...], shown: str
) -> None:
    module.set_verbosity(TRACE)
    for say in (module.msg, module.verbose):
        say(*arguments)
    for say in (module.debug, module.trace, module.error):
        say(*arguments)
    said = capsys.readouterr()
    assert said.out.splitlines() == [shown] * 2
    assert said.err.splitlines() == [shown] * 3


def test_log_verbosity_maps_onto_the_levels() -> None:
    assert [level.to_verbosity() for level in LogVerbosity] == [QUIET, QUIET, NORMAL, VERBOSE]
    assert [level.shows_eval for level in LogVerbosity] == [False, True, True, True]


def test_log_verbosity_is_not_mistaken_for_a_number() -> None:
    module.set_verbosity(LogVerbosity.VERBOSE)
    assert module.verbosity() is VERBOSE


def in_a_process(code: str, verbosity: str) -> str:
    code = f"from epochal.run.console.messages import *; {code}"
    env = {**os.environ, "EPOCHAL_VERBOSITY": verbosity}
    return subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout


def test_the_environment_is_read_once_on_first_use() -> None:
    code = """
import os
first = verbosity()
os.environ['EPOCHAL_VERBOSITY'] = 'quiet'
print(int(first), int(verbosity()), enabled(Verbosity.TRACE))
"""
    assert in_a_process(code.strip().replace("\n", ";"), "trace") == "4 4 True\n"


def test_code_wins_over_the_environment() -> None:
    code = "set_verbosity(1); print(enabled(Verbosity.VERBOSE), enabled(Verbosity.NORMAL))"
    assert in_a_process(code, "trace") == "False True\n"


def test_enabled_reads_the_environment_when_asked_first() -> None:
    code = "print(enabled(Verbosity.DEBUG), enabled(Verbosity.VERBOSE))"
    assert in_a_process(code, "2") == "False True\n"
