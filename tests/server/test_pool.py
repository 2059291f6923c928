from __future__ import annotations

import asyncio

import pytest

from epochal.server.pool import Turns

_NEVER_S = 3600.0


def test_a_request_waits_until_the_one_before_it_has_been_answered() -> None:
    async def take_turns() -> list[str]:
        turns, happened = Turns(longest_s=_NEVER_S), list[str]()

        async def ask(name: str) -> None:
            async with turns.turn():
                happened.append(f"{name} begins")
                for _ in range(5):
                    await asyncio.sleep(0)
                happened.append(f"{name} ends")

        await asyncio.gather(*map(ask, "abc"))
        return happened

    assert asyncio.run(take_turns()) == [
        f"{name} {what}" for name in "abc" for what in ("begins", "ends")
    ]


def test_a_request_that_takes_long_delays_the_others_no_longer_than_a_turn() -> None:
    async def overtake() -> bool:
        turns, others = Turns(longest_s=0.01), asyncio.Event()

        async def be_slow() -> None:
            async with turns.turn():
                await others.wait()

        async def be_quick() -> None:
            async with turns.turn():
                pass

        slow = asyncio.create_task(be_slow())
        await asyncio.gather(be_quick(), be_quick())
        is_going_on = not slow.done()
        others.set()
        await slow
        await be_quick()  # the turn was given back once, not twice
        return is_going_on

    assert asyncio.run(overtake())


def test_a_request_that_fails_gives_its_turn_back() -> None:
    async def fail(turns: Turns) -> None:
        async with turns.turn():
            raise LookupError

    async def go_on() -> bool:
        turns = Turns(longest_s=_NEVER_S)
        with pytest.raises(LookupError):
            await fail(turns)
        async with turns.turn():
            return True

    assert asyncio.run(go_on())
