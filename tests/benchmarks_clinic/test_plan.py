from collections import Counter

from benchmarks.clinic.accepted import ACCEPTED
from benchmarks.clinic.cost import cpu_hours
from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.kinds import KINDS
from benchmarks.clinic.plan import FIRST_SEEDS, balanced, healthy, parse, trainings
from benchmarks.clinic.task import BLIND, WHOLE
from epochal.guard import Guard
from epochal.health.registry import all_rules


def test_there_are_kinds_of_both_halves_and_blind_ones_with_two_optimizers() -> None:
    assert len(KINDS) >= 16
    assert {kind.half for kind in KINDS.values()} == {"tuning", "unseen", *BLIND}
    assert all(len(kind.optimizers) >= 2 for kind in KINDS.values())


def test_every_fault_is_planted_on_three_kinds_of_both_halves() -> None:
    assert len(FAULTS) >= 30
    for fault in FAULTS.values():
        places = fault.kinds()
        assert len(places) >= 3, fault.name
        assert {KINDS[kind].half for kind, _ in places} >= {"tuning", "unseen"}, fault.name
        for kind, optimizer in places:
            assert KINDS[kind].optimizer(optimizer).name == optimizer


def test_blind_kinds_have_eight_faults_each_and_enough_healthy_steps() -> None:
    for half in BLIND:
        found = trainings("all", half=half)
        kinds = {one.kind_name for one in found}
        assert len(kinds) >= 8
        for kind in kinds:
            faults = {one.fault_name for one in found if one.kind_name == kind and one.fault}
            assert len(faults) >= 8, kind
        assert len({one.fault_name for one in found if one.fault is not None}) >= 20
        assert sum(one.kind.steps for one in found if one.fault is None) >= 40_000


def test_the_kinds_of_a_full_run_have_every_fault_twice_unless_it_waits_for_minutes() -> None:
    found = trainings("full", half=WHOLE)
    assert found == trainings("all", half=WHOLE)
    planted = Counter(one.fault_name for one in found if one.fault is not None)
    assert planted.keys() == FAULTS.keys()
    assert all(count >= 2 for name, count in planted.items() if not FAULTS[name].wait_s)


def test_a_full_run_has_every_fault_on_three_kinds_with_three_seeds_in_four_hours() -> None:
    found = trainings("full")
    for fault in FAULTS.values():
        seeds = Counter(one.kind_name for one in found if one.fault is fault)
        assert sum(count >= 3 for count in seeds.values()) >= 3, fault.name
        halves = {KINDS[kind].half for kind, count in seeds.items() if count >= 3}
        assert halves >= {"tuning", "unseen"}, fault.name
    assert cpu_hours(found) < 4
    assert set(found) <= set(trainings("all"))


def test_a_balanced_order_begins_with_healthy_twins_and_goes_on_in_turn_by_kind() -> None:
    found = trainings("full", half=WHOLE)
    order = balanced(found)
    assert sorted(order) == sorted(found)
    kinds = {one.kind_name for one in found}
    places = {(one.kind_name, one.optimizer) for one in found}
    twins = order[: FIRST_SEEDS * len(places)]
    assert all(one.fault is None and one.seed < FIRST_SEEDS for one in twins)
    faults = order[len(twins) :][: 3 * len(kinds)]
    assert all(one.fault is not None and one.seed == 0 for one in faults)
    assert all([one.kind_name for one in faults].count(kind) == 3 for kind in kinds)
    assert len({one.fault_name for one in faults}) >= 15
    assert "memory_leak" in {one.fault_name for one in faults[: len(kinds)]}


def test_every_optimizer_of_a_blind_kind_has_healthy_twins_for_its_faults() -> None:
    twins = {(one.kind_name, one.optimizer) for one in healthy("all")}
    for one in (one for half in BLIND for one in trainings("all", half=half)):
        assert (one.kind_name, one.optimizer) in twins


def test_a_quick_run_leaves_blind_kinds_alone() -> None:
    assert {one.half for one in trainings("quick")} == {"tuning", "unseen"}


def test_every_fault_has_a_row_of_accepted_findings() -> None:
    assert ACCEPTED.keys() == FAULTS.keys()


def test_accepted_rules_exist() -> None:
    names = {rule.name for rule in all_rules(Guard())}
    for fault, row in ACCEPTED.items():
        assert set(row.cause + row.advice + row.symptom) <= names, fault


def test_the_healthy_trainings_have_enough_steps() -> None:
    assert sum(one.kind.steps for one in healthy("full")) >= 200_000


def test_an_id_gives_its_training_back() -> None:
    for one in trainings("all"):
        assert parse(one.id) == one


def test_only_selects_by_kind_and_fault() -> None:
    found = trainings("full", ("mlp/rate_x*",))
    assert {one.kind_name for one in found} == {"mlp"}
    assert {one.fault_name for one in found} == {"rate_x10", "rate_x30"}
