from epochal.health.rules.frozen_layer import FrozenLayer
from epochal.records import Record
from tests.health.machine_records import layers, metrics, opened

RATIOS, GRADIENTS, WEIGHTS = "update_ratio/{}", "grads/{}/norm", "params/{}/norm"


def watched(number: int, ratios: list[float], gradients: dict[str, float]) -> Record:
    grads = {GRADIENTS.format(layer): norm for layer, norm in gradients.items()}
    return metrics(number, {**layers(number, RATIOS, ratios), **grads})


def test_weights_that_no_optimizer_has_are_found() -> None:
    records = [watched(n, [1e-3, 0.0], {"a": 0.5, "b": 0.4}) for n in range(10)]
    (found,) = opened(FrozenLayer, records)
    assert (found.series, found.severity) == ("update_ratio/b", "warning")
    assert "The weights of b have not changed" in found.sentence


def test_weights_frozen_on_purpose_are_only_noted() -> None:
    (found,) = opened(FrozenLayer, [watched(n, [1e-3, 0.0], {"a": 0.5}) for n in range(10)])
    assert found.severity == "info"


def test_a_rate_of_zero_freezes_no_layer() -> None:
    records = [watched(n, [0.0, 0.0], {"a": 0.5, "b": 0.4}) for n in range(50)]
    assert opened(FrozenLayer, records) == []


def test_a_layer_without_gradient_is_left_to_another_rule() -> None:
    records = [watched(n, [1e-3, 0.0], {"a": 0.5, "b": 0.0}) for n in range(50)]
    assert opened(FrozenLayer, records) == []


def test_without_ratios_the_norms_tell() -> None:
    records = [
        metrics(n, {**layers(n, WEIGHTS, [5 + 0.01 * n, 7.0]), **layers(n, GRADIENTS, [1, 1])})
        for n in range(10)
    ]
    (found,) = opened(FrozenLayer, records)
    assert "weights of b" in found.sentence
