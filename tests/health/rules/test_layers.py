"""Rules on parameters that are not trained, dead layers, and the scale of weights and inputs."""

from collections.abc import Mapping
from typing import Any

import pytest

from epochal.health.engine import Health
from epochal.health.rules.layers import DeadLayer, InitScale, InputScale, UntrainedParameters
from epochal.records import Record
from tests.health.curve_records import falling, steps
from tests.health.machine_records import event, layers, metrics, opened, updated


def without_optimizer(count: int, names: list[str], at_step: int = 10) -> Record:
    fields = {"elements": 100 * count, "of": 8, "names": names}
    return event("parameters-without-optimizer", at_step=at_step, parameters=count, **fields)


def test_parameters_that_no_optimizer_has_are_a_warning_until_one_has() -> None:
    forgotten = without_optimizer(2, ["head.weight", "head.bias"])
    (found,) = opened(UntrainedParameters, [forgotten])
    assert (found.rule, found.severity, found.steps) == ("untrained-parameters", "warning", (0, 10))
    assert (found.evidence["parameters"], found.evidence["of"]) == (2, 8)
    assert "head.weight (and 1 more: head.bias)" in found.sentence
    later = without_optimizer(0, [], at_step=500)
    assert [one.state for one in updated(UntrainedParameters, [forgotten, later])] == [
        "open",
        "closed",
    ]
    assert opened(UntrainedParameters, [later]) == []


def test_the_series_of_the_same_parameters_make_no_second_finding() -> None:
    records = [moved(n, {"a": (1e-3, 0.5), "b": (0.0, 0.4)}) for n in range(10, 20)]
    assert len(opened(UntrainedParameters, [without_optimizer(1, ["b"]), *records])) == 1


def moved(number: int, parts: Mapping[str, tuple[float, float | None]]) -> Record:
    """A watched step: of each parameter, its update and its gradient."""
    values = {f"update_ratio/{name}": ratio for name, (ratio, _) in parts.items()}
    norms = {f"grads/{name}/norm": norm for name, (_, norm) in parts.items() if norm is not None}
    return metrics(number, {**values, **norms})


def test_weights_with_a_gradient_that_do_not_change_are_a_warning() -> None:
    records = [moved(n, {"a": (1e-3, 0.5), "b": (0.0, 0.4)}) for n in range(10)]
    (found,) = opened(UntrainedParameters, records)
    assert (found.series, found.severity, found.steps) == ("update_ratio/b", "warning", (0, 4))
    assert (found.evidence["layers"], found.evidence["since_step"]) == (1, 0)


HEADS = {f"heads.{name}.weight": (1e-3, 0.2) for name in ("left", "right")}


@pytest.mark.parametrize(
    "parts",
    [
        {"a": (0.0, 0.5), "b": (0.0, 0.4)},
        {"a": (1e-3, 0.5), "b": (0.0, 0.0)},
        {"a.weight": (1e-3, 0.5), "a.bias": (0.0, 2e-9)},
        {**HEADS, "heads.middle.weight": (0.0, None)},
        {**HEADS, "heads.middle.weight": (0.0, 1e-9)},
    ],
    ids=["a rate of 0", "no gradient", "a spare bias", "an unused head", "a head without samples"],
)
def test_others_that_do_not_change_are_fine(parts: dict[str, tuple[float, float | None]]) -> None:
    assert opened(UntrainedParameters, [moved(n, parts) for n in range(30)]) == []


def frozen(count: int, initialised: int, others: int) -> Record:
    fields = {"of": 28, "initialised": initialised, "others": others, "parameter": "0.weight"}
    return event("frozen-parameters", at_step=0, parameters=count, **fields)


def test_parameters_that_are_frozen_as_initialised_are_a_warning() -> None:
    (found,) = opened(UntrainedParameters, [frozen(26, 9, 0)])
    assert (found.severity, found.evidence["parameters"]) == ("warning", 26)
    # In fine-tuning, frozen ones have other norms; and a few tables may be frozen by design.
    assert opened(UntrainedParameters, [frozen(26, 7, 10)]) == []
    assert opened(UntrainedParameters, [frozen(2, 2, 0)]) == []


def test_gradients_without_a_step_are_a_warning() -> None:
    (found,) = opened(UntrainedParameters, [event("no-optimizer-step", passes=200)])
    assert (found.severity, found.evidence["passes"]) == ("warning", 200)


def watched(*norms: float, number: int) -> Record:
    return metrics(number, layers(number, "grads/{}/norm", norms))


