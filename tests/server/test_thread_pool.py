"""A pool of threads that ends with its server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from epochal.server.pool import ThreadPool

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
