from epochal.health.rules.dead_layer import DeadLayer
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


def test_dead_units_are_found_by_their_output() -> None:
    records = [metrics(n, {"activations/relu/zeros": 1.0 if n > 5 else 0.6}) for n in range(20)]
    (found,) = opened(DeadLayer, records)
    assert "output of relu" in found.sentence


def test_the_zeros_of_a_relu_are_healthy() -> None:
    records = [metrics(n, {"activations/relu/zeros": 0.9}) for n in range(100)]
    assert opened(DeadLayer, records) == []


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
