import os
import subprocess
import sys
import time

import pytest

from epochal.journal.process import liveness, process_identity


def test_this_process_is_alive() -> None:
    identity = process_identity()
    assert identity["pid"] == os.getpid()
    assert liveness(identity) == "alive"


def test_a_process_that_ended_is_dead_even_before_it_is_collected() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        identity = process_identity(child.pid)
        assert liveness(identity) == "alive"
        child.kill()
        deadline = time.monotonic() + 120
        while liveness(identity) != "dead" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert liveness(identity) == "dead"


@pytest.mark.parametrize(
    ("change", "seen"),
    [
        ({"pid_start": 1.0}, "dead"),
        ({"boot_id": "another"}, "dead"),
        ({"host": "elsewhere"}, "unknown"),
        ({"pid_namespace": "pid:[1]"}, "unknown"),
        ({"pid": None}, "unknown"),
        ({"pid": 2**22 + 1}, "dead"),
    ],
)
def test_who_cannot_be_the_writer_is_dead_or_out_of_sight(
    change: dict[str, object], seen: str
) -> None:
    assert liveness({**process_identity(), **change}) == seen
