from collections.abc import Iterable

from epochal.health.context import Context
from epochal.health.engine import Health
from epochal.health.finding import Finding
from epochal.health.observation import Observation
from epochal.health.rule import CONCLUSIVE, Rule, Verdict
from epochal.records import Record


class TooHigh(Rule):
    """Holds while the loss is above 1; an error above 10."""

    name = "too-high"
    kinds = frozenset({"step", "metrics"})

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        loss = observation.roles.get("loss")
        if loss is None:
            return ()
        severity = "error" if loss > 10 else "warning"
        return (Verdict("loss", loss > 1, severity, f"It is {loss}."),)  # type: ignore[arg-type]


class Patient(TooHigh):
    name = "patient"
    patience = 3
    release = 2
    cooldown_steps = 10


class Measured(TooHigh):
    """Sees nothing at 1: neither the fault nor recovery. At -1 recovery is certain."""

    name = "measured"
    symptom_of = frozenset({"slow steps"})

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        loss = observation.roles.get("loss", 1.0)
        if loss == 1:
            return ()
        extent = 3.0 if loss > 1 else CONCLUSIVE if loss < 0 else 1.0
        return (Verdict("loss", loss > 1, extent=extent),)


class Cause(TooHigh):
    name = "cause"
    causes = frozenset({"slow steps"})

    def observe(self, observation: Observation, context: Context) -> Iterable[Verdict]:
        return (Verdict("cause", observation.roles.get("loss") == 7),)


class Ticking(TooHigh):
    name = "ticking"

    def tick(self, now: float, context: Context) -> Iterable[Verdict]:
        return (Verdict("clock", now > 100),)

    def finish(self, context: Context) -> Iterable[Verdict]:
        return (Verdict("end", True, "info", "It ended."),)


def step(number: int, loss: float) -> Record:
    return {"log": "step", "t": float(number), "step": number, "loss": loss}


def feed(health: Health, losses: Iterable[float], start: int = 0) -> list[Finding]:
    found: list[Finding] = []
    for number, loss in enumerate(losses, start):
        found.extend(health.feed(step(number, loss)))
    return found


def test_a_finding_opens_and_closes() -> None:
    opened, closed = feed(Health(rules=[TooHigh]), [0, 2, 3, 0, 0])
    assert (opened.state, opened.steps, opened.t) == ("open", (1, 1), 1.0)
    assert (closed.state, closed.steps, closed.t) == ("closed", (1, 2), 3.0)
    assert opened.id == closed.id


def test_it_is_said_again_when_it_grows_graver() -> None:
    found = feed(Health(rules=[TooHigh]), [2, 20, 30, 2])
    assert [(f.severity, f.steps) for f in found] == [("warning", (0, 0)), ("error", (0, 1))]


def test_patience_waits_for_verdicts_in_a_row() -> None:
    assert feed(Health(rules=[Patient]), [2, 2, 0, 2, 2]) == []
    (found,) = feed(Health(rules=[Patient]), [0, 2, 2, 2, 2])
    assert found.steps == (1, 3)


def test_release_and_cooldown_hold_it_back() -> None:
    health = Health(rules=[Patient])
    found = feed(health, [2, 2, 2, 0, 0, 2, 0, 0, 0] + [2] * 12)
    assert [f.state for f in found] == ["open", "closed", "open"]
    assert found[-1].steps == (9, 15)


def test_recovery_takes_as_much_evidence_as_the_fault() -> None:
    def states(losses: Iterable[float]) -> list[str]:
        return [finding.state for finding in feed(Health(rules=[Measured]), losses)]

    assert states([2, 0, 0]) == ["open"]
    assert states([2, 0, 0, 0]) == ["open", "closed"]
    assert states([2, 0, 1, 0, 1, 1]) == ["open"]
    assert states([2, 0, 0, 2, 0, 0]) == ["open"]
    assert states([2, -1]) == ["open", "closed"]


def test_a_fault_that_its_cause_explains_is_no_recovery() -> None:
    health = Health(rules=[Cause, Measured])
    feed(health, [2, 0, 0, 7, 0, 0])
    assert [finding.rule for finding in health.open_findings] == ["measured"]
    feed(health, [0], start=6)
    assert health.open_findings == []


def test_open_findings_are_those_not_closed() -> None:
    health = Health(rules=[TooHigh])
    feed(health, [2])
    assert [finding.rule for finding in health.open_findings] == ["too-high"]
    assert health.context.has_open("too-high")
    feed(health, [0], start=1)
    assert health.open_findings == []


def test_an_open_finding_grows_with_its_fault() -> None:
    health = Health(rules=[TooHigh])
    (opened,) = feed(health, [2] * 50)
    assert opened.steps == (0, 0)
    (grown,) = health.open_findings
    assert (grown.steps, grown.sentence) == ((0, 49), "It is 2.0.")