def test_a_layer_without_gradient_is_a_warning_until_it_learns_again() -> None:
    dies = [watched(0.5, 0.0 if n >= 10 else 0.2, 0.3, number=n) for n in range(20)]
    (found,) = opened(DeadLayer, dies)
    assert (found.rule, found.severity, found.series) == ("dead-layer", "warning", "grads/b/norm")
    assert (found.steps, found.evidence["since_step"]) == ((10, 14), 10)
    back = [watched(0.5, 0.1, 0.3, number=n) for n in range(20, 30)]
    assert [one.state for one in updated(DeadLayer, dies + back)] == ["open", "closed"]


def test_a_branch_that_wakes_up_and_an_expert_now_and_then_are_not_dead() -> None:
    wakes = [watched(0.5, 0.0 if n < 3 else 0.1, 0.3, number=n) for n in range(50)]
    assert opened(DeadLayer, wakes) == []
    rare = [watched(0.5, 0.0 if n % 5 else 0.1, 0.3, number=n) for n in range(100)]
    assert opened(DeadLayer, rare) == []
    # What is used rarely is dead after a longer time.
    gone = [watched(0.5, 0.0, 0.3, number=n) for n in range(100, 140)]
    assert len(opened(DeadLayer, rare + gone)) == 1


def mixture(norms: Mapping[str, float], **others: float) -> list[Record]:
    """Watched steps of a mixture: of each branch, two layers with weight and bias."""
    values = {"grads/stem.weight/norm": 0.5}
    for branch, norm in norms.items():
        for part in ("0.weight", "0.bias", "2.weight", "2.bias"):
            values[f"grads/{branch}.{part}/norm"] = norm
    values |= {f"grads/{name}/norm": norm for name, norm in others.items()}
    return [metrics(n, values) for n in range(30)]


def members(name: str, idle: int) -> dict[str, float]:
    return {f"{name}.{n}": 0.0 if n == idle else 0.2 for n in range(4)}


def test_experts_and_heads_without_samples_are_not_dead() -> None:
    assert opened(DeadLayer, mixture(members("moe.experts", 0))) == []
    assert opened(DeadLayer, mixture(members("moe.experts", 3))) == []
    heads = {"heads.left": 0.3, "heads.right": 0.2, "heads.middle": 0.0}
    assert opened(DeadLayer, mixture(heads)) == []
    parts = members("moe.parts", 2)
    assert len(opened(DeadLayer, mixture(parts))) == 1
    assert opened(DeadLayer, mixture(parts, **{"moe.router.weight": 0.1})) == []


def test_a_block_of_a_chain_and_half_a_branch_are_dead() -> None:
    for chain in ("layers", "h"):
        (found,) = opened(DeadLayer, mixture(members(chain, 2)))
        assert found.series == f"grads/{chain}.2.0.weight/norm"
    half = mixture(members("moe.experts", 1), **{"moe.experts.1.2.bias": 0.1})
    (found,) = opened(DeadLayer, half)
    assert found.series == "grads/moe.experts.1.0.weight/norm"


def test_a_part_that_learned_before_is_finished_and_not_dead() -> None:
    names = ("enc.0.weight", "enc.0.bias", "dec.0.weight", "dec.0.bias", "head.weight")

    def run(dead: set[str], *, since: int) -> list[Record]:
        zero = [set() if n < since else dead for n in range(60)]
        return [
            metrics(n, {f"grads/{one}/norm": 0.0 if one in zero[n] else 0.2 for one in names})
            for n in range(60)
        ]

    decoder = {"dec.0.weight", "dec.0.bias"}
    assert opened(DeadLayer, run(decoder, since=10)) == []
    assert len(opened(DeadLayer, run(decoder, since=0))) == 1
    assert len(opened(DeadLayer, run({"enc.0.weight", "enc.0.bias", *decoder}, since=10))) == 1
    assert len(opened(DeadLayer, run({"dec.0.weight"}, since=10))) == 1


def test_a_bias_that_the_loss_does_not_depend_on_is_not_dead() -> None:
    # Distances between outputs of one network do not change with the bias of its last layer.
    norms = {"0.weight": 0.5, "0.bias": 0.2, "2.weight": 0.3, "2.bias": 0.0}
    values = {f"grads/{name}/norm": norm for name, norm in norms.items()}
    assert opened(DeadLayer, [metrics(n, values) for n in range(20)]) == []
    values["grads/2.weight/norm"] = 0.0
    (found,) = opened(DeadLayer, [metrics(n, values) for n in range(20)])
    assert found.evidence["layers"] == 2


def units(share: float) -> list[Record]:
    """Watched steps of a weight; from the fifth on, a share of its rows has no gradient."""
    norms = {"grads/0.weight/norm": 0.5, "grads/2.weight/norm": 0.3}
    return [
        metrics(n, {**norms, "grads/0.weight/dead": 0.2 if n < 5 else share}) for n in range(20)
    ]


