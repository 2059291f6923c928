import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from epochal.telemetry.process import ProcessSource


@contextmanager
def waiting_child() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child
        child.kill()


def test_own_process_by_default() -> None:
    (sample,) = ProcessSource().sample()
    assert sample.rss is not None
    assert sample.rss > 1_000_000
    assert sample.threads is not None
    assert sample.threads >= 1
    assert sample.cpu_pct is None


def test_children_are_counted_apart() -> None:
    source = ProcessSource()
    (before,) = source.sample()
    with waiting_child():
        (during,) = source.sample()
    (after,) = source.sample()
    assert before.children is not None
    assert during.children_rss is not None
    assert before.children_rss is not None
    assert during.children == before.children + 1
    assert during.children_rss > before.children_rss
    assert after.children == before.children


def test_cpu_is_that_of_the_tree_since_the_last_sample() -> None:
    seconds = iter([10.0, 12.0])
    source = ProcessSource(clock=lambda: next(seconds))
    source.sample()
    sum(i * i for i in range(1_000_000))
    (sample,) = source.sample()
    assert sample.cpu_pct is not None
    assert sample.cpu_pct > 0


def test_process_that_ended_is_absent_with_a_reason() -> None:
    with waiting_child() as child:
        source = ProcessSource(child.pid)
        assert source.probe()
    assert source.sample() == ()
    assert source.why_absent == f"process {child.pid} is gone"


def test_zombie_is_gone() -> None:
    with waiting_child() as child:
        source = ProcessSource(child.pid)
        child.kill()
        while source.probe():
            pass
        assert source.sample() == ()


def test_a_child_can_be_left_out() -> None:
    with waiting_child() as child:
        (all_of_them,) = ProcessSource().sample()
        (sample,) = ProcessSource(without={child.pid}).sample()
    assert all_of_them.children is not None
    assert sample.children == all_of_them.children - 1