def test_a_finding_that_goes_on_is_said_again_ever_more_rarely() -> None:
    health = Health(rules=[TooHigh])
    said = []
    for number in range(2000):
        health.feed(step(number, 2.0))
        said += [(f.steps, f.t) for f in health.renotify()]
    ends = [100, 150, 225, 338, 507, 761, 1142, 1713]
    assert said == [((0, end), end) for end in ends]
    (last,) = health.renotify(is_over=True)
    assert (last.state, last.steps) == ("open", (0, 1999))
    assert health.renotify(is_over=True) == []


def test_a_finding_without_steps_is_said_again_by_time() -> None:
    health = Health(rules=[Ticking])
    assert len(health.tick(200.0)) == 1
    assert health.renotify() == []
    health.tick(290.0)
    assert health.renotify() == []
    health.tick(301.0)
    assert [finding.t for finding in health.renotify()] == [301.0]


def test_an_open_finding_has_the_newest_sentence() -> None:
    health = Health(rules=[TooHigh])
    found = feed(health, [2, 3, 4])
    assert [f.sentence for f in found + health.open_findings] == ["It is 2.0.", "It is 4.0."]
    (closed,) = feed(health, [0], start=3)
    assert (closed.sentence, closed.steps) == ("It is 4.0.", (0, 2))


def test_milder_words_do_not_replace_graver_ones() -> None:
    health = Health(rules=[TooHigh])
    feed(health, [20, 2])
    (finding,) = health.open_findings
    assert (finding.severity, finding.sentence) == ("error", "It is 20.0.")


def test_the_same_records_give_the_same_findings() -> None:
    losses = [0, 2, 20, 0, 3, 0]
    first = feed(Health(rules=[TooHigh, Patient]), losses)
    assert first == feed(Health(rules=[TooHigh, Patient]), losses)


def test_a_rule_sees_only_the_kinds_it_wants() -> None:
    health = Health(rules=[TooHigh])
    assert health.feed({"log": "eval", "t": 1.0, "step": 1, "m": {"loss": 5.0}}) == []
    assert len(health.feed({"log": "metrics", "t": 1.0, "step": 1, "m": {"loss": 5.0}})) == 1


def test_ticks_and_the_end_reach_the_rules() -> None:
    health = Health(rules=[Ticking])
    assert health.tick(50.0) == []
    (late,) = health.tick(101.0)
    assert late.steps is None
    assert [finding.sentence for finding in health.close()] == ["It ended."]


def test_its_own_statements_are_not_looked_at() -> None:
    health = Health(rules=[TooHigh])
    (finding,) = feed(health, [2])
    assert health.feed(finding.record(), writer="findings") == []


def test_a_resume_closes_what_began_after_it() -> None:
    health = Health(rules=[TooHigh])
    feed(health, [0, 0, 0, 2])
    (closed,) = health.feed({"log": "resume", "t": 9.0, "attempt": 2, "step": 2})
    assert (closed.state, closed.steps) == ("closed", (3, 3))
    assert health.context.step == 1
    assert health.context.is_resumed


def test_a_resume_leaves_open_what_began_before_it() -> None:
    health = Health(rules=[TooHigh])
    feed(health, [2, 2, 2])
    assert health.feed({"log": "resume", "t": 9.0, "attempt": 2, "step": 2}) == []
    assert len(health.open_findings) == 1


def test_a_new_attempt_without_a_mark_takes_over_at_its_first_step() -> None:
    health = Health(rules=[TooHigh])
    feed(health, [0, 0, 0, 2])
    assert health.feed({"log": "run", "t": 8.0, "attempt": 2}) == []
    (closed,) = health.feed(step(1, 0.5))
    assert closed.state == "closed"
    assert health.context.resumed_at == 1


def test_the_context_knows_config_roles_and_facts() -> None:
    health = Health(rules=[TooHigh], config={"batch": 8})
    health.feed({"log": "run", "t": 1.0, "attempt": 1, "config": {"lr": 0.1}})
    health.feed({"log": "option", "t": 1.0, "name": "seed", "value": 3})
    health.feed({"log": "sol", "t": 1.0, "tps": 1000.0})
    health.feed({"log": "gpu-model", "t": 1.0, "id": 1, "name": "H200"})
    health.feed(step(4, 2.5))
    context = health.context
    assert context.config == {"batch": 8, "lr": 0.1, "seed": 3}
    assert context.role_names == {"loss": "train/loss"}
    assert (context.step, context.first_step, context.started) == (4, 4, 1.0)
    assert context.last == {"loss": 2.5}
    assert context.facts["sol"]["tps"] == 1000.0
    assert context.gpus[1]["name"] == "H200"