def test_units_that_are_dead_are_a_warning() -> None:
    (found,) = opened(DeadLayer, units(0.98))
    assert (found.severity, found.series) == ("warning", "grads/0.weight/dead")
    assert (found.steps, found.evidence["share"]) == ((5, 9), 0.98)
    assert opened(DeadLayer, units(0.9)) == []


def drawn(scale: float, *, at_step: int = 0) -> list[Record]:
    fields = {"parameter": "a.weight", "parameters": 6, "scale": scale}
    return [metrics(0, {"loss": 1.0}), event("initial-scale", at_step=at_step, **fields)]


def test_elements_far_from_what_torch_draws_are_a_warning() -> None:
    for scale, how in ((17.2, "far too large"), (0.001, "far too small")):
        (found,) = opened(InitScale, drawn(scale))
        assert (found.rule, found.severity, found.evidence["scale"]) == (
            "init-scale",
            "warning",
            scale,
        )
        assert how in found.sentence
    assert opened(InitScale, drawn(4.0)) == []
    assert opened(InitScale, drawn(17.2, at_step=100)) == []


def test_a_first_loss_far_above_guessing_is_a_warning() -> None:
    thrown = steps([120 * 0.85**n + 2.2 for n in range(60)])
    (found,) = opened(InitScale, thrown, config={"num_classes": 10})
    assert (found.severity, found.evidence["classes"]) == ("warning", 10)
    assert opened(InitScale, thrown) == []  # nobody knows how many classes there are


@pytest.mark.parametrize(
    ("losses", "config"),
    [
        (falling(100, start=2.5, floor=0.5), {"num_classes": 10}),
        ([10.4 * 0.95**n for n in range(60)], {"num_classes": 8}),
        (
            [64 * one for one in falling(100, start=2.3, floor=0.9)],
            {"num_classes": 10, "batch_size": 64},
        ),
    ],
    ids=["near guessing", "several terms", "a sum over the batch"],
)
def test_other_first_losses_are_fine(losses: list[float], config: dict[str, Any]) -> None:
    assert opened(InitScale, steps(losses), config=config) == []


def inputs(scale: float, **fields: object) -> Record:
    numbers = {"mean": 0.45 * scale, "std": 0.28 * scale, "min": 0.0, "max": scale}
    known = {"at_step": 0, "mode": "train", "where": "model", "after_norm": False}
    return event("inputs", **known, **numbers) | fields


def test_images_that_were_not_divided_by_255_are_a_warning() -> None:
    (found,) = opened(InputScale, [inputs(255.0, at_step=1), inputs(255.0, at_step=2)])
    assert (found.rule, found.severity, found.steps) == ("input-scale", "warning", (1, 1))
    assert found.evidence["highest"] == 255.0
    fine = [inputs(255.0), inputs(1.0, at_step=50), inputs(1.0, at_step=100)]
    assert [one.state for one in updated(InputScale, fine)] == ["open", "closed"]


@pytest.mark.parametrize(
    "record",
    [inputs(1.0), inputs(255.0, after_norm=True), inputs(255.0, mode="eval")],
    ids=["between 0 and 1", "a normalisation comes first", "of an evaluation"],
)
def test_other_inputs_are_fine(record: Record) -> None:
    assert opened(InputScale, [record, record]) == []


def test_the_inputs_of_a_training_of_one_step_are_judged_at_its_end() -> None:
    health = Health(rules=[InputScale])
    assert health.feed(inputs(255.0)) == []
    assert [found.rule for found in health.close()] == ["input-scale"]


def of_layer(scale: float, **fields: object) -> Record:
    return inputs(scale, where="layers.0", **fields)


def test_what_the_first_layer_gets_decides() -> None:
    """Embeddings take category numbers as floats, and a model may normalise its inputs."""
    passes = [
        record | {"at_step": at, "mode": mode}
        for at in range(10)
        for mode in ("train", "eval")
        for record in (inputs(500.0), event("checkpoint"), of_layer(1.3))
    ]
    assert opened(InputScale, passes) == []
    large = [record for at in range(9) for record in (inputs(1.0, at_step=at), of_layer(255.0))]
    said = updated(InputScale, large)
    assert [(found.state, found.series) for found in said] == [("open", "inputs of layers.0")]
    assert "the layer layers.0" in said[0].sentence
    # A layer that is not in every pass.
    late = [inputs(255.0), inputs(255.0, at_step=1), inputs(255.0, at_step=2), of_layer(1.0)]
    assert [found.state for found in updated(InputScale, late)] == ["open", "closed"]
