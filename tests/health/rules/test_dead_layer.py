from epochal.health.rules.layers import DeadLayer
from epochal.records import Record
from tests.health.machine_records import layers, metrics, opened, updated

GRADIENTS = "grads/{}/norm"


def watched(*norms: float, number: int) -> Record:
    return metrics(number, layers(number, GRADIENTS, norms))


def test_a_layer_without_gradient_is_named() -> None:
    records = [watched(0.5, 0.0 if n >= 10 else 0.2, 0.3, number=n) for n in range(20)]
    (found,) = opened(DeadLayer, records)
    assert found.series == "grads/b/norm"
    assert found.steps == (10, 14)
    assert "No gradient has reached b since step 10" in found.sentence


def test_many_dead_layers_are_one_finding() -> None:
    (found,) = opened(DeadLayer, [watched(0.5, 0, 0.2, 0, 0.3, 0, number=n) for n in range(20)])
    assert "b (and 2 more: d, f)" in found.sentence


def test_branches_that_start_at_zero_wake_up_in_time() -> None:
    records = [watched(0.5, 0.0 if n < 3 else 0.1, 0.3, number=n) for n in range(50)]
    assert opened(DeadLayer, records) == []


def test_an_expert_without_tokens_now_and_then_is_not_dead() -> None:
    records = [watched(0.5, 0.0 if n % 4 else 0.1, 0.3, number=n) for n in range(200)]
    assert opened(DeadLayer, records) == []


def branches(number: int, norms: dict[str, float]) -> Record:
    """A watched step of a mixture: of each branch, two layers with weight and bias."""
    values = {"grads/stem.weight/norm": 0.5}
    for branch, norm in norms.items():
        for part in ("0.weight", "0.bias", "2.weight", "2.bias"):
            values[f"grads/{branch}.{part}/norm"] = norm
    return metrics(number, values)


def test_an_expert_without_tokens_for_long_is_a_matter_of_its_router() -> None:
    for idle in (0, 1, 3):
        norms = {f"moe.experts.{n}": 0.0 if n == idle else 0.2 for n in range(4)}
        assert opened(DeadLayer, [branches(n, norms) for n in range(100)]) == []


def test_heads_of_tasks_that_are_not_in_the_data_are_not_dead() -> None:
    norms = {"heads.left": 0.3, "heads.right": 0.2, "heads.middle": 0.0}
    assert opened(DeadLayer, [branches(n, norms) for n in range(100)]) == []


def test_a_head_of_an_earlier_stage_is_not_dead() -> None:
    def record(number: int, dead: tuple[str, ...]) -> Record:
        parts = ("enc.0.weight", "enc.0.bias", "dec.0.weight", "dec.0.bias", "head.weight")
        return metrics(number, {f"grads/{n}/norm": 0.0 if n in dead else 0.2 for n in parts})

    decoder = ("dec.0.weight", "dec.0.bias")
    assert opened(DeadLayer, [record(n, decoder if n > 9 else ()) for n in range(60)]) == []
    assert len(opened(DeadLayer, [record(n, decoder) for n in range(60)])) == 1
    cut = ("enc.0.weight", "enc.0.bias", *decoder)
    assert len(opened(DeadLayer, [record(n, cut if n > 9 else ()) for n in range(60)])) == 1
    part = ("dec.0.weight",)
    assert len(opened(DeadLayer, [record(n, part if n > 9 else ()) for n in range(60)])) == 1


def test_the_rules_on_experts_speak_of_them_where_the_routing_is_recorded() -> None:
    norms = {f"moe.experts.{n}": 0.0 if n > 1 else 0.2 for n in range(4)}
    routing: Record = {"log": "moe", "t": 0.5, "step": 0, "moe/expert_utilization": 0.5}
    assert opened(DeadLayer, [routing, *(branches(n, norms) for n in range(100))]) == []


def test_a_block_of_a_chain_without_gradient_is_dead() -> None:
    for chain in ("layers", "blocks", "h"):
        norms = {f"{chain}.{n}": 0.0 if n == 2 else 0.2 for n in range(4)}
        (found,) = opened(DeadLayer, [branches(n, norms) for n in range(20)])
        assert f"No gradient has reached {chain}.2.0.weight" in found.sentence


def test_members_of_a_list_beside_a_router_are_branches() -> None:
    norms = {f"moe.parts.{n}": 0.0 if n == 2 else 0.2 for n in range(4)}
    (found,) = opened(DeadLayer, [branches(n, norms) for n in range(20)])
    assert "No gradient has reached moe.parts.2.0.weight" in found.sentence
    records = [branches(n, norms) for n in range(20)]
    for record in records:
        record["m"]["grads/moe.router.weight/norm"] = 0.1
    assert opened(DeadLayer, records) == []


def test_numbered_layers_that_a_dead_one_cuts_off_are_dead() -> None:
    names = ("mlp.0", "mlp.2", "mlp.4")
    parts = ("weight", "bias")
    norms = {
        GRADIENTS.format(f"{n}.{p}"): 0.2 if n == "mlp.4" else 0.0 for n in names for p in parts
    }
    (found,) = opened(DeadLayer, [metrics(n, norms) for n in range(20)])
    assert "mlp.0.weight" in found.sentence


def test_half_a_branch_without_gradient_is_dead() -> None:
    # The units of its first layer are dead; the bias of the last one still learns.
    records = []
    for n in range(20):
        record = branches(n, {f"moe.experts.{one}": 0.0 if one == 1 else 0.2 for one in range(4)})
        record["m"]["grads/moe.experts.1.2.bias/norm"] = 0.1
        records.append(record)
    (found,) = opened(DeadLayer, records)
    assert "moe.experts.1.0.weight" in found.sentence


def test_what_is_used_rarely_is_dead_only_after_a_longer_time() -> None:
    # Five steps without a gradient came before; so it takes three times as many.
    rare = [watched(0.5, 0.0 if n % 5 else 0.1, 0.3, number=n) for n in range(100)]
    gone = [watched(0.5, 0.0, 0.3, number=n) for n in range(100, 140)]
    assert opened(DeadLayer, rare) == []
    assert len(opened(DeadLayer, rare + gone)) == 1
    often = [watched(0.5, 0.0 if n % 9 else 0.1, 0.3, number=n) for n in range(400)]
    assert len(opened(DeadLayer, often)) == 1


def test_it_closes_when_the_layer_learns_again() -> None:
    records = [watched(0.5, 0.0 if n < 10 else 0.1, 0.3, number=n) for n in range(20)]
    assert [f.state for f in updated(DeadLayer, records)] == ["open", "closed"]


def test_a_bias_that_the_loss_does_not_depend_on_is_not_dead() -> None:
    # Distances between outputs of one network do not change with the bias of its last layer.
    names = ("0.weight", "0.bias", "2.weight", "2.bias")
    values = zip(names, (0.5, 0.2, 0.3, 0.0), strict=True)
    norms = {GRADIENTS.format(name): norm for name, norm in values}
    assert opened(DeadLayer, [metrics(n, norms) for n in range(20)]) == []
    (found,) = opened(
        DeadLayer, [metrics(n, {**norms, "grads/2.weight/norm": 0}) for n in range(9)]
    )
    assert "2.weight (and 1 more: 2.bias)" in found.sentence
