from benchmarks.clinic.accepted import ACCEPTED
from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.kinds import KINDS
from benchmarks.clinic.plan import healthy, parse, trainings
from epochal.guard import Guard
from epochal.health.registry import all_rules


def test_there_are_kinds_of_both_halves_with_two_optimizers() -> None:
    assert len(KINDS) >= 16
    assert {kind.half for kind in KINDS.values()} == {"tuning", "unseen"}
    assert all(len(kind.optimizers) >= 2 for kind in KINDS.values())


def test_every_fault_is_planted_on_three_kinds_of_both_halves() -> None:
    assert len(FAULTS) >= 30
    for fault in FAULTS.values():
        places = fault.kinds()
        assert len(places) >= 3, fault.name
        assert {KINDS[kind].half for kind, _ in places} == {"tuning", "unseen"}, fault.name
        for kind, optimizer in places:
            assert KINDS[kind].optimizer(optimizer).name == optimizer


def test_every_fault_has_a_row_of_accepted_findings() -> None:
    assert ACCEPTED.keys() == FAULTS.keys()


def test_accepted_rules_exist() -> None:
    names = {rule.name for rule in all_rules(Guard())}
    for fault, row in ACCEPTED.items():
        assert set(row.cause + row.advice + row.symptom) <= names, fault


def test_the_healthy_trainings_have_enough_steps() -> None:
    assert sum(one.kind.steps for one in healthy("full")) >= 200_000


def test_an_id_gives_its_training_back() -> None:
    for one in trainings("full"):
        assert parse(one.id) == one


def test_only_selects_by_kind_and_fault() -> None:
    found = trainings("full", ("mlp/rate_x*",))
    assert {one.kind_name for one in found} == {"mlp"}
    assert {one.fault_name for one in found} == {"rate_x10", "rate_x30"}
