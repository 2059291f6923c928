from epochal.health.rules.layers import UntrainedParameters
from epochal.records import Record
from tests.health.machine_records import START, layers, metrics, opened

RATIOS, GRADIENTS, WEIGHTS = "update_ratio/{}", "grads/{}/norm", "params/{}/norm"


def watched(number: int, ratios: list[float], gradients: dict[str, float]) -> Record:
    grads = {GRADIENTS.format(layer): norm for layer, norm in gradients.items()}
    return metrics(number, {**layers(number, RATIOS, ratios), **grads})


def test_weights_that_no_optimizer_has_are_found() -> None:
    records = [watched(n, [1e-3, 0.0], {"a": 0.5, "b": 0.4}) for n in range(10)]
    (found,) = opened(UntrainedParameters, records)
    assert (found.series, found.severity) == ("update_ratio/b", "warning")
    assert "The weights of b have not changed" in found.sentence


def test_a_rate_of_zero_freezes_no_layer() -> None:
    records = [watched(n, [0.0, 0.0], {"a": 0.5, "b": 0.4}) for n in range(50)]
    assert opened(UntrainedParameters, records) == []


def test_a_layer_without_gradient_is_left_to_another_rule() -> None:
    records = [watched(n, [1e-3, 0.0], {"a": 0.5, "b": 0.0}) for n in range(50)]
    assert opened(UntrainedParameters, records) == []


def initialised(number: int, *, scale: float = 1.0) -> Record:
    """A body without gradients, as torch initialises 32, 128 and 128 units, and a head."""
    norms = {
        "params/0.weight/norm": 6.53 * scale,
        "params/0.bias/norm": 1.155,
        "params/2.weight/norm": 6.53,
        "params/2.bias/norm": 0.577,
        "params/4.weight/norm": 1.8 + 0.01 * number,
        "params/4.bias/norm": 0.2,
    }
    return metrics(number, {**norms, "grads/4.weight/norm": 0.5, "update_ratio/4.weight": 1e-3})


def test_layers_frozen_after_a_training_are_fine() -> None:
    assert opened(UntrainedParameters, [initialised(n, scale=1.4) for n in range(10)]) == []


def test_layers_that_were_trained_briefly_and_frozen_are_fine() -> None:
    counts = {"parameter": "0.weight", "parameters": 6, "of": 8, "initialised": 3, "others": 2}
    told = event("frozen-parameters", **counts)
    assert opened(UntrainedParameters, [told, *(initialised(n) for n in range(10))]) == []


def test_a_bias_whose_gradient_is_rounding_is_not_frozen() -> None:
    def record(number: int, gradient: float) -> Record:
        ratios = {"update_ratio/a.weight": 1e-3, "update_ratio/a.bias": 0.0}
        gradients = {"grads/a.weight/norm": 0.5, "grads/a.bias/norm": gradient}
        return metrics(number, {**ratios, **gradients})

    assert opened(UntrainedParameters, [record(n, 2e-9) for n in range(10)]) == []
    assert len(opened(UntrainedParameters, [record(n, 0.05) for n in range(10)])) == 1


def event(name: str, **fields: object) -> Record:
    return {"log": "event", "t": START, "name": name, **fields}


def test_frozen_parameters_that_are_as_initialised_are_a_warning() -> None:
    counts = {"parameter": "0.weight", "parameters": 26, "of": 28}
    (found,) = opened(
        UntrainedParameters, [event("frozen-parameters", **counts, initialised=9, others=0)]
    )
    assert found.severity == "warning"
    assert "26 of 28 parameters are frozen" in found.sentence
    # Trained ones have other norms, and a few tables may be frozen by design.
    assert (
        opened(
            UntrainedParameters, [event("frozen-parameters", **counts, initialised=7, others=10)]
        )
        == []
    )
    few = {"parameter": "0.weight", "parameters": 2, "of": 28, "initialised": 2, "others": 0}
    assert opened(UntrainedParameters, [event("frozen-parameters", **few)]) == []


def test_gradients_without_a_step_are_a_warning() -> None:
    (found,) = opened(UntrainedParameters, [event("no-optimizer-step", passes=200)])
    assert "no optimizer has taken a step" in found.sentence
    assert "optimizer.step()" in found.advice


def test_a_head_without_samples_is_neither_frozen_nor_noted() -> None:
    def run(gradient: float | None) -> list[Record]:
        values = {}
        for name in ("left", "right", "middle"):
            is_idle = name == "middle"
            values[f"update_ratio/heads.{name}.weight"] = 0.0 if is_idle else 1e-3
            values[f"params/heads.{name}.weight/norm"] = 2.0
            if gradient is not None or not is_idle:
                norm = (gradient or 0.0) if is_idle else 0.2
                values[f"grads/heads.{name}.weight/norm"] = norm
        return [metrics(20 * n, values) for n in range(30)]

    assert opened(UntrainedParameters, run(None)) == []
    assert opened(UntrainedParameters, run(1e-9)) == []
    assert len(opened(UntrainedParameters, run(0.1))) == 1
