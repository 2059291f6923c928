"""A pool of threads that ends with its server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from epochal.server.reader import ThreadPool

WAIT_S = 120.0


async def called(pool: ThreadPool, *calls: Callable[[], object]) -> None:
    await asyncio.gather(*map(pool.call, calls))


def threads_of(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}-")]


def test_a_closed_pool_has_no_threads() -> None:
    pool, both = ThreadPool("tests-closed", 4), threading.Barrier(2)
    asyncio.run(called(pool, both.wait, both.wait))
    threads = threads_of("tests-closed")
    assert len(threads) == 2
    assert pool.close(timeout_s=WAIT_S)
    for thread in threads:
        thread.join(WAIT_S)
    assert threads_of("tests-closed") == []


def test_a_call_that_goes_on_ends_its_thread_when_it_is_over() -> None:
    pool, is_over = ThreadPool("tests-going", 1), threading.Event()

    async def begun() -> None:
        begins = threading.Event()

        def going() -> None:
            begins.set()
            is_over.wait(WAIT_S)

        call = asyncio.ensure_future(pool.call(going))
        await asyncio.to_thread(begins.wait, WAIT_S)
        call.cancel()

    asyncio.run(begun())
    (thread,) = threads_of("tests-going")
    pool.close(timeout_s=0.0)
    assert thread.is_alive()
    is_over.set()
    thread.join(WAIT_S)
    assert not thread.is_alive()


def test_a_call_that_raises_raises_where_it_is_waited_for() -> None:
    pool = ThreadPool("tests-raising", 1)

    def fail() -> None:
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        asyncio.run(called(pool, fail))
    pool.close(timeout_s=WAIT_S)


def test_an_exhausted_iterator_is_an_error_of_its_own_call_only() -> None:
    pool = ThreadPool("tests-exhausted", 1)

    async def both() -> tuple[object, object]:
        calls = (pool.call(lambda: next(iter(()))), pool.call(lambda: 1))
        gathered = asyncio.gather(*calls, return_exceptions=True)
        return await asyncio.wait_for(gathered, WAIT_S)

    exhausted, answer = asyncio.run(both())
    pool.close(timeout_s=WAIT_S)
    assert isinstance(exhausted, RuntimeError)
    assert answer == 1
