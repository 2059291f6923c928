from epochal.companion.process import TaskLoop


class Time:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_tasks_are_called_at_their_intervals() -> None:
    clock, calls = Time(), []
    work = TaskLoop(clock=clock)
    work.every(1, "fast", lambda: calls.append("fast"))
    work.every(5, "slow", lambda: calls.append("slow"))
    for second in range(11):
        clock.now_s = float(second)
        work.run_due()
    assert (calls.count("fast"), calls.count("slow")) == (10, 2)


def test_it_says_how_long_until_the_next() -> None:
    clock = Time()
    work = TaskLoop(clock=clock)
    work.every(5, "task", lambda: None)
    assert work.run_due() == 5
    clock.now_s = 3.5
    assert work.run_due() == 1.5


def test_what_was_slept_through_is_not_made_up_for() -> None:
    clock, calls = Time(), []
    work = TaskLoop(clock=clock)
    work.every(1, "task", lambda: calls.append(clock.now_s))
    clock.now_s = 3600.0
    for _ in range(5):
        work.run_due()
    assert len(calls) == 2
