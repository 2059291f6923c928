from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from epochal.errors import UsageError
from epochal.journal.process import is_suspended, process_identity
from epochal.journal.process_action import ProcessOutOfReachError, send_signal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are a Unix thing")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        yield process
        process.kill()


def test_the_named_process_gets_the_signal(sleeper: subprocess.Popen[bytes]) -> None:
    send_signal(process_identity(sleeper.pid), "SIGTERM")
    assert sleeper.wait(timeout=120) == -signal.SIGTERM


def test_a_process_that_took_over_the_pid_is_left_alone(sleeper: subprocess.Popen[bytes]) -> None:
    earlier = {**process_identity(sleeper.pid), "pid_start": 1.0}
    with pytest.raises(ProcessOutOfReachError, match="has ended"):
        send_signal(earlier, "SIGKILL")
    assert sleeper.poll() is None


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("host", "another", "on the machine 'another'"),
        ("boot_id", "an earlier one", "has ended"),
        ("pid_namespace", "pid:[1]", "in another container"),
        ("pid", None, "names no process"),
        ("pid", 0, "names no process"),
    ],
)
def test_a_process_elsewhere_is_refused(
    field: str, value: object, words: str, sleeper: subprocess.Popen[bytes]
) -> None:
    with pytest.raises(ProcessOutOfReachError, match=words):
        send_signal({**process_identity(sleeper.pid), field: value}, "SIGKILL")
    assert sleeper.poll() is None


def test_a_process_that_is_gone_is_said_to_have_ended(sleeper: subprocess.Popen[bytes]) -> None:
    identity = process_identity(sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessOutOfReachError, match="has ended"):
        send_signal(identity, "SIGTERM")


def test_an_unknown_signal_is_refused(sleeper: subprocess.Popen[bytes]) -> None:
    with pytest.raises(UsageError, match="SIGNONE does not exist"):
        send_signal(process_identity(sleeper.pid), "SIGNONE")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells it")
def test_a_held_process_is_told_from_one_that_goes_on(sleeper: subprocess.Popen[bytes]) -> None:
    identity = process_identity(sleeper.pid)
    assert not is_suspended(identity)
    send_signal(identity, "SIGSTOP")
    while not is_suspended(identity):
        pass
    send_signal(identity, "SIGCONT")
    while is_suspended(identity):
        pass
