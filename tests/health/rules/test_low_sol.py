from epochal.health.rules.low_sol import LowSol
from tests.health.machine_records import noisy, opened, step


def test_a_training_at_half_speed_is_noted() -> None:
    (found,) = opened(LowSol, [step(n, sol=sol) for n, sol in enumerate(noisy(45, 0.05, 200))])
    assert found.severity == "info"
    assert "45 % of the speed of light" in found.sentence


def test_a_tenth_of_the_speed_is_a_warning() -> None:
    (found,) = opened(LowSol, [step(n, sol=10.0) for n in range(100)])
    assert found.severity == "warning"


def test_compilation_and_pauses_do_not_count() -> None:
    sols = [5.0] * 20 + noisy(75, 0.05, 1000)
    for slow in range(100, 1000, 20):
        sols[slow] = 10.0
    assert opened(LowSol, [step(n, sol=sol) for n, sol in enumerate(sols)]) == []
