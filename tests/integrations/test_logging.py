"""Records of Python's ``logging`` become messages of the run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import epochal
from epochal.integrations.logging import EpochalHandler


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[epochal.Run]:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    with epochal.init("p", "a", dir=tmp_path, companion=False, console=False) as run:
        yield run


@pytest.fixture
def logger() -> logging.Logger:
    return logging.Logger("tests.own")  # without parents: pytest's own handlers do not see it


def messages(run: epochal.Run) -> list[tuple[str, str]]:
    run.finish()
    entries = epochal.load(run.dir).view.entries("message")
    return [(entry.record["level"], entry.record["text"]) for entry in entries]


def test_levels_and_arguments_are_kept(run: epochal.Run, logger: logging.Logger) -> None:
    logger.addHandler(EpochalHandler())
    logger.debug("batch %d", 3)
    logger.info("start")
    logger.warning("slow")
    logger.critical("gone")
    logger.log(logging.INFO + 5, "between")
    assert messages(run) == [
        ("debug", "tests.own: batch 3"),
        ("info", "tests.own: start"),
        ("warning", "tests.own: slow"),
        ("error", "tests.own: gone"),
        ("info", "tests.own: between"),
    ]


def test_the_level_of_the_handler_and_a_formatter_count(
    run: epochal.Run, logger: logging.Logger
) -> None:
    handler = EpochalHandler(level=logging.WARNING)
    handler.setFormatter(logging.Formatter("[%(levelname)s] %(message)s"))
    logger.addHandler(handler)
    logger.info("start")
    logger.warning("slow")
    assert messages(run) == [("warning", "[WARNING] slow")]


def test_an_exception_has_its_traceback(run: epochal.Run, logger: logging.Logger) -> None:
    logger.addHandler(EpochalHandler())
    try:
        int("broken")
    except ValueError:
        logger.exception("failed")
    ((level, text),) = messages(run)
    assert level == "error"
    assert text.startswith("tests.own: failed\nTraceback")
    assert "ValueError" in text.splitlines()[-1]


def test_a_given_run_is_written_to_and_no_run_is_no_error(
    tmp_path: Path, run: epochal.Run, logger: logging.Logger
) -> None:
    logger.addHandler(EpochalHandler(run))
    with epochal.init("p", "b", dir=tmp_path, companion=False, console=False) as other:
        logger.info("to the first")
    assert messages(run) == [("info", "tests.own: to the first")]
    assert messages(other) == []
    logger.info("after the end")
    assert len(messages(run)) == 1


def test_what_is_logged_while_a_record_is_written_does_not_recur(
    run: epochal.Run, logger: logging.Logger
) -> None:
    class Talkative:
        def __str__(self) -> str:
            logger.info("asked for my text")
            return "me"

    logger.addHandler(EpochalHandler())
    logger.info("%s", Talkative())
    assert messages(run) == [("info", "tests.own: me")]


def test_wrong_arguments_are_said_as_logging_says_them(
    run: epochal.Run, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.addHandler(EpochalHandler())
    logger.info("%d batches", "three")
    logger.info("\ud800 is half a character")
    assert "--- Logging error ---" in capsys.readouterr().err
    assert len(messages(run)) == 1


def test_several_threads_lose_nothing(run: epochal.Run, logger: logging.Logger) -> None:
    logger.addHandler(EpochalHandler())

    def work(number: int) -> None:
        for index in range(50):
            logger.info("%d %d", number, index)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(messages(run))) == 200
